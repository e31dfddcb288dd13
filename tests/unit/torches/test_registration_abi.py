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
from tools import registration_abi
from tools.registration_abi import ENUMERATION, FUNCTION

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


@pytest.mark.skipif(CLANG is None, reason="there is no clang++ on this machine")
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


@pytest.mark.skipif(CLANG is None, reason="there is no clang++ on this machine")
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


def test_the_data_have_what_registration_depends_on() -> None:
    for name in (ENUMERATION, FUNCTION):
        assert layouts.find_layout(name, "1.6.0", Machine.X86_64) is not None
