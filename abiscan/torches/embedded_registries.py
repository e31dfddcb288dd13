"""The entries in torch's other registries, for the embedded builds.

``data/registries`` is made by ``tools/release.py``. Its keys are registries, and a mark of one is the key and the
priority of an entry, as JSON: see ``marks``.
"""

from __future__ import annotations

import functools

from msgspec.json import decode

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import RegistryEntry
from abiscan.torches.marks import MarkTable


def entries(build: str, machine: Machine) -> tuple[RegistryEntry, ...] | None:
    """Return the entries of a build, None if they are not embedded.

    :param build: its full version: ``2.13.0+cpu``
    """
    column = table().numbers.get(f"{build} {machine.value}")
    if column is None:
        return None
    return tuple(RegistryEntry(registry, *decode(mark)) for registry, mark in table().items_in(column))


@functools.cache
def table() -> MarkTable:
    """Return the data, opened on first use."""
    return MarkTable.of("registries")
