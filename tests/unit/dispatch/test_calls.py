"""What happens when an operator is called: whether it is for a backend, who does the work, and what torch says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec.structs
import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.calls import (
    Failure,
    failure_message,
    find_delegates,
    find_failure,
    is_done_by_autograd,
    takes_backend,
)
from abiscan.dispatch.calls import lookup_message as lookup
from abiscan.dispatch.operators import Fallback, Kernel, Operator
from abiscan.dispatch.table import DispatchTable
from abiscan.inputs.version import MinorVersion
from abiscan.torches.embedded_operators import operators

VERSIONS: Final[dict[MinorVersion, str]] = {
    (1, 4): "1.4.0",
    (1, 6): "1.6.0",
    (1, 7): "1.7.1",
    (1, 8): "1.8.1",
    (1, 9): "1.9.1",
    (2, 13): "2.13.0",
}
ANY: Final = "(Tensor x) -> Tensor"
GENERATED: Final = "torch/csrc/autograd/generated/VariableType_1.cpp"


def table(
    kernels: Mapping[str, Sequence[Kernel | str | None]],
    release: MinorVersion = (2, 13),
    schemas: Mapping[str, str | None] | None = None,
    fallbacks: Sequence[Fallback] = (),
) -> DispatchTable:
    """The keys of a release, and nothing registered but this; a key stands for a kernel for it."""
    base = operators(VERSIONS[release], Machine.X86_64, ())
    defined = {name: f"{name}{ANY}" for name in kernels} if schemas is None else schemas
    found = [
        each._replace(operator=name) if isinstance(each, Kernel) else kernel(each, name)
        for name, all_ in kernels.items()
        for each in all_
    ]
    return DispatchTable(
        release,
        msgspec.structs.replace(
            base,
            operators={name: Operator(name, schema, (), "f.cpp", 1) for name, schema in defined.items()},
            kernels=tuple(found),
            fallbacks=tuple(fallbacks),
        ),
    )


def kernel(key: str | None, name: str = "", *, fallthrough: bool = False, file: str | None = "f.cpp") -> Kernel:
    return Kernel(name, key, None, None, fallthrough, file, 1)


@pytest.mark.parametrize(
    ("schema", "keys", "expected"),
    [
        (None, (), True),  # it may have one
        ("f(Tensor x) -> int", (), True),
        ("f(Tensor[] xs) -> ()", (), True),
        ("f(int n, Tensor? x=None) -> ()", (), True),
        ("f(int n) -> Tensor", (), False),
        ("f(__torch__.torch.classes.ns.TensorList x) -> ()", (), False),  # of another class
        ("f(int n, *, Device? device=None) -> Tensor", ("CPU",), False),
        ("f(int n, *, Device? device=None) -> Tensor", ("CPU", "BackendSelect"), True),
    ],
)
def test_what_can_be_for_a_backend(schema: str | None, keys: Sequence[str], expected: bool) -> None:
    # BackendSelect has a fallthrough for every operator: it is a kernel of its own that chooses by the device argument.
    through = Fallback("BackendSelect", True, "f.cpp", 1)
    found = table({"ns::f": keys}, schemas={"ns::f": schema}, fallbacks=[through])
    assert takes_backend(found, found.operators.operators["ns::f"]) is expected


@pytest.mark.parametrize(
    ("kernels", "key"),
    [
        (["XLA"], None),
        (["CompositeExplicitAutograd"], None),
        (["CPU"], "XLA"),
        (["AutogradCPU", "CPU"], "XLA"),
        ([kernel("XLA", fallthrough=True)], "Undefined"),
        ([kernel("XLA", fallthrough=True), "Undefined"], None),
        ([kernel("XLA", fallthrough=True), "CompositeExplicitAutograd"], None),  # which has that of Undefined
        ([kernel("XLA", fallthrough=True), "Autograd"], "Undefined"),
    ],
)
def test_where_a_call_fails(kernels: Sequence[Kernel | str], key: str | None) -> None:
    found = find_failure(table({"ns::f": kernels}), "ns::f", "XLA")
    assert found == (None if key is None else Failure(operator="ns::f", key=key))


@pytest.mark.parametrize(
    ("kernels", "backend", "release", "expected"),
    [
        (["Autograd"], "XLA", (2, 13), True),
        (["AutogradXLA"], "XLA", (2, 13), True),
        (["AutogradXLA"], "CPU", (2, 13), False),
        (["AutogradOther"], "SparseCPU", (2, 13), True),  # which has no key of its own for gradients
        (["AutogradOther"], "XLA", (2, 13), False),
        (["AutogradNestedTensor"], "NestedTensorCUDA", (2, 13), True),
        (["AutogradNestedTensor"], "CUDA", (2, 13), False),
        (["Autograd", "CPU"], "XLA", (2, 13), False),  # there is a kernel that it passes calls on to
        (["Autograd", "BackendSelect"], "XLA", (2, 13), True),  # not the kernel of a backend
        (["CompositeImplicitAutograd"], "XLA", (2, 13), False),  # a kernel of the backend, too
        ([kernel("Autograd", fallthrough=True)], "XLA", (2, 13), False),
        ([kernel("Autograd", file=GENERATED)], "XLA", (2, 13), False),
        ([kernel("Autograd", file=None)], "XLA", (2, 13), True),
        (["Autograd", kernel("AutogradXLA", fallthrough=True)], "XLA", (2, 13), False),
        ([kernel("Autograd", fallthrough=True), "AutogradXLA"], "XLA", (2, 13), True),
        ([], "XLA", (2, 13), False),
        (["Autograd"], "XLA", (1, 7), True),
        (["AutogradXLA"], "XLA", (1, 6), False),  # nothing says which keys are for gradients
    ],
)
def test_when_the_kernel_for_gradients_does_the_work(
    kernels: Sequence[Kernel | str], backend: str, release: MinorVersion, expected: bool
) -> None:
    assert is_done_by_autograd(table({"ns::f": kernels}, release), "ns::f", backend) is expected


REASON: Final = "Could not run 'ns::f' with arguments from the 'XLA' backend. "
OMITTED: Final = (
    "This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom "
    "build process (if using custom build). If you are a Facebook employee using PyTorch on mobile, please visit "
    "https://fburl.com/ptmfixes for possible resolutions. "
)


@pytest.mark.parametrize(
    ("release", "text", "exact"),
    [
        ((1, 4), REASON + "'ns::f' is only available for these backends: [CPU].", False),
        ((1, 6), REASON + "'ns::f' is only available for these backends: [CPU].", True),
        ((1, 7), REASON + "'ns::f' is only available for these backends: [CPU, BackendSelect].", True),
        ((1, 8), REASON + OMITTED + "'ns::f' is only available for these backends: [CPU, BackendSelect].", True),
        ((2, 13), REASON + OMITTED + "'ns::f' is only available for these backends: [CPU, BackendSelect].", True),
    ],
)
def test_a_backend_without_a_kernel(release: MinorVersion, text: str, exact: bool) -> None:
    """``DispatchTable::reportError`` up to 1.6, then ``OperatorEntry::reportError``, which lists fallbacks as well."""
    suffix = "TensorId" if release == (1, 4) else ""
    select = Fallback("BackendSelect", True, "f.cpp", 1)
    found = table({"ns::f": [f"CPU{suffix}"]}, release, fallbacks=[select] if release > (1, 4) else ())
    message = failure_message(found, Failure(operator="ns::f", key=f"XLA{suffix}"))
    assert (message.id, message.text.replace("TensorId", ""), message.exact) == ("K6", text, exact)


@pytest.mark.parametrize(
    ("release", "end"),
    [
        ((1, 6), "list of Tensors.  Available functions are [CPU]"),
        ((1, 7), "list of Tensors.  Available functions are [CPU]."),
        (
            (1, 9),
            (
                "list of Tensors, or that you (the operator writer) forgot to register a fallback function.  Available "
                "functions are [CPU]."
            ),
        ),
    ],
)
def test_nobody_has_a_tensor(release: MinorVersion, end: str) -> None:
    message = failure_message(table({"ns::f": ["CPU"]}, release), Failure(operator="ns::f", key="Undefined"))
    assert message.id == "K7"
    assert message.text == (
        "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), but no fallback "
        f"function is registered for schema ns::f.  This usually means that this function requires a non-empty {end}"
    )


@pytest.mark.parametrize(
    ("name", "implemented", "text"),
    [
        ("ns::f", False, "Could not find schema for ns::f."),
        ("ns::f.out", False, "Could not find schema for ns::f.out"),
        ("my.ns::f", False, "Could not find schema for my.ns::f."),
        (
            "ns::f",
            True,
            ("Could not find schema for ns::f. but we found an implementation; did you forget to def() the operator?"),
        ),
    ],
)
def test_a_name_that_torch_does_not_know(name: str, implemented: bool, text: str) -> None:
    assert lookup((2, 13), name, implemented=implemented).text == text


def test_the_operators_that_a_structured_kernel_calls() -> None:
    """``structured_delegate`` of native_functions.yaml in torch 2.13.0."""
    found = DispatchTable((2, 13), operators("2.13.0", Machine.X86_64))
    theirs = {
        "aten::tanh": "aten::tanh.out",
        "aten::tanh_": "aten::tanh.out",
        "aten::add.Tensor": "aten::add.out",
        "aten::add_.Tensor": "aten::add.out",
        "aten::sum.dim_IntList": "aten::sum.IntList_out",
        "aten::scatter.value_reduce": "aten::scatter.value_reduce_out",
        "aten::max_pool2d_with_indices": "aten::max_pool2d_with_indices.out",
        "aten::_convert_indices_from_csr_to_coo": "aten::_convert_indices_from_csr_to_coo.out",
        "aten::topk": "aten::topk.values",
        "aten::linalg_inv_ex": "aten::linalg_inv_ex.inverse",
    }
    none = {"aten::add.Scalar", "aten::add.out", "aten::view", "aten::matmul", "aten::gone"}
    assert find_delegates(found, "PrivateUse1", [*sorted(none), *theirs, *sorted(none)]) == theirs
    assert find_delegates(found, "CPU", theirs) == {}  # it has kernels of its own


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        ({"ns::f": "(Tensor x) -> Tensor", "ns::f.o": "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"}, "ns::f.o"),
        ({"ns::f": "(Tensor x) -> Tensor", "ns::f.o": "(Tensor x, int n, *, Tensor(a!) out) -> Tensor(a!)"}, None),
        ({"ns::f": "(Tensor x) -> Tensor", "ns::f.o": "(Tensor y, *, Tensor(a!) out) -> Tensor(a!)"}, None),
        ({"ns::f": "(Tensor x) -> Tensor", "ns::f.o": "(Tensor? x, *, Tensor(a!) out) -> Tensor(a!)"}, None),
        ({"ns::f": "(Tensor x) -> Tensor", "ns::f.o": "(Tensor x) -> Tensor"}, None),
        ({"ns::f": "(Tensor x) -> Tensor", "ns::g.o": "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"}, None),
        ({"ns::f": "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"}, None),  # not to itself
        ({"ns::f": "(Tensor x, *, int n) -> Tensor", "ns::f_": "(Tensor(a!) x, *, int n) -> Tensor(a!)"}, None),
        ({"ns::f": "not a schema", "ns::f.o": "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"}, None),
        ({"ns::f": None, "ns::f.o": "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"}, None),
        ({"ns::f": "(Tensor x) -> Tensor", "ns::f.o": None}, None),
        ({"ns::f.o": "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"}, None),  # ns::f has only a kernel
    ],
)
def test_it_calls_the_one_with_the_same_inputs_that_has_an_output(
    schemas: Mapping[str, str | None], expected: str | None
) -> None:
    texts = {name: text and name + text for name, text in schemas.items()}
    found = table({"ns::f": ["CompositeExplicitAutogradNonFunctional"]}, schemas=texts)
    assert find_delegates(found, "PrivateUse1", ["ns::f"]) == ({} if expected is None else {"ns::f": expected})
    assert find_delegates(found, "XLA", ["ns::f"]) == {}  # which is functional, and has none of these kernels


def test_any_other_composite_kernel_does_the_work_itself() -> None:
    schemas = {"ns::f": "ns::f(Tensor x) -> Tensor", "ns::f.o": "ns::f.o(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"}
    for key in ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "PrivateUse1", "CPU"):
        assert find_delegates(table({"ns::f": [key]}, schemas=schemas), "PrivateUse1", ["ns::f"]) == {}
