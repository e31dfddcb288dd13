"""Writes an operator table from what the libraries of many builds register. ``operator_format`` has the format."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec.structs

from abiscan.dispatch.operators import Kernel, Operators
from abiscan.regex import regex
from abiscan.torches.operator_format import (
    FALLBACKS,
    WHOLE,
    DefinitionRow,
    NameRow,
    OperatorRow,
    SharedPart,
)
from abiscan.torches.operator_table import OperatorTable
from tools.blocks import Layout, Section, compress, file_of, read_files, write_columns

_BLOCK: Final = 16  # operators
_BLOCK_OF_CODE: Final = 4  # at least this many registrations at one line are taken for a TORCH_LIBRARY block
_SOURCE: Final = regex(r"(.*?/)(?:build/)?(?:aten/src|torch/csrc)/")


def put(folder: Path, added: Mapping[str, tuple[Any, Operators]], without: Collection[str] = ()) -> None:
    """Add or replace builds: for each column a description of the build, and its operators.

    :param without: builds that are removed
    """

    def make(_: int, columns: Sequence[str]) -> bytes:
        files = read_files(folder)
        table = OperatorTable(files)
        known = {name: (table.meta[number], number) for name, number in table.numbers.items()}
        builds = {
            name: added[name] if name in added else (known[name][0], table.operators(known[name][1]))
            for name in columns
        }
        return pack(builds)

    write_columns(folder, added, without, make)


def pack(builds: Mapping[str, tuple[Any, Operators]]) -> bytes:
    """Return the bytes of a file. The same input gives the same bytes.

    :param builds: for each column a description of the build, and its operators
    """
    packer = _Packer()
    for _, operators in builds.values():
        packer.add(operators)
    rows, shared = packer.rows(), packer.shared()
    parts = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
    names: list[NameRow] = [(row.name, [builds for *_, builds in row.definitions]) for row in rows]
    # Names are a section of their own: most questions are only about them.
    sections = {
        "names": Section(blocks=[compress(names)]),
        "shared": Section(blocks=[compress(shared)]),
        "operators": Section(blocks=list(map(compress, parts)), keys=[part[0].name for part in parts]),
    }
    return file_of(
        list(builds),
        Layout(sets=packer.sets, sections=sections),
        meta=[description for description, _ in builds.values()],
    )


class _Record:
    """An item that builds have, with its line in each build unless its place is shared. The last value is its place."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.lines: dict[int, int | None] = {}

    def make_row(self, sets: dict[int, int]) -> tuple[Any, ...]:
        """Return the values, the place with its lines, and the number of the set of builds."""
        *values, place = self.values
        return (*values, place if isinstance(place, int) else self._runs_of_file(*place), self._set_number(sets))

    def _runs_of_file(self, file: int) -> list[int | None]:
        runs: list[int | None] = [file]
        for line, same in itertools.groupby(self.lines[build] for build in sorted(self.lines)):
            runs += line, len(list(same))
        return runs

    def _set_number(self, sets: dict[int, int]) -> int:
        return sets.setdefault(sum(1 << build for build in self.lines), len(sets))


class _Operator:
    """An operator in all builds."""

    def __init__(self) -> None:
        self.definitions: dict[tuple[Any, ...], _Record] = {}
        self.types: dict[tuple[str | None, str | None], int] = {}
        self.kernels: list[_Record] = []

    def add_definition(self, build: int, values: tuple[Any, ...], line: int | None) -> None:
        """Add the definition in a build."""
        self.definitions.setdefault(values, _Record(values)).lines[build] = line

    def merge_kernels(self, build: int, kernels: Iterable[tuple[tuple[Any, ...], int | None]]) -> None:
        """Merge the kernels of a build into those of the other builds, keeping their order."""
        # Kernels keep the order of their registration, which decides between two for one key. A build that lacks one of
        # the others', or has it elsewhere, gets an entry of its own at its place.
        position = 0
        for values, line in kernels:
            later = range(position, len(self.kernels))
            match = next((index for index in later if self.kernels[index].values == values), None)
            if match is None:
                self.kernels.insert(position, _Record(values))
            else:
                position = match
            self.kernels[position].lines[build] = line
            position += 1

    def make_row(self, name: str, sets: dict[int, int]) -> OperatorRow:
        """Return the row as the file has it."""
        definitions: list[DefinitionRow] = [record.make_row(sets) for record in self.definitions.values()]
        kernels = [value for record in self.kernels for value in record.make_row(sets)]
        return OperatorRow(name, definitions, list(self.types), kernels)


class _Packer:
    """Collects the operators of builds, and numbers the items that occur often."""

    def __init__(self) -> None:
        self._builds = 0
        self._rows: defaultdict[str, _Operator] = defaultdict(_Operator)
        self._roots: list[str] = []
        self._sets: dict[int, int] = {}
        self._keys: dict[str | None, int] = {}
        self._tags: dict[tuple[str, ...], int] = {}
        self._files: dict[str | None, int] = {}
        self._places: dict[Hashable, tuple[int, _Record]] = {}
        self._namespaces: dict[tuple[Any, ...], _Record] = {}
        self._others: dict[str, dict[str, int]] = {kind: {} for kind in ("classes", "numbers", "aliases", "gaps")}

    def add(self, operators: Operators) -> None:
        """Add the next build."""
        build, self._builds = self._builds, self._builds + 1
        operators = _order_operators(operators)
        registrations = [
            *((operator.name, "", operator.file, operator.line) for operator in operators.operators.values()),
            *((kernel.operator, kernel.key, kernel.file, kernel.line) for kernel in operators.kernels),
            *((FALLBACKS, fallback.key, fallback.file, fallback.line) for fallback in operators.fallbacks),
            *((name, "", *place) for name, place in operators.namespaces.items()),
        ]
        self._roots.append(_find_root(file for _, _, file, _ in registrations))
        place = self._make_placing(build, registrations)
        for operator in operators.operators.values():
            place_number, line = place(operator.name, "", operator.file, operator.line)
            schema = operator.schema
            if schema is not None:
                # A schema begins with the name of its operator, which the row has already; without it, many schemas are
                # the same text.
                has_name = schema.startswith(f"{operator.name}(")
                schema = schema.removeprefix(operator.name) if has_name else WHOLE + schema
            self._rows[operator.name].add_definition(
                build, (schema, self._number_item(self._tags, operator.tags), place_number), line
            )
        kernels: defaultdict[str, list[Kernel]] = defaultdict(list)
        for kernel in operators.kernels:
            kernels[kernel.operator].append(kernel)
        for fallback in operators.fallbacks:
            kernels[FALLBACKS].append(Kernel(FALLBACKS, fallback.key, None, None, *fallback[1:]))
        for name, registered in kernels.items():
            self._add_kernels(build, self._rows[name], registered, place)
        for name, location in operators.namespaces.items():
            place_number, line = place(name, "", *location)
            self._namespaces.setdefault((name, place_number), _Record((name, place_number))).lines[build] = line
        numbers = [[number, self._number_item(self._keys, name)] for number, name in sorted(operators.keys.items())]
        for kind, values in (
            ("classes", sorted(operators.classes)),
            ("numbers", [numbers]),
            ("aliases", [self._alias_rows(operators.aliases)]),
            ("gaps", [operators.gaps]),
        ):
            for text in map(json.dumps, values):
                self._others[kind][text] = self._others[kind].get(text, 0) | 1 << build

    @property
    def sets(self) -> list[int]:
        """All sets of builds."""
        return list(self._sets)

    def rows(self) -> list[OperatorRow]:
        """Return the operators, sorted by name."""
        return [row.make_row(name, self._sets) for name, row in sorted(self._rows.items()) if name != FALLBACKS]

    def shared(self) -> SharedPart:
        """Return the shared part; call it after ``rows``, which numbers more sets."""
        return {
            "fallbacks": self._rows[FALLBACKS].make_row(FALLBACKS, self._sets),
            "namespaces": [record.make_row(self._sets) for _, record in self._namespaces.items()],
            "classes": self._interned_items("classes"),
            "numbers": self._interned_items("numbers"),
            "aliases": self._interned_items("aliases"),
            "gaps": self._interned_items("gaps"),
            "places": [record.make_row(self._sets) for _, record in self._places.values()],
            "keys": list(self._keys),
            "tags": [list(tags) for tags in self._tags],
            "roots": self._roots,
            "files": list(self._files),
        }

    def _interned_items(self, kind: str) -> list[tuple[Any, int]]:
        return [
            (json.loads(text), self._number_item(self._sets, builds)) for text, builds in self._others[kind].items()
        ]

    def _add_kernels(self, build: int, row: _Operator, kernels: Iterable[Kernel], place: _Placing) -> None:
        records = []
        for kernel in kernels:
            place_number, line = place(kernel.operator, kernel.key, kernel.file, kernel.line)
            type_ = self._number_item(row.types, (kernel.signature, kernel.schema))
            records.append(
                ((self._number_item(self._keys, kernel.key), type_, int(kernel.fallthrough), place_number), line)
            )
        row.merge_kernels(build, records)

    def _alias_rows(self, aliases: Mapping[str, Collection[str]]) -> list[Any]:
        def key_number(key: str) -> int:
            return self._number_item(self._keys, key)

        return [[key_number(alias), sorted(map(key_number, members))] for alias, members in sorted(aliases.items())]

    def _make_placing(
        self, build: int, registrations: Iterable[tuple[str, str | None, str | None, int | None]]
    ) -> _Placing:
        """Return how to write a place in ``build``: the number of a shared place, or the file and its own line.

        A place is shared if it is a whole ``TORCH_LIBRARY`` block, with all registrations in it. Its line changes with
        each release, so blocks are the same if file, namespace and key are the same; if there are several such blocks,
        they are matched in order.
        """
        # A macro expands to one line, so all registrations in a block have that of its beginning.
        counts = Counter((file, line) for _, _, file, line in registrations)
        blocks: defaultdict[Hashable, set[int | None]] = defaultdict(set)
        for name, key, file, line in registrations:
            if counts[file, line] >= _BLOCK_OF_CODE:
                blocks[file, name.partition("::")[0], key].add(line)
        # The line of a block moves with every release. Told by its turn among the blocks of a file, namespace and key,
        # it is one item in the table with a line for each release.
        turns = {
            (block, line): turn
            for block, lines in blocks.items()
            for turn, line in enumerate(sorted(lines, key=lambda line: line or 0))
        }
        root = self._roots[build]

        def place(name: str, key: str | None, file: str | None, line: int | None) -> _Placed:
            inside = None
            if file is not None:
                inside = file.removeprefix(root) if root and file.startswith(root) else WHOLE + file
            number = self._number_item(self._files, inside)
            block = file, name.partition("::")[0], key
            turn = turns.get((block, line))
            if turn is None:
                return (number,), line
            # ``setdefault`` counts: a place that is new gets the next number.
            fresh = len(self._places), _Record(((number,),))
            place_number, record = self._places.setdefault((number, *block[1:], turn), fresh)
            record.lines[build] = line
            return place_number, None

        return place

    @staticmethod
    def _number_item(numbers: dict[Any, int], value: Hashable) -> int:
        return numbers.setdefault(value, len(numbers))


_Placed = tuple[int | tuple[int], int | None]
_Placing = Callable[[str, str | None, str | None, int | None], _Placed]


def _order_operators(operators: Operators) -> Operators:
    """Return what a build has, in the order in which a table returns it; kernels of one operator stay in their order.

    Items are numbered as they are met: so a build that was read from libraries, and the same build out of a table, give
    the same bytes.
    """
    return msgspec.structs.replace(
        operators,
        operators=dict(sorted(operators.operators.items())),
        kernels=tuple(sorted(operators.kernels, key=lambda kernel: kernel.operator)),
        namespaces=dict(sorted(operators.namespaces.items())),
    )


def _find_root(files: Iterable[str | None]) -> str:
    """Return the folder in which a torch was built, with a slash at the end; empty if its files do not show it."""
    # Where a wheel was built shows in its paths only, and differs from build to build: without it the paths are shared.
    roots = Counter(match[1] for file in files if file is not None and (match := _SOURCE.match(file)))
    return min(roots, key=lambda root: (-roots[root], root), default="")
