from __future__ import annotations

import pytest

from abiscan.binary.elf import SharedObject
from abiscan.inputs.interpreter import Interpreter
from abiscan.linkage.model import LoadError
from abiscan.linkage.python_import import compiled_for, expected_tag, import_error
from tests.world import shared_object, tag

HERE = Interpreter(tag=tag("3.11"), full_version="3.11.9 (main) [GCC 12.2.0]")


def module(*pythons: str) -> SharedObject:
    return shared_object(defines=["PyInit_m"], pybind11_python=pythons)


def test_a_tag_counts_for_modules_only() -> None:
    assert expected_tag("m.cpython-312-x86_64-linux-gnu.so", module()) == tag("3.12")
    assert expected_tag("m.cpython-312-x86_64-linux-gnu.so", shared_object()) is None


@pytest.mark.parametrize(
    ("pythons", "version"),
    [((), None), (("3.12",), "3.12"), (("3.11", "3.12"), "3.11"), (("3.12", "3.13"), None)],
)
def test_the_python_that_a_pybind11_module_was_compiled_for(pythons: tuple[str, ...], version: str | None) -> None:
    assert compiled_for(module(*pythons), HERE) == version


def test_a_library_that_is_no_module_was_compiled_for_no_python() -> None:
    assert compiled_for(shared_object(pybind11_python=("3.12",)), HERE) is None


def test_what_pybind11_says() -> None:
    assert import_error("/x/m.so", module("3.12"), HERE) == LoadError(
        object=None,
        message=(
            "Python version mismatch: module was compiled for Python 3.12, but the interpreter version is "
            "incompatible: 3.11.9 (main) [GCC 12.2.0]."
        ),
    )


def test_what_importlib_says() -> None:
    error = import_error("/x/m.cpython-312-x86_64-linux-gnu.so", module(), HERE)
    assert error == LoadError(object=None, message="No module named 'm'")


@pytest.mark.parametrize("name", ["m.so", "m.abi3.so", "m.cpython-311-x86_64-linux-gnu.so"])
def test_names_that_this_python_takes(name: str) -> None:
    assert import_error(f"/x/{name}", module("3.11"), HERE) is None


def test_a_free_threaded_build_is_another_python() -> None:
    error = import_error("/x/m.cpython-313t-x86_64-linux-gnu.so", module(), Interpreter(tag=tag("3.13")))
    assert error == LoadError(object=None, message="No module named 'm'")


def test_nothing_is_said_of_libraries_or_without_a_python() -> None:
    assert import_error("/x/m.cpython-312-x86_64-linux-gnu.so", shared_object(), HERE) is None
    assert import_error("/x/m.cpython-312-x86_64-linux-gnu.so", module(), None) is None
