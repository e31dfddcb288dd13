"""The hashes of the declarations of torch's classes, release by release.

``data/declarations.bin`` is made by ``tools/release.py`` from the headers of the releases. A torch whose
headers give the same hash for a class lays it out as these releases do: see ``declarations``.
"""

from __future__ import annotations

import functools
from importlib import resources

from abiscan.torches.names import NameTable


def releases_declaring(name: str, digest: str) -> tuple[str, ...]:
    """Return the numbers of the releases whose headers give a hash for a class, oldest first."""
    columns = _make_table().columns(f"{name} {digest}")
    return tuple(text for bit, text in enumerate(releases()) if columns >> bit & 1)


def releases() -> tuple[str, ...]:
    """Return the numbers of all releases in the data, oldest first."""
    return tuple(_make_table().meta["releases"])


@functools.cache
def _make_table() -> NameTable:
    return NameTable(resources.files("abiscan.torches").joinpath("data/declarations.bin").read_bytes())
