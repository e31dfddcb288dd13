"""What registration depends on besides classes, in the headers of a torch and in the table of layouts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import Machine
from abiscan.torches import layouts
from abiscan.torches.clang import Include
from abiscan.torches.class_dumps import ClassRow
from tools import data_files, registration_abi
from tools.data_files import ClassLayouts
from tools.registration_abi import ENUMERATION, FUNCTION
from tools.release import TORCHES

CLANG: Final = shutil.which("clang++-19") or shutil.which("clang++")
ATEN: Final = """#pragma once
#include <type_traits>
namespace c10 {
enum class TypeKind { AnyType, EnumType, TupleType };
enum class DispatchKey : short { CPU };
struct Map {};
Map& getCustomClassTypeMap();
template <class T> struct optional { T value; ~optional(); };
template <> struct optional<bool> { bool value; };
}
"""


@pytest.fixture
def include(tmp_path: Path) -> Include:
    for name, text in {"ATen/ATen.h": ATEN, "ATen/core/op_registration/op_registration.h": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    return Include(folder=tmp_path, machine=Machine.X86_64, cxx11=True)


@pytest.mark.skipif(CLANG is None, reason="needs clang")
def test_what_the_headers_say(include: Include) -> None:
    assert CLANG is not None
    rows = registration_abi.read(include, CLANG)
    kinds = [(name, number) for name, number, _, _ in rows[ENUMERATION].fields]
    assert kinds == [("AnyType", 0), ("EnumType", 1), ("TupleType", 2)]
    assert [result for _, _, result, _ in rows[FUNCTION].fields] == ["c10::Map &"]
    # Itanium C++ ABI, 3.1.2.3: what has a destructor of its own is passed by reference to memory.
    passed = {name: row.fields[0][2] for name, row in rows.items() if name not in (ENUMERATION, FUNCTION)}
    assert passed["c10::optional<c10::DispatchKey>"] == passed["c10::optional<double>"] == "in memory"
    assert passed["c10::optional<bool>"] == "in registers"
    assert "c10::optional<c10::Device>" not in passed  # these headers have no such class


@pytest.mark.skipif(CLANG is None, reason="needs clang")
def test_headers_without_any_of_it(include: Include) -> None:
    assert CLANG is not None
    (include.folder / "ATen/ATen.h").write_text("#include <type_traits>\n")
    assert registration_abi.read(include, CLANG) == {}


def test_an_optional_keeps_its_members() -> None:
    members, way = ("init_", 0, "_Bool", None), ("(passed)", 0, "in memory", None)
    optional, kind = ClassRow(2, 1, (), (members,)), ClassRow(4, 4, (), ())
    added = {"c10::optional<bool>": ClassRow(0, 0, (), (way,)), "c10::optional<long>": kind, ENUMERATION: kind}
    assert registration_abi.joined({"c10::optional<bool>": optional}, added) == {
        "c10::optional<bool>": ClassRow(2, 1, (), (members, way)),
        ENUMERATION: kind,
    }


def taken_apart(release: str, machine: Machine) -> ClassLayouts:
    """What the table has of a release, as a reader gives it."""
    classes = list(layouts.list_classes(release, machine))
    tables = {known.name: layouts.find_vtable(known.name, release, machine) for known in classes}
    return ClassLayouts(
        records={known.name: ClassRow(*known[1:]) for known in classes},
        vtables={name: table.slots for name, table in tables.items() if table is not None},
    )


def test_a_release_that_is_removed_and_added_again() -> None:
    before = (TORCHES / "layouts.bin").read_bytes()
    build = ("1.6.0", "x86_64")
    content = taken_apart("1.6.0", Machine.X86_64)
    assert {ENUMERATION, FUNCTION} <= content.records.keys()
    without = data_files.class_layouts(before, {}, [build])
    assert without != before
    assert data_files.class_layouts(without, {build: content}) == before


def test_all_other_releases_keep_what_registration_passes() -> None:
    before = (TORCHES / "layouts.bin").read_bytes()
    builds, rows = layouts.unpack(before)
    empty = ClassLayouts(records={}, vtables={})
    after = data_files.class_layouts(before, {("1.6.0", "x86_64"): empty, ("9.9.0", "x86_64"): empty}, builds[:1])
    builds_after, rows_after = layouts.unpack(after)
    changed = {("1.6.0", "x86_64"), builds[0]}
    for name in (ENUMERATION, FUNCTION, "c10::optional<c10::DispatchKey>"):
        kept = by_build(builds, rows[name][0])
        assert by_build(builds_after, rows_after[name][0]) == {
            build: row for build, row in kept.items() if build not in changed
        }
        assert len(kept.keys() - changed) >= 10


def by_build(builds: list[tuple[str, str]], rows: dict[object, int]) -> dict[tuple[str, str], object]:
    return {build: row for row, bits in rows.items() for number, build in enumerate(builds) if bits >> number & 1}
