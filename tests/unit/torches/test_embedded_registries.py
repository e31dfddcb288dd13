"""Entries of registries, each with the set of builds that have it."""

from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import RegistryEntry
from abiscan.torches import embedded_registries
from tests.tables import mark_table


def test_the_entries_of_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {
        "C10Registry": {'["All", 1]': 0b111, '["Newer", null]': 0b110},
        "device-guard": {'["X86", null]': 0b011, '["First", null]': 0b001},
    }
    content = mark_table(["2.8.0+cpu x86_64", "2.9.0+cpu x86_64", "2.9.0+cpu aarch64"], entries)
    monkeypatch.setattr(embedded_registries, "table", lambda: content)

    def keys(build: str, machine: Machine) -> list[int | str | None] | None:
        found = embedded_registries.entries(build, machine)
        return None if found is None else [entry.key for entry in found]

    assert keys("2.8.0+cpu", Machine.X86_64) == ["All", "First", "X86"]
    assert keys("2.9.0+cpu", Machine.X86_64) == ["All", "Newer", "X86"]
    assert keys("2.9.0+cpu", Machine.AARCH64) == ["All", "Newer"]
    assert keys("2.8.0+cpu", Machine.AARCH64) is None  # not embedded, which is not the same as empty
    first = embedded_registries.entries("2.8.0+cpu", Machine.X86_64)
    assert first is not None
    assert first[0] == RegistryEntry("C10Registry", "All", 1)
