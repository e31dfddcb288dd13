"""Which of several problems a load fails with, and whether its text is certain."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec.structs
import pytest

from abiscan.binary.elf import Machine, SharedObject
from abiscan.inputs.interpreter import Interpreter
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.first_error import first_error
from abiscan.linkage.model import LoadError, Process
from abiscan.linkage.resolve import resolve_load
from abiscan.linkage.scope import Loader, SearchPath
from tests.registrations import registering
from tests.world import ObjectsByPath, shared_object, tag

FACTS: Final = shared_object(defines=["PyInit__C"])
TWICE: Final[dict[str, Any]] = {
    "registers": [{"library": "TORCH_LIBRARY", "namespace": "aten"}],
    "has": {"namespaces": ["aten"], "entries": []},
}


def failing(
    case: dict[str, Any], unworded: Collection[str] | None = (), facts: SharedObject = FACTS
) -> LoadError | None:
    """The error in a Python 3.11; ``unworded`` is None for a torch whose operators are unknown."""
    process = Process(has_python=True)
    loader = Loader(ObjectsByPath({"/x/_C.so": facts}), SearchPath(), Machine.X86_64)
    found = registering(case, "_C.so", TorchVersion("2.13.0"))
    assert found is not None
    assert found.operators is not None
    operators = None if unworded is None else msgspec.structs.replace(found.operators, unworded=frozenset(unworded))
    found = msgspec.structs.replace(found, operators=operators)
    resolution = resolve_load(process, loader.open(process, "/x/_C.so"))
    return first_error("/x/_C.so", facts, resolution, Interpreter(tag=tag("3.11")), found)


@pytest.mark.parametrize(
    ("unworded", "exact"),
    [((), True), (None, True), (("K1",), True), (("N1",), False), (("K1", "N1"), False)],
)
def test_the_text_of_an_error_is_certain_unless_the_torch_does_not_have_it(
    unworded: Collection[str] | None, exact: bool
) -> None:
    """N1 is "Only a single TORCH_LIBRARY can be used to register the namespace aten"."""
    error = failing(TWICE, unworded)
    assert error is not None
    assert error.message.startswith("Only a single TORCH_LIBRARY can be used to register the namespace aten")
    assert (error.object, error.exact) == (None, exact)


@pytest.mark.parametrize("unworded", [(), ("N1",)])
def test_the_place_of_an_assertion_in_an_unknown_build_is_not_certain(unworded: Collection[str]) -> None:
    opens = {"library": "TORCH_LIBRARY_FRAGMENT", "namespace": "ns", "key": "CPU"}  # an internal assertion fails
    error = failing({"registers": [opens], "has": {"namespaces": ["aten"], "entries": []}}, unworded)
    assert error is not None
    assert "?" in error.message
    assert not error.exact


TWO: Final = "Only a single TORCH_LIBRARY"
MISMATCH: Final = "Python version mismatch: module was compiled for Python 3.12"


@pytest.mark.parametrize(
    ("phase", "compiled_for", "begins"),
    [
        ("static-init", "3.12", TWO),  # in dlopen, before Python calls PyInit__C
        ("module-init", "3.12", MISMATCH),  # PYBIND11_CHECK_PYTHON_VERSION is what PyInit__C begins with
        ("on-call", "3.12", MISMATCH),
        ("static-init", "3.11", TWO),
        ("module-init", "3.11", TWO),
        ("on-call", "3.11", None),  # nobody calls it while it is imported
    ],
)
def test_the_version_of_python_is_checked_after_static_initialisers(
    phase: str, compiled_for: str, begins: str | None
) -> None:
    steps = [{**step, "phase": phase} for step in TWICE["registers"]]
    facts = shared_object(defines=["PyInit__C"], pybind11_python=[compiled_for])
    error = failing({**TWICE, "registers": steps}, facts=facts)
    assert (error is None) is (begins is None)
    assert error is None or error.message.startswith(str(begins))
