"""Dispatch keys: what a number in the machine code of an extension means.

An extension carries the numbers of the torch whose headers it was compiled with, and they change every few releases.
``data/dispatch-keys.txt`` has the numbers of one release per minor version, a row per name: what ``c10::toString`` says
of each number there, with the names that ``c10/core/DispatchKey.h`` keeps for older code beside them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

from packaging.version import Version

_MARKS: Final = ("StartOf", "EndOf", "Num")

# Names that a release keeps for older code. Where they share their number with another, torch prints the other.
_OLD_NAMES: Final = frozenset({"CPUTensorId", "CUDATensorId", "Autocast", "DefaultBackend"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchKeys:
    """The keys of one minor version: ``names`` by number, as torch prints them."""

    minor: str
    names: Mapping[int, str]

    def name(self, number: int) -> str:
        """The name of a key; ``Unknown(<number>)`` for a number that this torch does not have."""
        return self.names.get(number, f"Unknown({number})")

    def can_register(self, number: int) -> bool:
        """Whether a kernel can be registered for a number: it is a key, and no mark of where a range begins or ends."""
        return number in self.names and not self.names[number].startswith(_MARKS)


def keys_of(version: Version) -> DispatchKeys:
    """The keys of a release: those of its minor version, or of the nearest older one that is known.

    :param version: 1.3 or newer; an older one gets the keys of 1.3
    """
    tables = _tables()
    known = [minor for minor in tables if Version(minor) <= Version(f"{version.major}.{version.minor}")]
    return tables[known[-1] if known else next(iter(tables))]


@functools.cache
def _tables() -> dict[str, DispatchKeys]:
    text = resources.files("abiscan.dispatch").joinpath("data/dispatch-keys.txt").read_text("utf-8")
    header, *rows = (line.split() for line in text.splitlines() if line.strip())
    tables: dict[str, DispatchKeys] = {}
    for column, minor in enumerate(header[1:], 1):
        names = {0: "Undefined"}
        for row in rows:
            if row[column] != "-" and (int(row[column]) not in names or names[int(row[column])] in _OLD_NAMES):
                names[int(row[column])] = row[0]
        tables[minor] = DispatchKeys(minor=minor, names=names)
    return tables
