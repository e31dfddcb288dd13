"""The hashes of the declarations of torch's classes, release by release.

``data/declarations`` is made by ``tools/release.py`` from the headers of the releases. A torch whose headers give the
same hash for a class lays it out as these releases do: see ``declarations``.
"""

from __future__ import annotations

import functools
from typing import Final

from abiscan.inputs.version import TorchVersion
from abiscan.torches.names import NameTable

UNSURE: Final = "?"
"""What a hash begins with in a release that lays out the class differently from an older one with the same hash."""


def releases_declaring(name: str, digest: str) -> tuple[str, ...]:
    """Return the numbers of the releases whose headers give a hash for a class, oldest first."""
    text = f"{name} {digest}"
    if _make_table().columns_with(f"{UNSURE}{text}"):
        return ()
    columns = _make_table().columns_with(text)
    declaring = (text for bit, text in enumerate(_make_table().columns) if columns >> bit & 1)
    return tuple(sorted(declaring, key=TorchVersion))


def releases() -> tuple[str, ...]:
    """Return the numbers of all releases in the data, oldest first."""
    return tuple(sorted(_make_table().columns, key=TorchVersion))


@functools.cache
def _make_table() -> NameTable:
    return NameTable.of("declarations")
