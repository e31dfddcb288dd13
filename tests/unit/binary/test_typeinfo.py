"""Classes read from type information, in a stripped file."""

from __future__ import annotations

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
