"""Reads an operator table: all operators of one torch build, or some of them.

Looking up an operator decompresses one block, which has it for all builds. ``operator_format`` has the format.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import struct
from collections.abc import Collection, Iterable, Iterator
from typing import Final, TypeVar

from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place
from abiscan.python.torch_texts import DEFAULT_OVERLOAD
from abiscan.torches.operator_format import (
    KERNEL_VALUES,
    MAGIC,
    WHOLE,
    NameRow,
    OperatorRow,
    PlaceRow,
    Runs,
    SetNumber,
    SharedPart,
    TableHeader,
    decompress_part,
)

_MOST_CACHED: Final = 512  # blocks
_T = TypeVar("_T")


class OperatorTable:
    """The operators of a file made by ``tools/operator_packer.py``.

    :raises ValueError: the bytes are not such a file
    """

    def __init__(self, content: bytes) -> None:
        if not content.startswith(MAGIC):
            raise ValueError("not a table of operators")
        (size,) = struct.unpack_from("<I", content, len(MAGIC))
        start = len(MAGIC) + 4
        header: TableHeader = decompress_part(content[start : start + size])
        self.builds = header["builds"]
        self._data = content
        self._names_at = start + size
        self._shared_at = self._names_at + header["names"]
        self._first = [name for name, _ in header["blocks"]]
        self._offsets = [self._shared_at + header["shared"]]
        for _, length in header["blocks"]:
            self._offsets.append(self._offsets[-1] + length)
        self._block = functools.lru_cache(maxsize=_MOST_CACHED)(self._read_block)
        self._view = functools.cache(lambda build: _Build(self._shared, self._sets, build))

    def operators(self, build: int, names: Collection[str] | None = None) -> Operators:
        """Return the operators of one build.

        :param build: its number
        :param names: only these operators, and their kernels; None for all
        """
        view = self._view(build)
        rows = list(self._list_rows(names))
        return Operators(
            operators={operator.name: operator for row in rows for operator in view.definitions_of(row)},
            kernels=tuple(kernel for row in rows for kernel in view.kernels_of(row)),
            fallbacks=view.fallbacks,
            namespaces=view.namespaces,
            classes=view.classes,
            keys=view.keys,
            aliases=view.aliases,
            gaps=view.gaps,
        )

    def names(self, build: int) -> frozenset[str]:
        """Return the names of all operators of one build, in less time than the operators themselves take."""
        return frozenset(name for name, builds in self._builds_of.items() if builds >> build & 1)

    def has_operator(self, build: int, name: str) -> bool:
        """Whether one build has an operator, or an overload of it; see ``DEFAULT_OVERLOAD``."""
        exact = name.endswith(DEFAULT_OVERLOAD)
        name = name.removesuffix(DEFAULT_OVERLOAD)
        # In the order of the alphabet, the overloads follow the operator without one: no letter, digit or underscore
        # comes before the dot.
        first = bisect.bisect_left(self._defined, name, key=operator.itemgetter(0))
        for defined, sets in itertools.islice(self._defined, first, None):
            if defined != name and (exact or not defined.startswith(f"{name}.")):
                return False
            if any(self._sets[number] >> build & 1 for number in sets):
                return True
        return False

    def namespaces(self, build: int) -> frozenset[str]:
        """Return the namespaces of the operators of one build."""
        return frozenset(name for name, builds in self._builds_of_namespaces.items() if builds >> build & 1)

    @functools.cached_property
    def _builds_of_namespaces(self) -> dict[str, int]:
        numbers: dict[str, set[int]] = {}
        for name, sets in self._defined:
            numbers.setdefault(name.partition("::")[0], set()).update(sets)
        return {
            namespace: functools.reduce(operator.or_, (self._sets[number] for number in of_namespace), 0)
            for namespace, of_namespace in numbers.items()
        }

    @functools.cached_property
    def _builds_of(self) -> dict[str, int]:
        """The builds that define each operator of any build, as a bit set."""
        builds_of = dict.fromkeys(self.all_names, 0)
        for name, sets in self._defined:
            for number in sets:
                builds_of[name] |= self._sets[number]
        return builds_of

    @functools.cached_property
    def all_names(self) -> frozenset[str]:
        """The names of the operators of all builds."""
        return frozenset(name for name, _ in self._defined)

    @functools.cached_property
    def _defined(self) -> list[NameRow]:
        """The operators of all builds, each with the sets of builds that define it."""
        defined: list[NameRow] = decompress_part(self._data[self._names_at : self._shared_at])
        return defined

    def _list_rows(self, names: Collection[str] | None) -> Iterator[OperatorRow]:
        if names is None:
            for number in range(len(self._first)):
                yield from self._read_block(number).values()
            return
        # In order, so that names in one block follow each other, and that is decompressed once.
        for name in sorted(set(names)):
            number = bisect.bisect_right(self._first, name) - 1
            if number >= 0 and (row := self._block(number).get(name)):
                yield row

    def _read_block(self, number: int) -> dict[str, OperatorRow]:
        rows = decompress_part(self._data[self._offsets[number] : self._offsets[number + 1]])
        return {row.name: row for row in map(OperatorRow._make, rows)}

    @functools.cached_property
    def _shared(self) -> SharedPart:
        shared: SharedPart = decompress_part(self._data[self._shared_at : self._offsets[0]])
        return shared

    @functools.cached_property
    def _sets(self) -> list[int]:
        return [int(text, 16) for text in self._shared["sets"]]


class _Build:
    """The table as seen by one build, and what that build has besides operators.

    :param shared: what the builds share
    :param sets: all sets of builds
    """

    def __init__(self, shared: SharedPart, sets: list[int], build: int) -> None:
        self._sets = sets
        self._has = [bool(builds >> build & 1) for builds in self._sets]
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
            name: self._find_place(place, builds) for name, place, builds in shared["namespaces"] if self._has[builds]
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

    def definitions_of(self, row: OperatorRow) -> Iterator[Operator]:
        """Yield the definition of an operator, if this build has one."""
        for schema, tags, place, builds in row.definitions:
            if self._has[builds]:
                text = schema and (schema[1:] if schema.startswith(WHOLE) else row.name + schema)
                yield Operator(row.name, text, tuple(self._tags[tags]), *self._find_place(place, builds))

    def kernels_of(self, row: OperatorRow) -> Iterator[Kernel]:
        """Yield the kernels of an operator, in the order of their registration."""
        operator, types, kernels = row.name, row.types, row.kernels
        # Flat in the file, which decodes faster than a list for each kernel.
        for key, type_, fallthrough, place, builds in zip(*[iter(kernels)] * KERNEL_VALUES, strict=True):
            if self._has[builds]:
                signature, schema = types[type_]
                file, line = self._find_place(place, builds)
                yield Kernel(operator, self._names[key], signature, schema, bool(fallthrough), file, line)

    def _select_values(self, values: Iterable[tuple[_T, SetNumber]]) -> Iterator[_T]:
        return (value for value, builds in values if self._has[builds])

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
