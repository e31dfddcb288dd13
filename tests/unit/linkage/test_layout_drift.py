"""What becomes of shared classes, for objects as plain facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import pytest

from abiscan.binary.elf import Definition, ElfFile, Machine, SharedObject, SymbolTable
from abiscan.binary.typeinfo import CxxClass, Slot, classes
from abiscan.emulation.model import Phase, RegisteredKernel, Registrations
from abiscan.inputs.files import Files, read_facts
from abiscan.inputs.session import Session
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.layout_drift import Certainty, LayoutDrift, crash, layout_drift, shared
from abiscan.torches import layouts
from abiscan.torches.model import TorchRelease
from abiscan.torches.torch_layouts import of_installed, of_release
from tests.fakes import elf_samples

LAYOUTS: Final = Path(layouts.__file__).with_name("data") / "layouts.bin"
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
    file=None,
    line=None,
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
    found = shared("_C.so", facts(imports, defines), classes, registrations, tuple(map(TorchVersion, built_for)))
    return layout_drift(found, of_release(target, Machine.X86_64))


def certainties(found: LayoutDrift | None) -> dict[str, Certainty]:
    assert found is not None
    return {each.change.name: each.certainty for each in found.types}


def test_a_kernel_that_crosses_in_the_load() -> None:
    found = drift(IMPL, registrations=Registrations(kernels=(KERNEL,)))
    assert certainties(found) == {"torch::CppFunction": Certainty.AT_LOAD}
    assert found is not None
    error = crash([found], "2.9.0")
    assert error is not None
    assert error.aborts
    assert not error.exact
    assert error.message == (
        "torch::CppFunction changed between torch 2.8.0, which _C.so was built for, and 2.9.0: 96 → 104 bytes"
    )


def test_a_kernel_that_is_registered_later_or_through_the_stable_abi_does_not() -> None:
    for kernel in (replace(KERNEL, phase=Phase.ON_CALL), replace(KERNEL, abi_version=1)):
        found = drift(IMPL, registrations=Registrations(kernels=(kernel,)))
        assert certainties(found) == {"torch::CppFunction": Certainty.POSSIBLE}
        assert found is not None
        assert crash([found], "2.9.0") is None


def test_nothing_drifts_between_releases_of_one_layout() -> None:
    found = drift(IMPL, target="2.7.1", registrations=Registrations(kernels=(KERNEL,)))
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
    found = drift(IMPL, built_for=("2.8.0", "2.9.0"), registrations=Registrations(kernels=(KERNEL,)))
    assert certainties(found) == {}
    assert found is not None
    assert found.doubts == ("torch::CppFunction",)


def test_what_it_makes_tells_what_it_was_built_for() -> None:
    made = Registrations(kernels=(KERNEL,), debug_at=64)
    found = drift(IMPL, built_for=("2.8.0", "2.9.0"), registrations=made)
    assert found is not None
    assert (found.built_for, found.doubts) == ("2.8.0", ())
    assert certainties(found) == {"torch::CppFunction": Certainty.AT_LOAD}
    here = drift(IMPL, built_for=("2.8.0", "2.9.0"), registrations=Registrations(kernels=(KERNEL,), debug_at=72))
    assert certainties(here) == {}


def test_unknown_releases() -> None:
    assert drift(IMPL, built_for=()) is None  # nothing is known to be registered while it is loaded
    unlisted = drift(IMPL, target="99.0")
    assert unlisted is not None
    assert "torch::CppFunction" in unlisted.unknown
    assert unlisted.unknown_at_load == ()  # nothing that is known to be registered while it is loaded
    registering = drift(IMPL, target="99.0", registrations=Registrations(kernels=(KERNEL,)))
    assert registering is not None
    assert registering.unknown_at_load == ("torch::CppFunction",)


@pytest.mark.parametrize(
    ("same_as", "build", "expected"),
    [("2.9.1", "2.9.1+local", "its libraries are those of torch 2.9.1"), (None, "2.9.1", None)],
)
def test_why_a_torch_is_taken_for_a_release(same_as: str | None, build: str, expected: str | None) -> None:
    release = SimpleNamespace(same_as=same_as, build=build, machine=Machine.X86_64, own_libraries={})
    found = of_installed(cast("TorchRelease", release), Files(read_facts), cast("Session", None))
    assert (found.release, found.basis) == ("2.9.1", expected)


def test_virtual_functions() -> None:
    slots = tuple(Slot(None, True) for _ in range(23))
    guard = CxxClass("N2my5GuardE", ("N3c104impl24DeviceGuardImplInterfaceE",), slots)
    found = drift(classes=(guard,), target="2.13.0")
    assert found is not None
    (table,) = found.tables
    assert table.base == "c10::impl::DeviceGuardImplInterface"
    assert (
        next(each.number for each in table.misplaced if "deviceCount" in str(each.new)),
        table.missing[0].number,
    ) == (15, 23)


def test_torch_s_own_classes_are_not_the_extension_s() -> None:
    slots = (Slot(None, True),)
    own = CxxClass("N3c108GeneratorE", ("N3c1013GeneratorImplE",), slots)
    ours = CxxClass("N3c1014OperatorKernelE", ("N3c1020intrusive_ptr_targetE",), slots)
    found = drift(classes=(own, ours), target="2.13.0")
    assert found is not None
    assert "c10::intrusive_ptr_target" not in {table.base for table in found.tables}


CXX11: Final = "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD: Final = "_ZN3c105ErrorC1ENS_14SourceLocationESs"


def test_a_class_with_a_string_is_not_compared_with_releases_that_have_another_one() -> None:
    """An extension with the C++11 string for 2.5.1, whose wheels have the old one: a distribution's, conda-forge's."""
    registrations = Registrations(kernels=(KERNEL,))
    found = drift(IMPL, CXX11, built_for=("2.5.1",), target="2.7.1", registrations=registrations)
    assert found is not None
    assert {"torch::CppFunction", "c10::Error"} <= set(found.uncompared)
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
    found = drift(SAVED, CXX11, built_for=("2.5.1",), target="2.7.1")
    assert found is not None
    assert "c10::TensorImpl" not in found.uncompared
    assert "at::Tensor" not in found.uncompared


def test_class_templates_are_only_looked_up_as_members() -> None:
    """So the classes of a torch that is not embedded need no layouts of templates: a class has that of its members."""
    variants = {name: both for name, both in layouts.unpack(LAYOUTS.read_bytes())[1].items() if "<" in name}
    assert len(variants) > 1000
    assert [name for name, (_, vtables) in variants.items() if any(vtables)] == []
    touched = set[str]()
    for path in elf_samples():
        file = ElfFile.open(path)
        touched |= set(shared(path.name, file.facts(), classes(file), None, ()).touches)
    assert {"torch::CppFunction", "c10::FunctionSchema"} <= touched
    assert touched & variants.keys() == set()
