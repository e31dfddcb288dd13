"""Classes read from type information, in a stripped file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.binary.typeinfo import classes
from tests.fakes import SAMPLES

BASE = "N3c104impl24DeviceGuardImplInterfaceE"


def test_a_derived_class_with_its_table() -> None:
    found = {each.name: each for each in classes(ElfFile.open(SAMPLES / "layout_drift/device_guard.so"))}
    guard = found["N6sample5GuardE"]
    assert guard.bases == (BASE,)
    # The interface of torch 2.8 has 23 virtual functions; the guard adds none.
    assert len(guard.slots) == 23
    assert all(slot.own for slot in guard.slots)


def test_a_file_without_classes() -> None:
    assert classes(ElfFile.open(SAMPLES / "layout_drift/on_use.so")) == ()


HIERARCHY = """
namespace of_torch {
struct Guard {
    virtual ~Guard();
    virtual int first() const = 0;
    virtual int second() const;
    virtual int third() const;
};
}
struct Plain { virtual ~Plain(); virtual int plain() const; long member = 3; };
Plain::~Plain() {}
int Plain::plain() const { return 1; }
struct Empty {};
#define BODY int first() const override { return 1; } int third() const override { return 3; }
struct Single : of_torch::Guard { BODY };
struct AfterEmpty : Empty, of_torch::Guard { BODY };
struct Second : Plain, of_torch::Guard { BODY virtual int own() const { return 4; } };
struct Virtual : Plain, virtual of_torch::Guard { BODY };
struct Middle : Plain, of_torch::Guard { long other = 1; };
struct Indirect final : Middle { BODY };
struct VirtualMiddle : virtual of_torch::Guard { long other = 1; };
struct Behind final : Plain, VirtualMiddle { BODY };
extern "C" void* make(int kind) {
    switch (kind) {
        case 0: return new Single;
        case 1: return new AfterEmpty;
        case 2: return new Second;
        case 3: return new Virtual;
        case 4: return new Indirect;
        default: return new Behind;
    }
}
"""
TABLE = (None, "_ZNK8of_torch5Guard6secondEv", None)
"""By the declaration of ``Guard``, behind two destructors: the function that nothing overrides, between two others."""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("options", ["-O0 -fvisibility=default", "-O2 -fvisibility=hidden"])
def test_the_table_for_each_base(tmp_path: Path, compiler: str, options: str) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} on this machine")
    path = tmp_path / "hierarchy.so"
    command = [compiler, *options.split(), "-fPIC", "-shared", "-s", "-x", "c++", "-", "-o", str(path)]
    subprocess.run(command, input=HIERARCHY.encode(), check=True)
    found = {each.name: each for each in classes(ElfFile.open(path))}
    guards = {}
    behind = ("8Indirect", "6Middle", "6Behind", "13VirtualMiddle")
    for name in ("6Single", "10AfterEmpty", "6Second", "7Virtual", *behind):
        # What the class behind has in its own table, it is not asked for a second time.
        tables = [table.slots for table in found[name].tables if table.base == "N8of_torch5GuardE"]
        guards[name] = {
            tuple(None if slot.own else slot.symbol for slot in slots[2 : 2 + len(TABLE)]) for slots in tables if slots
        }
    direct = ("6Single", "10AfterEmpty", "6Second", "7Virtual")
    assert {name: guards[name] for name in direct} == {name: {TABLE} for name in direct}
    # The table of a class that others begin with may be there or not; if so, it has pure functions.
    assert {slots[1] for slots in guards["8Indirect"] | guards["6Middle"]} == {TABLE[1]}
    assert {slots[1] for slots in guards["6Behind"] | guards["13VirtualMiddle"]} == {TABLE[1]}
    assert [table.slots for table in found["6Second"].tables if table.base == "5Plain"] == [found["6Second"].slots]
