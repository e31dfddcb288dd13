"""The embedded layouts, held against a table of sizes that a C++ probe printed for each wheel's own headers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import Machine
from abiscan.torches import embedded, layouts
from abiscan.torches.class_dumps import ClassRow
from abiscan.torches.layouts import Base, Field, Layout, VTable
from abiscan.torches.marks import MarkTable
from tools import data_files
from tools.blocks import read_files
from tools.data_files import ClassLayouts

X86: Final = Machine.X86_64
RELEASES: Final = ("2.0.1", "2.2.2", "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.12.1", "2.13.0", "2.15.0")
SIZES: Final = {
    "torch::CppFunction": (72, 72, 72, 72, 72, 96, 96, 104, 104, 104, 104),
    "c10::KernelFunction": (32, 32, 32, 32, 32, 32, 32, 40, 40, 40, 40),
    "torch::Library": (72, 96, 96, 96, 96, 120, 120, 120, 120, 120, 120),
    "c10::FunctionSchema": (72, 72, 72, 72, 72, 120, 120, 120, 120, 120, 120),
    "c10::Argument": (88, 88, 88, 88, 88, 112, 112, 112, 112, 112, 112),
    "c10::OperatorName": (16, 16, 16, 16, 16, 64, 64, 64, 64, 64, 64),
    "c10::TensorImpl": (192, 192, 184, 184, 184, 184, 184, 184, 184, 176, 176),
    "c10::StorageImpl": (80, 96, 88, 88, 96, 96, 96, 96, 96, 96, 96),
    "torch::autograd::Node": (472, 472, 472, 472, 472, 472, 472, 472, 472, 464, 464),
    "torch::autograd::AutogradMeta": (160, 168, 168, 168, 168, 192, 192, 192, 200, 184, 184),
    "torch::autograd::SavedVariable": (112, 112, 112, 104, 104, 104, 104, 104, 104, 80, 80),
    "torch::autograd::Edge": (24, 24, 24, 24, 24, 24, 24, 24, 24, 16, 16),
    **dict.fromkeys(("c10::IValue", "c10::Stream", "c10::OperatorHandle", "c10::BoxedKernel"), (16,) * 11),
    **dict.fromkeys(("at::Tensor", "c10::SymInt", "c10::TensorOptions", "c10::DispatchKeySet"), (8,) * 11),
    "c10::Scalar": (32,) * 11,
    "c10::SourceLocation": (24,) * 11,
    "c10::RegistrationHandleRAII": (32,) * 11,
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    found = [layouts.find_layout(name, release, X86) for release in RELEASES]
    assert tuple(each and each.size for each in found) == SIZES[name]


def test_every_embedded_release_has_layouts() -> None:
    for machine in Machine:
        known = {str(version) for version in embedded.versions() if layouts.is_known(str(version), machine)}
        released = {str(version) for version in embedded.versions(machine)}
        assert known >= released, sorted(released - known)


def test_members_of_a_class() -> None:
    found = layouts.find_layout("torch::CppFunction", "2.8.0", X86)
    assert found is not None
    assert found.align == 8
    assert Field("func_", 8, "c10::KernelFunction", 32) in found.fields
    assert [field.name for field in found.fields] == ["dispatch_key_", "func_", "cpp_signature_", "schema_", "debug_"]
    impl = layouts.find_layout("c10::TensorImpl", "2.8.0", X86)
    assert impl is not None
    assert impl.bases == (Base("c10::intrusive_ptr_target", 0),)


def test_virtual_functions_of_a_class() -> None:
    found = layouts.find_vtable("c10::Allocator", "2.8.0", X86)
    assert found is not None
    assert found.slots[:2] == ("~ [complete]", "~ [deleting]")
    assert found.slots[2] == "DataPtr c10::Allocator::allocate(size_t) [pure]"
    assert layouts.find_vtable("c10::IValue", "2.8.0", X86) is None


@pytest.mark.parametrize(
    ("name", "release"), [("c10::Nothing", "2.8.0"), ("", "2.8.0"), ("zzz", "2.8.0"), ("c10::IValue", "99.0")]
)
def test_what_is_not_there(name: str, release: str) -> None:
    assert layouts.find_layout(name, release, X86) is None
    assert layouts.find_vtable(name, release, X86) is None


def test_a_local_build_is_its_release() -> None:
    assert layouts.find_layout("c10::IValue", "2.8.0+cu128", X86) == layouts.find_layout("c10::IValue", "2.8.0", X86)
    assert layouts.is_known("2.8.0+cpu", X86)
    assert not layouts.is_known("99.0", X86)


def test_what_is_put_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class whose layout changes, one that keeps it, and virtual functions that come with a release."""
    row, other = (16, 8, (("c10::Base", 0),), (("x", 8, "int", None),)), (8, 8, (), ())
    names = [f"c10::C{number:03}" for number in range(200)]
    first = {name: ClassRow(*row) for name in names}
    data_files.put_layouts(tmp_path, {"1.0 x86_64": ClassLayouts(records=first, vtables={})})
    changed = {name: ClassRow(*other) if name < "c10::C100" else row_ for name, row_ in first.items()}
    data_files.put_layouts(tmp_path, {"2.0 x86_64": ClassLayouts(records=changed, vtables={"c10::C007": ("f()",)})})
    monkeypatch.setattr(layouts, "_make_table", lambda: MarkTable(read_files(tmp_path)))
    monkeypatch.setattr(layouts, "_column_of", layouts._column_of.__wrapped__)
    for name in names:
        old, new = (layouts.find_layout.__wrapped__(name, release, X86) for release in ("1.0", "2.0"))
        assert old == Layout(name, 16, 8, (Base("c10::Base", 0),), (Field("x", 8, "int", None),))
        assert new == (Layout(name, 8, 8, (), ()) if name < "c10::C100" else old)
    found = {release: layouts.find_vtable("c10::C007", release, X86) for release in ("1.0", "2.0")}
    assert found == {"1.0": None, "2.0": VTable("c10::C007", ("f()",))}
    assert [each.name for each in layouts.list_classes("2.0", X86)] == names


def test_the_classes_of_a_release_that_is_not_embedded() -> None:
    assert list(layouts.list_classes("9.9.0", Machine.X86_64)) == []
    assert layouts.find_layout("c10::TensorImpl", "9.9.0", Machine.X86_64) is None
