"""What is known of the names in an error: what the sources and the wheels of the releases of torch have."""

from __future__ import annotations

import pytest

from abiscan.diagnosis.names import of_library, of_operator, of_parameter, of_symbol


@pytest.mark.parametrize(
    ("function", "parameter", "name", "first"),
    [
        ("load", "mmap", "torch.serialization.load", "2.1.0"),
        ("export", "strict", "torch.export.export", "2.2.0"),  # and torch._export.export, which nobody calls
    ],
)
def test_a_parameter_is_there_from_a_release_on(function: str, parameter: str, name: str, first: str) -> None:
    known = of_parameter(function, parameter)
    assert known is not None
    assert known.lines[0] == name
    assert known.there is not None
    assert (known.there[0], known.there[-1]) == (first, "2.15.0")


def test_a_decorated_function_has_parameters_that_are_not_known() -> None:
    # From torch 2.1 on, ``checkpoint`` is decorated by ``torch._disable_dynamo``; it has kept the parameter.
    known = of_parameter("checkpoint", "use_reentrant")
    assert known is not None
    assert known.there is None
    assert known.lines[1].strip() == (
        "has the parameter use_reentrant in torch 1.11.0-2.0.1; its parameters in torch 2.1.0-2.15.0 are not known"
    )


def test_what_torch_never_had() -> None:
    assert of_parameter("load", "nonsense") is None


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("libcudart.so.12", "torch built for CUDA 12: 2.1.0-2.10.0"),  # the wheels of PyPI
        ("libcudart.so.10.2", "torch built for CUDA 10: 1.4.0-1.12.1"),
        ("libcublas.so.12", "cublas of CUDA, version 12"),
        ("libamdhip64.so.6", "amdhip64 of ROCm, version 6"),
        ("libpython3.11.so.1.0", "Python 3.11 as a library"),
        ("libtorch_cuda.so", "it is in 1.5.0-"),  # torch 1.4.0 had one libtorch.so
        ("libsomething.so.1", "libsomething.so.1"),
    ],
)
def test_a_library(library: str, words: str) -> None:
    known = of_library(library)
    assert known is not None
    assert words in known.lines[-1]


@pytest.mark.parametrize("name", ["add", "::add", "aten::", "no namespace::add", "nobody::knows"])
def test_what_is_no_known_operator(name: str) -> None:
    assert of_operator(name) is None


def test_an_operator_of_a_package() -> None:
    known = of_operator("torchvision::nms")
    assert known is not None
    assert (known.package, known.there) == ("torchvision", None)


def test_an_operator_that_came_later() -> None:
    known = of_operator("aten::_grouped_mm")  # native_functions.yaml of torch 2.8.0
    assert known is not None
    assert known.there is not None
    assert known.there[0] == "2.8.0"


@pytest.mark.parametrize(
    ("torch", "cause"),
    [("2.5.1", None), ("2.5.1+cu124", None), ("2.7.0", "cxx11-abi-mismatch"), (None, "cxx11-abi-mismatch")],
)
def test_a_name_with_the_other_string(torch: str | None, cause: str | None) -> None:
    """The wheels on PyPI have the new ``std::string`` since torch 2.7 (its release notes): this is the old one."""
    known = of_symbol("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", torch=torch)
    assert known.there is not None
    assert ("2.5.1" in known.there, "2.7.0" in known.there) == (True, False)
    assert known.cause == cause
