"""What a backend can do, in a dispatcher of few operators: each is there for one way of being served, or not."""

from __future__ import annotations

from collections.abc import Mapping

from abiscan.binary.elf import Machine
from abiscan.dispatch.coverage import Coverage, MissingKernel, cover
from abiscan.dispatch.keys import keys_of
from abiscan.dispatch.operators import Kernel, Operator, Operators
from abiscan.dispatch.table import DispatchTable, EntrySource
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded_operators

VERSION = TorchVersion("2.9.1")
BASE = embedded_operators.operators(str(VERSION), Machine.X86_64, ())
# Operators and the keys that they have kernels for. ``c10/core/DispatchKey.h`` says what a key for several includes;
# a row of the table takes the first of: the backend's own kernel, that of all backends, that of these and gradients.
KERNELS = {
    "ns::own": ("XLA",),
    "ns::own.other": ("CPU",),
    "ns::any": ("CompositeExplicitAutograd",),
    "ns::composite": ("CompositeImplicitAutograd",),
    "ns::gradient": ("Autograd",),
    "ns::cpu": ("CPU",),
    "ns::with_meta": ("CPU", "Meta"),
    "ns::cuda": ("CUDA",),
    "ns::without_tensor": ("CPU",),
    "ns::factory": ("CPU", "BackendSelect"),
}
SCHEMAS = {"ns::without_tensor": "(int x) -> int", "ns::factory": "(int x, *, Device? device=None) -> Tensor"}


def table(release: tuple[int, int] = (2, 9), of: Mapping[str, tuple[str, ...]] = KERNELS) -> DispatchTable:
    schemas = {name: name + SCHEMAS.get(name, "(Tensor x) -> Tensor") for name in of}
    kernels = [(name, key) for name, keys in of.items() for key in keys]
    return DispatchTable(
        release,
        Operators(
            operators={name: Operator(name, schema, (), None, None) for name, schema in schemas.items()},
            kernels=tuple(Kernel(name, key, None, None, False, "f.cpp", 1) for name, key in kernels),
            fallbacks=(),
            namespaces={},
            classes=frozenset(),
            keys=keys_of(VERSION).names,
            aliases=BASE.aliases,
            gaps=(),
        ),
    )


def missing(found: Coverage) -> dict[str, MissingKernel]:
    return {each.operator.removeprefix("ns::"): each for each in found.missing}


def test_how_each_operator_is_served() -> None:
    found = cover(table(), "XLA", frozenset())
    assert found.served == {
        EntrySource.KERNEL: 1,
        EntrySource.DEFAULT_BACKEND: 1,
        EntrySource.MATH: 1,
        EntrySource.AUTOGRAD: 1,  # the work is done before the backend's turn, and it has no kernel
    }
    assert set(missing(found)) == {"own.other", "cpu", "with_meta", "cuda", "factory"}
    assert (found.ambiguous, found.unknown) == ((), ())


def test_only_what_is_asked_for() -> None:
    """A name stands for its overloads where it is none itself; what takes no tensor is for no backend."""
    found = cover(table(), "XLA", frozenset(), ["ns::cuda", "ns::without_tensor", "ns::gone", "ns::own", "ns::cuda"])
    assert found.served == {EntrySource.KERNEL: 1}
    assert set(missing(found)) == {"cuda"}
    assert found.unknown == ("ns::gone",)


def test_what_python_may_add() -> None:
    """From 1.13 on torch registers Meta kernels in Python (``torch/_meta_registrations.py``), and prints all keys."""
    assert {name: each.exact for name, each in missing(cover(table(), "XLA", frozenset())).items()} == {
        "own.other": False,
        "cpu": False,
        "with_meta": True,
        "cuda": False,
        "factory": False,
    }
    known = cover(table(), "XLA", frozenset(), python_known=True)
    older = cover(table((1, 12)), "XLA", frozenset())
    assert all(each.exact for found in (known, older) for each in found.missing)


def test_how_much_a_missing_operator_matters() -> None:
    found = cover(table(), "XLA", frozenset({"ns::cuda"}))
    assert found.missing[0].operator == "ns::cuda"
    assert {name: (each.core, each.general) for name, each in missing(found).items()} == {
        "cuda": (True, False),
        "own.other": (False, True),
        "cpu": (False, True),
        "with_meta": (False, True),
        "factory": (False, True),
    }
    assert "ns::cpu" in missing(found)["cpu"].message
    assert "XLA" in missing(found)["cpu"].message


def test_a_backend_without_an_autograd_key_of_its_own() -> None:
    """``computeDispatchTableEntryWithDebug``: AutogradOther cannot choose between a composite kernel and a backend's.

    FPGA is one of the backends that share AutogradOther, XLA has AutogradXLA (``c10/core/DispatchKeySet.cpp``).
    """
    of = {"ns::both": ("CompositeImplicitAutograd", "FPGA", "XLA"), "ns::kernel": ("FPGA", "XLA")}
    other, own = (cover(table(of=of), backend, frozenset()) for backend in ("FPGA", "XLA"))
    assert (other.ambiguous, other.served) == (("ns::both",), {EntrySource.KERNEL: 1})
    assert (own.ambiguous, own.served) == ((), {EntrySource.KERNEL: 2})


def test_the_most_used_operators_come_first() -> None:
    """Essential before core before general ones; then by name."""
    of = {"ns::a": ("CUDA",), "ns::b": ("CPU",), "ns::c": ("CUDA",), "ns::d": ("CPU",), "aten::view": ("CUDA",)}
    found = cover(table(of=of), "XLA", frozenset({"ns::c"}))
    assert [each.operator for each in found.missing] == ["aten::view", "ns::c", "ns::b", "ns::d", "ns::a"]


def test_an_autograd_kernel_works_for_its_own_backend_alone() -> None:
    of = {"ns::cuda": ("AutogradCUDA",)}
    assert cover(table(of=of), "CUDA", frozenset()).served == {EntrySource.AUTOGRAD: 1}
    assert set(missing(cover(table(of=of), "CPU", frozenset()))) == {"cuda"}
