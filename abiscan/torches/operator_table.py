"""Reads an operator table: all operators of one torch build, or some of them.

Looking up an operator decompresses one block, which has it for all builds. ``operator_format`` has the format.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from msgspec import Raw, Struct
from msgspec.json import Decoder, decode

from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD
from abiscan.torches.blocks import BlockFile, KeyedBlocks, Table
from abiscan.torches.operator_format import (
    KERNEL_VALUES,
    WHOLE,
    NameRow,
    OperatorRow,
    PlaceRow,
    Runs,
    SetNumber,
    SharedPart,
)

_MOST_CACHED: Final = 512  # blocks
_T = TypeVar("_T")


class _Row(Struct, array_like=True, frozen=True):
    """An ``OperatorRow`` whose kernels, most of a block, are not decoded: few questions are about them."""

    name: str
    definitions: list[Any]
    types: Raw
    kernels: Raw

    def whole(self) -> OperatorRow:
        """Return the row with its kernels."""
        return OperatorRow(self.name, self.definitions, decode(self.types), decode(self.kernels))


_ROWS: Final = Decoder(list[_Row])


class OperatorTable(Table):
    """The operators of builds. What two files have in common is in both: the order of kernels, and lines, change."""

    def __init__(self, files: Sequence[BlockFile]) -> None:
        super().__init__(files)
        self._files = list(map(_OperatorFile, files))

    def operators(self, build: int, names: Collection[str] | None = None) -> Operators:
        """Return the operators of one build.

        :param build: its number
        :param names: only these operators, and their kernels; None for all
        """
        file, column = self._find_file(build)
        view = file.view(column)
        rows = list(file.list_rows(names))
        return Operators(
            operators={operator.name: operator for row in rows for operator in view.definitions_of(row)},
            kernels=tuple(kernel for row in rows for kernel in view.kernels_of(row.whole())),
            fallbacks=view.fallbacks,
            namespaces=view.namespaces,
            classes=view.classes,
            keys=view.keys,
            aliases=view.aliases,
            gaps=view.gaps,
        )

    def schemas_in(self, build: int, names: Collection[str]) -> tuple[str | None, ...]:
        """Return the schemas of those of some operators that one build has; quicker than the operators themselves."""
        file, column = self._find_file(build)
        has = file.view(column).has
        return tuple(
            schema and _schema_of(row, schema)
            for row in file.list_rows(names)
            for schema, _, _, builds in row.definitions
            if has[builds]
        )

    def names(self, build: int) -> frozenset[str]:
        """Return the names of all operators of one build, in less time than the operators themselves take."""
        file, column = self._find_file(build)
        return frozenset(name for name, builds in file.builds_of.items() if builds >> column & 1)

    def has_operator(self, build: int, name: str) -> bool:
        """Whether one build has an operator, or an overload of it; see ``DEFAULT_OVERLOAD``."""
        file, column = self._find_file(build)
        return file.has_operator(column, name)

    def namespaces(self, build: int) -> frozenset[str]:
        """Return the namespaces of the operators of one build."""
        file, column = self._find_file(build)
        return frozenset(name for name, builds in file.builds_of_namespaces.items() if builds >> column & 1)

    def schemas(self, names: Collection[str]) -> frozenset[str]:
        """Return the schemas that some operators have in any build."""
        return frozenset(
            _schema_of(row, schema)
            for file in self._files
            for row in file.list_rows(names)
            for schema, *_ in row.definitions
            if schema
        )

    @functools.cached_property
    def all_names(self) -> frozenset[str]:
        """The names of the operators of all builds."""
        return frozenset(name for file in self._files for name, _ in file.defined)

    def _find_file(self, build: int) -> tuple[_OperatorFile, int]:
        """Return the file that has a build, and the number of its column there."""
        number = bisect.bisect_right(self.starts, build) - 1
        return self._files[number], build - self.starts[number]


class _OperatorFile:
    """The builds of one file."""

    def __init__(self, file: BlockFile) -> None:
        self._file = file
        self._blocks = KeyedBlocks(file, "operators")
        self._block = functools.lru_cache(maxsize=_MOST_CACHED)(self._read_block)
        self.view = functools.cache(lambda build: _Build(self._shared, self._sets, build))

    def has_operator(self, build: int, name: str) -> bool:
        exact = name.endswith(DEFAULT_OVERLOAD)
        name = name.removesuffix(DEFAULT_OVERLOAD)
        # In the order of the alphabet, the overloads follow the operator without one: no letter, digit or underscore
        # comes before the dot.
        first = bisect.bisect_left(self.defined, name, key=operator.itemgetter(0))
        for defined, sets in itertools.islice(self.defined, first, None):
            if defined != name and (exact or not defined.startswith(f"{name}.")):
                return False
            if any(self._sets[number] >> build & 1 for number in sets):
                return True
        return False

    @functools.cached_property
    def builds_of_namespaces(self) -> dict[str, int]:
        """The builds that have operators in each namespace, as a bit set."""
        numbers: dict[str, set[int]] = {}
        for name, sets in self.defined:
            numbers.setdefault(name.partition("::")[0], set()).update(sets)
        return {
            namespace: functools.reduce(operator.or_, (self._sets[number] for number in of_namespace), 0)
            for namespace, of_namespace in numbers.items()
        }

    @functools.cached_property
    def builds_of(self) -> dict[str, int]:
        """The builds that define each operator of any build, as a bit set."""
        return {name: functools.reduce(operator.or_, (self._sets[n] for n in sets), 0) for name, sets in self.defined}

    @functools.cached_property
    def defined(self) -> list[NameRow]:
        """The operators of all builds, each with the sets of builds that define it."""
        (block,) = self._file.section("names")
        defined: list[NameRow] = decode(self._file.read(block))
        return defined

    def list_rows(self, names: Collection[str] | None) -> Iterator[_Row]:
        if names is None:
            for number in range(len(self._blocks)):
                yield from self._read_block(number).values()
            return
        # In order, so that names in one block follow each other, and that is decompressed once.
        for name in sorted(set(names)):
            number = self._blocks.find(name)
            if number >= 0 and (row := self._block(number).get(name)):
                yield row

    def _read_block(self, number: int) -> dict[str, _Row]:
        return {row.name: row for row in _ROWS.decode(self._blocks.read(number))}

    @functools.cached_property
    def _shared(self) -> SharedPart:
        (block,) = self._file.section("shared")
        shared: SharedPart = decode(self._file.read(block))
        return shared

    @functools.cached_property
    def _sets(self) -> list[int]:
        return list(map(self._file.set, range(self._file.set_count)))


class _Build:
    """The table as seen by one build, and what that build has besides operators.

    :param shared: what the builds share
    :param sets: all sets of builds
    """

    def __init__(self, shared: SharedPart, sets: list[int], build: int) -> None:
        self._sets = sets
        self.has = [bool(builds >> build & 1) for builds in self._sets]
        """Whether each set of builds has this one."""
        self._before = (1 << build) - 1
        self._root = shared["roots"][build]
        self._files = shared["files"]
        self._names = shared["keys"]
        self._tags = shared["tags"]
        self._places = shared["places"]
        self._known: dict[int, Place] = {}
        self.fallbacks = tuple(
            Fallback(kernel.key, kernel.fallthrough, kernel.file, kernel.line)
            for kernel in self.kernels_of(OperatorRow._make(shared["fallbacks"]))
        )
        self.namespaces = {
            name: self._find_place(place, builds) for name, place, builds in shared["namespaces"] if self.has[builds]
        }
        self.classes = frozenset(self._select_values(shared["classes"]))
        self.keys = {
            number: str(self._names[key]) for keys in self._select_values(shared["numbers"]) for number, key in keys
        }
        self.aliases = {
            str(self._names[alias]): frozenset(str(self._names[key]) for key in members)
            for aliases in self._select_values(shared["aliases"])
            for alias, members in aliases
        }
        self.gaps = tuple(gap for gaps in self._select_values(shared["gaps"]) for gap in gaps)

    def definitions_of(self, row: _Row) -> Iterator[Operator]:
        """Yield the definition of an operator, if this build has one."""
        for schema, tags, place, builds in row.definitions:
            if self.has[builds]:
                text = schema and _schema_of(row, schema)
                yield Operator(row.name, text, tuple(self._tags[tags]), *self._find_place(place, builds))

    def kernels_of(self, row: OperatorRow) -> Iterator[Kernel]:
        """Yield the kernels of an operator, in the order of their registration."""
        operator, types, kernels = row.name, row.types, row.kernels
        # Flat in the file, which decodes faster than a list for each kernel.
        for key, type_, fallthrough, place, builds in zip(*[iter(kernels)] * KERNEL_VALUES, strict=True):
            if self.has[builds]:
                signature, schema = types[type_]
                file, line = self._find_place(place, builds)
                yield Kernel(operator, self._names[key], signature, schema, bool(fallthrough), file, line)

    def _select_values(self, values: Iterable[tuple[_T, SetNumber]]) -> Iterator[_T]:
        return (value for value, builds in values if self.has[builds])

    def _find_place(self, place: PlaceRow, builds: int) -> Place:
        if not isinstance(place, int):
            return self._find_own_place(place, builds)
        if place not in self._known:
            self._known[place] = self._find_own_place(*self._places[place])
        return self._known[place]

    def _find_own_place(self, runs: Runs, builds: int) -> Place:
        file = self._files[runs[0]]
        if file is not None:
            file = file[1:] if file.startswith(WHOLE) else self._root + file
        # Lines are stored in runs over the builds of the set: how many of these are older says which run this one is
        # in.
        position = (self._sets[builds] & self._before).bit_count()
        for line, count in zip(runs[1::2], runs[2::2], strict=True):
            if position < count:
                return Place(file, line)
            position -= count
        raise ValueError("the places of a table of operators are damaged")


def _schema_of(row: _Row, schema: str) -> str:
    """Return the whole schema of what is in the file."""
    return schema[1:] if schema.startswith(WHOLE) else row.name + schema
