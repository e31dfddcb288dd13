"""What a backend can do, in a dispatcher of few operators: each is there for one way of being served, or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec.structs
import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.coverage import Coverage, MissingKernel, measure_coverage
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


def table(
    release: tuple[int, int] = (2, 9),
    *,
    rows: Mapping[str, Sequence[str]] = KERNELS,
    schemas: Mapping[str, str] = SCHEMAS,
) -> DispatchTable:
    texts = {name: name + schemas.get(name, "(Tensor x) -> Tensor") for name in rows}
    kernels = [(name, key) for name, keys in rows.items() for key in keys]
    return DispatchTable(
        release,
        Operators(
            operators={name: Operator(name, schema, (), None, None) for name, schema in texts.items()},
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
    found = measure_coverage(table(), "XLA", frozenset())
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
    found = measure_coverage(
        table(), "XLA", frozenset(), ["ns::cuda", "ns::without_tensor", "ns::gone", "ns::own", "ns::cuda"]
    )
    assert found.served == {EntrySource.KERNEL: 1}
    assert set(missing(found)) == {"cuda"}
    assert found.unknown == ("ns::gone",)


def test_what_python_may_add() -> None:
    """From 1.13 on torch registers Meta kernels in Python (``torch/_meta_registrations.py``), and prints all keys."""
    assert {name: each.exact for name, each in missing(measure_coverage(table(), "XLA", frozenset())).items()} == {
        "own.other": False,
        "cpu": False,
        "with_meta": True,
        "cuda": False,
        "factory": False,
    }
    older = measure_coverage(table((1, 12)), "XLA", frozenset())
    assert all(each.exact for each in older.missing)


def test_how_much_a_missing_operator_matters() -> None:
    found = measure_coverage(table(), "XLA", frozenset({"ns::cuda"}))
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


def test_the_most_used_come_first() -> None:
    """What nothing works without, torch's core set, what the CPU can do, what others call; then by name."""
    rows = {
        "aten::view": ("CUDA",),
        "ns::core": ("CUDA",),
        "ns::z_general": ("CPU",),
        "ns::special": ("CUDA",),
        "ns::called.out": ("CUDA",),
        "ns::a_special": ("CUDA",),
        "ns::called": ("CompositeExplicitAutogradNonFunctional",),
    }
    schemas = {"ns::called.out": "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"}
    found = measure_coverage(table(rows=rows, schemas=schemas), "PrivateUse1", frozenset({"ns::core"}))
    assert [each.operator for each in found.missing] == [
        "aten::view",
        "ns::core",
        "ns::z_general",
        "ns::called.out",
        "ns::a_special",
        "ns::special",
    ]
    called = missing(found)["called.out"]
    assert (called.reached_from, called.core, called.general) == (("ns::called",), False, False)
    assert [each.operator for each in found.missing if each.reached_from] == ["ns::called.out"]
    # An operator of the core set makes one of what it calls.
    of_core = measure_coverage(table(rows=rows, schemas=schemas), "PrivateUse1", frozenset({"ns::called"}))
    assert [each.operator for each in of_core.missing if each.core] == ["ns::called.out"]


def test_what_is_called_counts_though_nobody_asked_for_it() -> None:
    rows = {
        "ns::f": ("CompositeExplicitAutogradNonFunctional",),
        "ns::f_": ("CompositeExplicitAutogradNonFunctional",),
        "ns::f.out": ("CPU",),
        "ns::g": ("CPU",),
    }
    schemas = {"ns::f.out": "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", "ns::f_": "(Tensor(a!) x) -> Tensor(a!)"}
    found = measure_coverage(table(rows=rows, schemas=schemas), "PrivateUse1", frozenset(), ["ns::f_", "ns::f"])
    assert [(each.operator, each.reached_from) for each in found.missing] == [("ns::f.out", ("ns::f", "ns::f_"))]
    assert found.served == {EntrySource.DEFAULT_BACKEND: 2}


@pytest.mark.parametrize(
    ("operator", "backend", "essential"),
    [
        ("aten::view", "CPU", True),
        ("aten::_copy_from", "CPU", False),  # copy_ does all for it
        ("aten::_copy_from_and_resize", "CUDA", False),
        ("aten::_copy_from", "HIP", False),
        ("aten::_copy_from", "XLA", True),
        ("aten::_copy_from_and_resize", "PrivateUse1", True),
        ("aten::tanh", "XLA", False),
        ("aten::tanh", "CPU", False),
    ],
)
def test_what_nothing_works_without(operator: str, backend: str, essential: bool) -> None:
    """``aten::copy_`` calls ``_copy_from`` for devices that it does not know (ATen/native/Copy.cpp)."""
    (found,) = measure_coverage(table(rows={operator: ("Meta",)}), backend, frozenset()).missing
    assert found.essential is essential


def test_a_backend_without_a_key_for_gradients_beside_a_composite_kernel() -> None:
    """torch 2.13.0 lists AutogradOther as ``ambiguous_autogradother`` for such an operator."""
    rows = {
        "ns::both": ("CompositeImplicitAutograd", "FPGA"),
        "ns::explicit": ("CompositeExplicitAutograd", "FPGA"),
        "ns::composite": ("CompositeImplicitAutograd",),
        "ns::own": ("FPGA",),
        "ns::a_both": ("CompositeImplicitAutograd", "FPGA"),
    }
    fpga = measure_coverage(table(rows=rows), "FPGA", frozenset())
    assert fpga.ambiguous == ("ns::a_both", "ns::both")
    assert fpga.served == {EntrySource.KERNEL: 2, EntrySource.MATH: 1}
    # XLA has AutogradXLA, and no part in it.
    xla = measure_coverage(table(rows=rows), "XLA", frozenset())
    assert xla.ambiguous == ()
    assert set(missing(xla)) == {"own"}


@pytest.mark.parametrize(("release", "exact"), [((1, 12), True), ((1, 13), False), ((2, 9), False)])
def test_since_when_python_adds_kernels(release: tuple[int, int], exact: bool) -> None:
    (found,) = measure_coverage(table(release, rows={"ns::f": ("CPU",)}), "XLA", frozenset()).missing
    assert found.exact is exact


def test_the_backend_by_the_name_it_has() -> None:
    (found,) = measure_coverage(table(rows={"ns::f": ("CPU",)}), "PrivateUse1", frozenset(), backend_name="npu").missing
    assert found.key == "PrivateUse1"
    assert "from the 'npu' backend" in found.message
    assert found.message.endswith("backends: [CPU].")  # the table that follows in torch is left out


def test_a_name_stands_for_its_overloads_unless_it_is_an_operator_itself() -> None:
    rows = dict.fromkeys(("ns::f.a", "ns::f.b", "ns::g", "ns::g.a", "ns::ff"), ("CPU",))
    found = measure_coverage(table(rows=rows), "XLA", frozenset(), ["ns::g", "ns::f"])
    assert [each.operator for each in found.missing] == ["ns::f.a", "ns::f.b", "ns::g"]


def test_old_keys_have_a_suffix() -> None:
    """In 1.4, the CPU is ``CPUTensorId``: an operator with a kernel for it is special to no device."""
    old = msgspec.structs.replace(BASE, keys=keys_of(TorchVersion("1.4.0")).names, aliases={}, fallbacks=())
    operator = Operator("ns::f", "ns::f(Tensor x) -> Tensor", (), None, None)
    kernel = Kernel("ns::f", "CPUTensorId", None, None, False, "f.cpp", 1)
    registered = msgspec.structs.replace(old, operators={"ns::f": operator}, kernels=(kernel,))
    (found,) = measure_coverage(DispatchTable((1, 4), registered), "CUDATensorId", frozenset()).missing
    assert (found.operator, found.general) == ("ns::f", True)


def test_an_autograd_kernel_works_for_its_own_backend_alone() -> None:
    rows = {"ns::cuda": ("AutogradCUDA",)}
    assert measure_coverage(table(rows=rows), "CUDA", frozenset()).served == {EntrySource.AUTOGRAD: 1}
    assert set(missing(measure_coverage(table(rows=rows), "CPU", frozenset()))) == {"cuda"}
