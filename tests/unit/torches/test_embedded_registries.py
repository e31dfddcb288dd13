"""Entries of registries, each with the set of builds that have it: a hexadecimal number with a bit for each build."""

from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import RegistryEntry
from abiscan.torches import embedded_registries


def test_the_entries_of_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {
        "builds": ["2.8.0+cpu x86_64", "2.9.0+cpu x86_64", "2.9.0+cpu aarch64"],
        "entries": [
            ["C10Registry", "All", 1, "7"],
            ["C10Registry", "Newer", None, "6"],
            ["device-guard", "X86", None, "3"],
            ["device-guard", "First", None, "1"],
        ],
    }
    monkeypatch.setattr(embedded_registries, "data", lambda: content)

    def keys(build: str, machine: Machine) -> list[int | str | None] | None:
        found = embedded_registries.entries(build, machine)
        return None if found is None else [entry.key for entry in found]

    assert keys("2.8.0+cpu", Machine.X86_64) == ["All", "X86", "First"]
    assert keys("2.9.0+cpu", Machine.X86_64) == ["All", "Newer", "X86"]
    assert keys("2.9.0+cpu", Machine.AARCH64) == ["All", "Newer"]
    assert keys("2.8.0+cpu", Machine.AARCH64) is None  # not embedded, which is not the same as empty
    first = embedded_registries.entries("2.8.0+cpu", Machine.X86_64)
    assert first is not None
    assert first[0] == RegistryEntry("C10Registry", "All", 1)
