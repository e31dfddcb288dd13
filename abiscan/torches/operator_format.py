"""The form of a table of operators: those of many builds of torch, everything once, with the builds that have it.

The bytes of a file::

    magic (8) | size of the header (4, little-endian) | header | what the builds share | blocks of operators

Each part is compressed JSON (zlib). The header has ``builds`` (whatever the writer says of each), the size of the
second part, and of each block its first name and its size. The others are made of

- a *set of builds*: a bit set, by its number in a list of all that occur;
- a *place*, where in the source something is registered: ``[file, line, count, line, count, ...]``, each line that of
  the next ``count`` builds of the set that it stands beside; or the number of a place that many things have;
- a *row* for each operator: its name, its definitions, the C++ types of its kernels, its kernels in their
  order, one after the other in one list.

JSON has no tuples: what is a tuple of fixed length here is a list in a file.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

MAGIC: Final = b"ABISCAN\x02"
FALLBACKS: Final = ""
"""The operator as whose kernels the fallbacks are kept."""

WHOLE: Final = "="
"""Before a text that is kept whole: a file elsewhere than torch was built, a schema of another name."""

KERNEL_VALUES: Final = 5
"""The values of each kernel in a row: key, type, whether it falls through, place, set of builds."""

SetNumber: TypeAlias = int
Runs: TypeAlias = list[Any]
PlaceRow: TypeAlias = int | Runs
"""The number of a shared place; or that of a file, then lines, each with the number of builds in which it holds."""

DefinitionRow: TypeAlias = tuple[str | None, int, PlaceRow, SetNumber]
"""Schema, list of tags, place, builds."""

NamespaceRow: TypeAlias = tuple[str, PlaceRow, SetNumber]
CppType: TypeAlias = tuple[str | None, str | None]
"""The type of a kernel: mangled, and the schema that torch infers from it."""


class OperatorRow(NamedTuple):
    """An operator in all builds. ``kernels`` are ``KERNEL_VALUES`` after each other, types by their number."""

    name: str
    definitions: list[DefinitionRow]
    types: list[CppType]
    kernels: list[Any]


class TableHeader(TypedDict):
    """What is read first. ``blocks`` are the first name and the size of each, ``shared`` is a size as well."""

    builds: list[Any]
    shared: int
    blocks: list[tuple[str, int]]


class SharedPart(TypedDict):
    """What the builds share: texts by number, and what is not of one operator. ``sets`` are hexadecimal."""

    fallbacks: OperatorRow
    namespaces: list[NamespaceRow]
    classes: list[tuple[str, SetNumber]]
    numbers: list[tuple[list[tuple[int, int]], SetNumber]]
    aliases: list[tuple[list[tuple[int, list[int]]], SetNumber]]
    gaps: list[tuple[list[str], SetNumber]]
    places: list[tuple[Runs, SetNumber]]
    sets: list[str]
    keys: list[str | None]
    tags: list[list[str]]
    roots: list[str]
    files: list[str | None]


def compressed(content: object) -> bytes:
    """A part of a file."""
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)


def decompressed(data: bytes) -> Any:
    """The content of a part."""
    return json.loads(zlib.decompress(data))
