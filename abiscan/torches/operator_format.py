"""The format of an operator table: the operators of many torch builds, each item once, with the builds that have it.

A file (see ``blocks``) has the sections ``names``, those of all operators with the sets of builds that define each;
``shared``, what the builds share; and ``operators``, by their names. All are JSON, and consist of

- a *set of builds*, by its number among the sets of the file;
- a *place*, the source line of a registration: ``[file, line, count, line, count, ...]``, where each line is that of
  the next ``count`` builds of the accompanying set; or the number of a place that many registrations share;
- a *row* for each operator: its name, its definitions, the C++ types of its kernels, its kernels in order, one after
  the other in one list.

JSON has no tuples: a tuple of fixed length here is a list in a file.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

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


class SharedPart(TypedDict):
    """What the builds share: numbered texts, and data that belong to no operator."""

    fallbacks: OperatorRow
    namespaces: list[NamespaceRow]
    classes: list[tuple[str, SetNumber]]
    numbers: list[tuple[list[tuple[int, int]], SetNumber]]
    aliases: list[tuple[list[tuple[int, list[int]]], SetNumber]]
    gaps: list[tuple[list[str], SetNumber]]
    places: list[tuple[Runs, SetNumber]]
    keys: list[str | None]
    tags: list[list[str]]
    roots: list[str]
    files: list[str | None]
