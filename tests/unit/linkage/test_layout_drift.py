"""What becomes of shared classes, for objects as plain facts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final, cast

import pytest
from msgspec.structs import replace

from abiscan.binary.elf import ElfFile, Machine, SharedObject
from abiscan.binary.symbols import Definition, SymbolTable
from abiscan.binary.typeinfo import BaseTable, CxxClass, Slot, classes
from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.layout_drift import (
    Certainty,
    LayoutDrift,
    _method_of,
    collect_shared,
    compare_layouts,
    predict_crash,
)
from abiscan.registrations import Phase, RegisteredKernel, Registrations
from abiscan.torches import layouts
from abiscan.torches.model import TorchRelease
from abiscan.torches.torch_layouts import TorchLayouts, of_installed, of_release
from abiscan.torches.unlisted_torch_layouts import OwnLayouts
from tests.fakes import elf_samples

IMPL: Final = "_ZNR5torch7Library5_implEPKcONS_11CppFunctionENS_17_RegisterOrVerifyE"
SAVED: Final = "_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb"
KERNEL: Final = RegisteredKernel(
    operator="ns::f",
    dispatch_key=1,
    signature=None,
    inferred_schema=None,
    boxed=True,
    fallthrough=False,
    abi_version=None,
    phase=Phase.STATIC_INIT,
    order=0,
    library=None,
)


def facts(imports: tuple[str, ...], defines: tuple[str, ...] = ()) -> SharedObject:
    function = Definition(version=None, hidden=False, version_index=0, type=2, size=8)
    return SharedObject(
        machine=Machine.X86_64,
        executable=False,
        soname=None,
        needed=(),
        rpath=(),
        runpath=(),
        build_id=None,
        version_needs=(),
        version_definitions=None,
        symbols=SymbolTable(dict.fromkeys(defines, (function,))),
        references=(),
        imports=frozenset(imports),
        pybind11_internals=None,
        pybind11_python=(),
    )


def drift(
    *imports: str,
    built_for: tuple[str, ...] = ("2.8.0",),
    target: str = "2.9.0",
    defines: tuple[str, ...] = (),
    classes: tuple[CxxClass, ...] = (),
    registrations: Registrations | None = None,
) -> LayoutDrift | None:
    found = collect_shared(
        "_C.so", facts(imports, defines), classes, registrations, tuple(map(TorchVersion, built_for))
    )
    return compare_layouts(found, of_release(target, Machine.X86_64))


def found_touches(*imports: str) -> set[str]:
    return set(collect_shared("_C.so", facts(imports), (), None, ()).touches)


def certainties(found: LayoutDrift | None) -> dict[str, Certainty]:
    assert found is not None
    return {each.change.name: each.certainty for each in found.types}


def test_a_kernel_that_crosses_in_the_load() -> None:
    found = drift(IMPL, registrations=Registrations(in_order=(KERNEL,)))
    assert certainties(found) == {"torch::CppFunction": Certainty.AT_LOAD}
    assert found is not None
    error = predict_crash([found], "2.9.0")
    assert error is not None
    assert error.aborts
    assert not error.exact
    assert error.message == (
        "torch::CppFunction changed between torch 2.8.0, which _C.so was built for, and 2.9.0: 96 → 104 bytes"
    )


def test_a_kernel_that_is_registered_later_or_through_the_stable_abi_does_not() -> None:
    for kernel in (replace(KERNEL, phase=Phase.ON_CALL), replace(KERNEL, abi_version=1)):
        found = drift(IMPL, registrations=Registrations(in_order=(kernel,)))
        assert certainties(found) == {"torch::CppFunction": Certainty.POSSIBLE}
        assert found is not None
        assert predict_crash([found], "2.9.0") is None


def test_nothing_drifts_between_releases_of_one_layout() -> None:
    found = drift(IMPL, target="2.7.1", registrations=Registrations(in_order=(KERNEL,)))
    assert certainties(found) == {}


def test_an_object_that_the_extension_allocates() -> None:
    assert certainties(drift(SAVED, target="2.13.0")) == {"torch::autograd::SavedVariable": Certainty.ON_USE}


def test_a_class_that_only_grew_is_no_harm_behind_a_reference() -> None:
    assert certainties(drift("_ZN3c101fERNS_14KernelFunctionE")) == {}
    assert certainties(drift("_ZN3c101fENS_14KernelFunctionE")) == {"c10::KernelFunction": Certainty.ON_USE}


def test_what_only_the_extension_makes_and_sees_is_no_harm() -> None:
    own = ("_ZN3c1014KernelFunctionD2Ev",)
    assert certainties(drift(defines=own)) == {}
    assert certainties(drift("_ZN3c101fERNS_14KernelFunctionE", defines=own)) == {
        "c10::KernelFunction": Certainty.ON_USE
    }


def test_what_it_was_built_for_is_open() -> None:
    found = drift(IMPL, built_for=("2.8.0", "2.9.0"), registrations=Registrations(in_order=(KERNEL,)))
    assert certainties(found) == {}
    assert found is not None
    assert found.doubts == ("torch::CppFunction",)


def test_what_it_makes_tells_what_it_was_built_for() -> None:
    made = Registrations(in_order=(KERNEL,), debug_at=64)
    found = drift(IMPL, built_for=("2.8.0", "2.9.0"), registrations=made)
    assert found is not None
    assert (found.built_for, found.doubts) == ("2.8.0", ())
    assert certainties(found) == {"torch::CppFunction": Certainty.AT_LOAD}
    here = drift(IMPL, built_for=("2.8.0", "2.9.0"), registrations=Registrations(in_order=(KERNEL,), debug_at=72))
    assert certainties(here) == {}


ARGUMENTS: Final = "_ZN3c101fERKSt6vectorINS_8ArgumentESaIS1_EE"  # c10::f(std::vector<c10::Argument> const&)


@pytest.mark.parametrize(
    ("built_for", "target", "certainty"),
    [
        # In 1.10, alias_info_ of c10::Argument moved up and kwarg_only_ to the end: 216 bytes before and after.
        ("1.9.1", "1.10.0", Certainty.POSSIBLE),
        # In 1.11, alias_info_ became a std::unique_ptr: the second element of an array is elsewhere.
        ("1.10.2", "1.11.0", Certainty.ON_USE),
    ],
)
def test_an_array_depends_on_the_size_of_its_elements(built_for: str, target: str, certainty: Certainty) -> None:
    assert certainties(drift(ARGUMENTS, built_for=(built_for,), target=target)) == {"c10::Argument": certainty}


def test_inlined_code_of_a_class_that_crosses_is_no_object_that_crosses() -> None:
    """A member function from torch/library.h that is compiled in, while kernels are registered in another way."""
    found = drift(defines=("_ZN5torch11CppFunction5debugENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",),
                  registrations=Registrations(in_order=(KERNEL,)))  # fmt: skip
    assert certainties(found)["torch::CppFunction"] is Certainty.POSSIBLE
    unlisted = drift(defines=("_ZN5torch11CppFunctionD2Ev",), target="99.0",
                     registrations=Registrations(in_order=(KERNEL,)))  # fmt: skip
    assert unlisted is not None
    assert (unlisted.unknown, unlisted.unknown_at_load) == (("torch::CppFunction",), ())


def test_a_class_of_the_same_size_changed_in_what_is_said_of_it() -> None:
    """The enum c10::DispatchKey got 16 bits instead of 8 in 1.12, and so did the optional in torch::CppFunction."""
    found = drift("_ZN5torch11CppFunctionD1Ev", built_for=("1.11.0",), target="1.12.0",
                  registrations=Registrations(in_order=(KERNEL,)))  # fmt: skip
    assert found is not None
    error = predict_crash([found], "1.12.0")
    assert error is not None
    assert error.message == (
        "torch::CppFunction changed between torch 1.11.0, which _C.so was built for, and 1.12.0: "
        "dispatch_key_ (c10::optional<c10::DispatchKey>): 2 → 4 bytes"
    )


def test_what_is_passed_at_load_is_named_first_of_what_is_unknown() -> None:
    found = drift(IMPL, SAVED, target="99.0", registrations=Registrations(in_order=(KERNEL,)))
    assert found is not None
    assert found.unknown == (
        "torch::CppFunction", "at::Tensor", "torch::Library", "torch::autograd::SavedVariable"
    )  # fmt: skip


VIEW: Final = "_ZN2at1fEN3c108ArrayRefINS_6TensorEEE"  # at::f(c10::ArrayRef<at::Tensor>): a namespace, a template


def test_classes_that_are_compared_by_a_release() -> None:
    found = collect_shared("_C.so", facts((VIEW, SAVED)), (), None, (TorchVersion("2.9.0"),))
    alike = TorchLayouts(machine=Machine.X86_64, release="2.9.1", basis="its libraries are those of torch 2.9.1")
    compared = compare_layouts(found, alike)
    assert compared is not None
    # Neither the namespace nor the template is a class of the release.
    assert compared.compared == (("at::Tensor", "2.9.1"), ("torch::autograd::SavedVariable", "2.9.1"))
    assert compared.compiled == ()
    declared = TorchLayouts(machine=Machine.X86_64, by_class={"at::Tensor": "2.8.0"}, basis="its headers")
    partly = compare_layouts(found, declared)
    assert partly is not None
    assert (partly.compared, partly.unknown) == ((("at::Tensor", "2.8.0"),), ("torch::autograd::SavedVariable",))


def test_classes_that_a_compiler_laid_out() -> None:
    """Of those that the object shares, and that its own release has: the others are not compared with anything."""
    records = {
        name: layouts.Layout(name, 8, 8, (), (layouts.Field("impl_", 0, "void *", 8),))
        for name in ("at::Tensor", "at::Unshared", "at::New")
    }
    found = collect_shared("_C.so", facts((VIEW, SAVED, "_ZN2at1fERNS_3NewE")), (), None, (TorchVersion("2.9.0"),))
    assert "at::New" in found.touches
    target = TorchLayouts(
        machine=Machine.X86_64, in_question=frozenset(records), lay_out=lambda _: OwnLayouts(records=records)
    )
    compiled = compare_layouts(found, target)
    assert compiled is not None
    assert (compiled.compiled, compiled.unknown) == (("at::Tensor",), ("torch::autograd::SavedVariable",))


def test_unknown_releases() -> None:
    assert drift(IMPL, built_for=()) is None  # nothing is known to be registered while it is loaded
    unlisted = drift(IMPL, target="99.0")
    assert unlisted is not None
    assert "torch::CppFunction" in unlisted.unknown
    assert unlisted.unknown_at_load == ()  # nothing that is known to be registered while it is loaded
    registering = drift(IMPL, target="99.0", registrations=Registrations(in_order=(KERNEL,)))
    assert registering is not None
    assert registering.unknown_at_load == ("torch::CppFunction",)


@pytest.mark.parametrize(
    ("same_as", "build", "expected"),
    [("2.9.1", "2.9.1+local", "its libraries are those of torch 2.9.1"), (None, "2.9.1", None)],
)
def test_why_a_torch_is_taken_for_a_release(same_as: str | None, build: str, expected: str | None) -> None:
    release = SimpleNamespace(same_as=same_as, build=build, machine=Machine.X86_64, own_libraries={})
    found = of_installed(cast("TorchRelease", release), Files(), cast("Session", None))
    assert (found.release, found.basis) == ("2.9.1", expected)


@pytest.mark.parametrize(
    ("symbol", "class_", "name"),
    [
        ("_ZN3c104impl5Guard3setEv", "c10::impl::Guard", "set"),
        ("_ZNK3c104impl5Guard10longMethodEv", "c10::impl::Guard", "longMethod"),
        ("_ZN3c104impl5GuardD1Ev", "c10::impl::Guard", None),  # a destructor
        ("_ZN3c105Other3setEv", "c10::impl::Guard", None),
        ("3setEv", "c10::impl::Guard", None),
        (None, "c10::impl::Guard", None),
    ],
)
def test_the_member_function_that_a_symbol_is(symbol: str | None, class_: str, name: str | None) -> None:
    assert _method_of(symbol, class_) == name


GUARD: Final = "N3c104impl24DeviceGuardImplInterfaceE"
INHERITED: Final = "_ZNK3c104impl24DeviceGuardImplInterface"


def derived(name: str, bases: tuple[str, ...], slots: tuple[Slot, ...]) -> CxxClass:
    """A class whose bases all begin where it begins, so that they have its own table."""
    return CxxClass(name, bases, slots, tuple(BaseTable(base, slots) for base in bases))


def test_virtual_functions() -> None:
    slots = tuple(Slot(None, True) for _ in range(23))
    guard = derived("N2my5GuardE", (GUARD,), slots)
    found = drift(classes=(guard,), target="2.13.0")
    assert found is not None
    (table,) = found.tables
    assert table.base == "c10::impl::DeviceGuardImplInterface"
    assert (
        next(each.number for each in table.misplaced if "deviceCount" in str(each.new)),
        table.missing[0].number,
    ) == (15, 23)


def table_with(number: int, symbol: str | None, length: int = 22) -> tuple[Slot, ...]:
    return tuple(Slot(symbol if at == number else None, True) for at in range(length))


@pytest.mark.parametrize(
    ("number", "symbol", "built_for"),
    [
        # Slot 18 is recordDataPtrOnStream in 2.5; 2.6 has synchronizeDevice before it (c10/core/impl/
        # DeviceGuardImplInterface.h). A class that does not override a function has that of its base in its table.
        (18, f"{INHERITED}21recordDataPtrOnStreamERKNS_7DataPtrERKNS_6StreamE", ("2.5.1",)),
        (18, f"{INHERITED}17synchronizeDeviceEs", ("2.9.0",)),
        (19, f"{INHERITED}21recordDataPtrOnStreamERKNS_7DataPtrERKNS_6StreamE", ("2.9.0",)),
        (16, f"{INHERITED}17synchronizeStreamERKNS_6StreamE", ("2.5.1", "2.9.0")),  # in both
        (18, "_ZNK2my5Guard17synchronizeDeviceEs", ("2.5.1", "2.9.0")),  # its own functions say nothing
        (18, "__cxa_pure_virtual", ("2.5.1", "2.9.0")),
        (20, f"{INHERITED}D1Ev", ("2.5.1", "2.9.0")),  # nor do destructors
        (18, None, ("2.5.1", "2.9.0")),
        (3, f"{INHERITED}7unknownEv", ("2.5.1", "2.9.0")),  # all, if none fits
    ],
)
@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("N2my5GuardE", (GUARD,)),
        ("N2my5GuardE", ("N2my5EmptyE", GUARD)),
        (GUARD, ()),  # a copy of torch's own table
    ],
)
def test_inherited_virtual_functions_tell_what_it_was_built_for(
    number: int, symbol: str | None, built_for: tuple[str, ...], name: str, bases: tuple[str, ...]
) -> None:
    mine = derived(name, bases, table_with(number, symbol))
    found = drift(SAVED, built_for=("2.5.1", "2.9.0"), target="2.13.0", classes=(mine,))
    assert found is not None
    assert found.candidates == built_for


@pytest.mark.parametrize("others", [(), (derived("N2my5OtherE", (), ()),), (derived("N2my5PlainE", (GUARD,), ()),)])
def test_each_class_tells_what_it_was_built_for(others: tuple[CxxClass, ...]) -> None:
    mine = derived("N2my5GuardE", (GUARD,), table_with(18, f"{INHERITED}17synchronizeDeviceEs"))
    for known in ((*others, mine), (mine, *others)):
        found = drift(SAVED, built_for=("2.5.1", "2.9.0"), target="2.13.0", classes=known)
        assert found is not None
        assert found.candidates == ("2.9.0",)


OWN: Final = "N2my4BaseE"
LONG: Final = table_with(0, None, 23)


@pytest.mark.parametrize(
    ("tables", "compared"),
    [
        ((BaseTable(GUARD, LONG),), True),
        ((BaseTable(OWN, LONG[:3]), BaseTable(GUARD, LONG)), True),  # a further base
        ((BaseTable(OWN, LONG[:3]), BaseTable(GUARD, LONG), BaseTable(GUARD, LONG)), True),  # in two ways
        ((BaseTable(OWN, LONG), BaseTable(GUARD, ())), False),  # its table is not in the object
        ((), False),
    ],
)
def test_the_table_for_each_base_is_compared(tables: tuple[BaseTable, ...], compared: bool) -> None:
    mine = CxxClass("N2my5GuardE", tuple(table.base for table in tables), LONG, tables)
    found = drift(SAVED, target="2.13.0", classes=(mine,))
    assert found is not None
    expected = [("c10::impl::DeviceGuardImplInterface", (mine,))] * compared
    assert [(table.base, table.derived) for table in found.tables] == expected


def test_the_table_for_a_further_base_tells_what_it_was_built_for() -> None:
    tables = (BaseTable(OWN, LONG[:3]), BaseTable(GUARD, table_with(18, f"{INHERITED}17synchronizeDeviceEs")))
    mine = CxxClass("N2my5GuardE", (OWN, GUARD), LONG, tables)
    found = drift(SAVED, built_for=("2.5.1", "2.9.0"), target="2.13.0", classes=(mine,))
    assert found is not None
    assert found.candidates == ("2.9.0",)


def test_functions_that_a_table_has_in_another_place_and_those_that_it_does_not_have() -> None:
    """From 2.5 to 2.9 there is one more, before the last four: the destructor, in two variants, ends the table."""
    found = drift(
        built_for=("2.5.1",), target="2.9.0", classes=(derived("N2my5GuardE", (GUARD,), table_with(0, None)),)
    )
    assert found is not None
    (table,) = found.tables
    assert [change.number for change in table.misplaced] == [18, 19, 20, 21]
    assert [change.number for change in table.missing] == [22]


def test_torch_s_own_classes_are_not_the_extension_s() -> None:
    slots = (Slot(None, True),)
    own = derived("N3c108GeneratorE", ("N3c1013GeneratorImplE",), slots)
    ours = derived("N3c1014OperatorKernelE", ("N3c1020intrusive_ptr_targetE",), slots)
    found = drift(classes=(own, ours), target="2.13.0")
    assert found is not None
    assert "c10::intrusive_ptr_target" not in {table.base for table in found.tables}


CXX11: Final = "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD: Final = "_ZN3c105ErrorC1ENS_14SourceLocationESs"


def test_a_class_with_a_string_is_not_compared_with_releases_that_have_another_one() -> None:
    """An extension with the C++11 string for 2.5.1, whose wheels have the old one: a distribution's, conda-forge's."""
    registrations = Registrations(in_order=(KERNEL,))
    found = drift(IMPL, CXX11, built_for=("2.5.1",), target="2.7.1", registrations=registrations)
    assert found is not None
    # By their headers: debug_, ns_ and msg_ are strings. c10::SourceLocation has char pointers.
    assert found.uncompared == ("c10::Error", "torch::CppFunction", "torch::Library")
    assert not {"torch::CppFunction", "c10::Error"} & set(certainties(found))
    assert found.unknown_at_load == ("torch::CppFunction",)
    # With the string of the release, or on a torch with another string, where it does not load, nothing changes.
    old = drift(IMPL, OLD, built_for=("2.5.1",), target="2.7.1", registrations=registrations)
    assert old is not None
    assert old.uncompared == ()
    assert certainties(old)["torch::CppFunction"] is Certainty.AT_LOAD
    alike = drift(IMPL, CXX11, built_for=("2.7.1",), target="2.9.0", registrations=registrations)
    assert alike is not None
    assert alike.uncompared == ()


def test_a_class_without_a_string_is_compared_whatever_the_string() -> None:
    # c10::IValue holds pointers, and a union within it that names itself.
    found = drift(SAVED, CXX11, "_ZN3c101fERKNS_6IValueE", built_for=("2.5.1",), target="2.13.0")
    assert found is not None
    assert {"at::Tensor", "c10::IValue"} <= found_touches(SAVED, CXX11, "_ZN3c101fERKNS_6IValueE")
    assert found.uncompared == ("c10::Error",)
    assert certainties(found)["torch::autograd::SavedVariable"] is Certainty.ON_USE  # 104 → 80 bytes


def test_class_templates_are_only_looked_up_as_members_but_for_optionals() -> None:
    """So the classes of a torch that is not embedded need no layouts of templates: a class has that of its members."""
    variants = {name: marks for name, marks in layouts._make_table().items() if "<" in name}
    assert len(variants) > 1000
    assert [name for name, marks in variants.items() if any(mark.startswith(layouts.VTABLE) for mark in marks)] == []
    touched = set[str]()
    for path in elf_samples():
        file = ElfFile.open(path)
        touched |= set(collect_shared(path.name, file.facts(), classes(file), None, ()).touches)
    assert {"torch::CppFunction", "c10::FunctionSchema"} <= touched
    assert [name for name in touched & variants.keys() if not name.startswith("c10::optional<")] == []
