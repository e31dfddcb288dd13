"""The format of an operator table: the operators of many torch builds, each item once, with the builds that have it.

The bytes of a file::

    magic (8) | size of the header (4, little-endian) | header | names | what the builds share | blocks of operators

Each part is compressed JSON (zlib). The header has ``builds`` (the writer's own data on each), the sizes of the two
parts behind it, and the first name and size of each block. The names are those of all operators,
with the sets of builds that define each. The other parts consist of

- a *set of builds*: a bit set, by its number in a list of all sets;
- a *place*, the source line of a registration: ``[file, line, count, line, count, ...]``, where each line is that of
  the next ``count`` builds of the accompanying set; or the number of a place that many registrations share;
- a *row* for each operator: its name, its definitions, the C++ types of its kernels, its kernels in order, one after
  the other in one list.

JSON has no tuples: a tuple of fixed length here is a list in a file.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

from msgspec.json import decode

from abiscan.inputs.inflation import decompress

MAGIC: Final = b"ABISCAN\x03"
FALLBACKS: Final = ""
"""The name of the operator whose kernels are the fallbacks."""

WHOLE: Final = "="
"""The prefix of a text that is stored whole: a file outside torch's build folder, a schema with a different name."""

KERNEL_VALUES: Final = 5
"""The values of each kernel in a row: key, type, whether it falls through, place, set of builds."""

SetNumber: TypeAlias = int
Runs: TypeAlias = list[Any]
PlaceRow: TypeAlias = int | Runs
"""The number of a shared place; or the number of a file, then lines, each with its number of builds."""

DefinitionRow: TypeAlias = tuple[str | None, int, PlaceRow, SetNumber]
"""Schema, list of tags, place, builds."""

NameRow: TypeAlias = tuple[str, list[SetNumber]]
NamespaceRow: TypeAlias = tuple[str, PlaceRow, SetNumber]
CppType: TypeAlias = tuple[str | None, str | None]
"""The type of a kernel: mangled, and the schema that torch infers from it."""


class OperatorRow(NamedTuple):
    """An operator in all builds.

    :ivar types: the C++ types that its kernels have, which name them by their numbers
    :ivar kernels: ``KERNEL_VALUES`` values for each kernel
    """

    name: str
    definitions: list[DefinitionRow]
    types: list[CppType]
    kernels: list[Any]


class TableHeader(TypedDict):
    """The part that is read first.

    :ivar builds: the writer's own data on each
    :ivar names: the size of the part with the names
    :ivar shared: the size of the part that the builds share
    :ivar blocks: the first name and the size of each block
    """

    builds: list[Any]
    names: int
    shared: int
    blocks: list[tuple[str, int]]


class SharedPart(TypedDict):
    """What the builds share: numbered texts, and data that belong to no operator.

    :ivar sets: sets of builds, hexadecimal
    """

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


def compress_part(content: object) -> bytes:
    """Return the bytes of a part."""
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)


def decompress_part(content: bytes) -> Any:
    """Return the content of a part."""
    return decode(decompress(content))
