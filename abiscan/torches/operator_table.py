"""The operators of many builds of torch in little space: everything once, with the set of builds that have it.

The bytes of a file::

    magic (8) | size of the header (4, little-endian) | header | what the builds share | blocks of operators

Each part is compressed JSON (zlib). The header has ``builds`` (whatever the writer says of each), the size of the
second part, and of each block its first name and its size. The others are made of

- a *set of builds*: a bit set, by its number in a list of all that occur;
- a *place*, where in the source something is registered: ``[file, line, count, line, count, ...]``, each line that of
  the next ``count`` builds of the set that it stands beside; or the number of a place that many things have;
- a *row* for each operator: its name, its definitions, the C++ types of its kernels, its kernels in their
  order, one after the other in one list.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import re
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place

MAGIC: Final = b"ABISCAN\x02"
_BLOCK: Final = 64  # operators
_KERNEL: Final = 5  # values: key, type, whether it falls through, place, set of builds
_MOST_CACHED: Final = 128  # blocks
_BLOCK_OF_CODE: Final = 4  # registrations at one line are taken to be a block of TORCH_LIBRARY from this number on
_FALLBACKS: Final = ""  # the operator as whose kernels the fallbacks are kept
_WHOLE: Final = "="  # before a text that is kept whole: a file elsewhere than torch was built, a schema of another name
_SOURCE: Final = re.compile(r"(.*?/)(?:build/)?(?:aten/src|torch/csrc)/")


class OperatorTable:
    """The operators of a file made by ``pack``.

    :raises ValueError: the bytes are of something else
    """

    def __init__(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            raise ValueError("not a table of operators")
        (size,) = struct.unpack_from("<I", data, len(MAGIC))
        start = len(MAGIC) + 4
        header = _decompressed(data[start : start + size])
        self.builds: list[Any] = header["builds"]
        self._data = data
        self._shared_at = start + size
        self._first = [name for name, _ in header["blocks"]]
        self._offsets = [start + size + header["shared"]]
        for _, length in header["blocks"]:
            self._offsets.append(self._offsets[-1] + length)
        self._block = functools.lru_cache(maxsize=_MOST_CACHED)(self._unpack)
        self._view = functools.cache(lambda build: _View(self._shared, build))

    def operators(self, build: int, names: Collection[str] | None = None) -> Operators:
        """What one build has.

        :param build: its number
        :param names: only these operators, and their kernels; None for all
        """
        view = self._view(build)
        rows = list(self._rows(names))
        return Operators(
            operators={operator.name: operator for row in rows for operator in view.definitions(row)},
            kernels=tuple(kernel for row in rows for kernel in view.kernels(row)),
            fallbacks=view.fallbacks,
            namespaces=view.namespaces,
            classes=view.classes,
            keys=view.keys,
            aliases=view.aliases,
            gaps=view.gaps,
        )

    def _rows(self, names: Collection[str] | None) -> Iterator[Sequence[Any]]:
        if names is None:
            for number in range(len(self._first)):
                yield from self._unpack(number).values()
            return
        for name in sorted(set(names)):
            number = bisect.bisect_right(self._first, name) - 1
            if number >= 0 and (row := self._block(number).get(name)):
                yield row

    def _unpack(self, number: int) -> dict[str, Sequence[Any]]:
        rows = _decompressed(self._data[self._offsets[number] : self._offsets[number + 1]])
        return {row[0]: row for row in rows}

    @functools.cached_property
    def _shared(self) -> Any:
        shared = _decompressed(self._data[self._shared_at : self._offsets[0]])
        return {**shared, "sets": [int(text, 16) for text in shared["sets"]]}


class _View:
    """What is written, as one build has it; and what that build has besides operators.

    :param shared: what the builds share
    """

    def __init__(self, shared: Mapping[str, Any], build: int) -> None:
        self._sets: list[int] = shared["sets"]
        self._has = [bool(builds >> build & 1) for builds in self._sets]
        self._before = (1 << build) - 1
        self._root: str = shared["roots"][build]
        self._files: list[str | None] = shared["files"]
        self._names: list[str | None] = shared["keys"]
        self._tags: list[list[str]] = shared["tags"]
        self._places: list[Any] = shared["places"]
        self._known: dict[int, Place] = {}
        self.fallbacks = tuple(
            Fallback(kernel.key, kernel.fallthrough, kernel.file, kernel.line)
            for kernel in self.kernels(shared["fallbacks"])
        )
        self.namespaces = {
            name: self._place(place, builds) for name, place, builds in shared["namespaces"] if self._has[builds]
        }
        self.classes = frozenset(self._of(shared["classes"]))
        self.keys = {number: str(self._names[key]) for keys in self._of(shared["numbers"]) for number, key in keys}
        self.aliases = {
            str(self._names[alias]): frozenset(str(self._names[key]) for key in members)
            for aliases in self._of(shared["aliases"])
            for alias, members in aliases
        }
        self.gaps = tuple(gap for gaps in self._of(shared["gaps"]) for gap in gaps)

    def definitions(self, row: Sequence[Any]) -> Iterator[Operator]:
        """The definition of an operator, if this build has one."""
        name = row[0]
        for schema, tags, place, builds in row[1]:
            if self._has[builds]:
                text = schema and (schema[1:] if schema.startswith(_WHOLE) else name + schema)
                yield Operator(name, text, tuple(self._tags[tags]), *self._place(place, builds))

    def kernels(self, row: Sequence[Any]) -> Iterator[Kernel]:
        """The kernels of an operator, in the order of their registration."""
        operator, _, types, kernels = row
        for key, type_, fallthrough, place, builds in zip(*[iter(kernels)] * _KERNEL, strict=True):
            if self._has[builds]:
                signature, schema = types[type_]
                file, line = self._place(place, builds)
                yield Kernel(operator, self._names[key], signature, schema, bool(fallthrough), file, line)

    def _of(self, values: Iterable[tuple[Any, int]]) -> Iterator[Any]:
        return (value for value, builds in values if self._has[builds])

    def _place(self, place: int | Sequence[int], builds: int) -> Place:
        if not isinstance(place, int):
            return self._own(place, builds)
        if place not in self._known:
            self._known[place] = self._own(*self._places[place])
        return self._known[place]

    def _own(self, runs: Sequence[int], builds: int) -> Place:
        file = self._files[runs[0]]
        if file is not None:
            file = file[1:] if file.startswith(_WHOLE) else self._root + file
        position = (self._sets[builds] & self._before).bit_count()
        for line, count in zip(runs[1::2], runs[2::2], strict=True):
            if position < count:
                return Place(file, line)
            position -= count
        raise ValueError("the places of a table of operators are damaged")


def _decompressed(data: bytes) -> Any:
    return json.loads(zlib.decompress(data))


def pack(builds: Sequence[tuple[Any, Operators]]) -> bytes:
    """The bytes of a table. The same input gives the same bytes.

    :param builds: what to say of each build, and what it has
    """
    packer = _Packer()
    for _, found in builds:
        packer.add(found)
    rows, shared = packer.rows(), packer.shared()
    parts = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
    blocks = [_compressed(part) for part in parts]
    packed = _compressed(shared)
    header = _compressed(
        {
            "builds": [said for said, _ in builds],
            "shared": len(packed),
            "blocks": [[part[0][0], len(block)] for part, block in zip(parts, blocks, strict=True)],
        }
    )
    return b"".join([MAGIC, struct.pack("<I", len(header)), header, packed, *blocks])


class _Record:
    """Something that builds have, with its line in each where that is its own. The last value is its place."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.lines: dict[int, int | None] = {}

    def written(self, sets: dict[int, int]) -> list[Any]:
        """The values, the place with its lines, and the number of the set of builds."""
        *values, place = self.values
        return [*values, place if isinstance(place, int) else self._runs(*place), self._set(sets)]

    def _runs(self, file: int) -> list[int | None]:
        runs: list[int | None] = [file]
        for line, same in itertools.groupby(self.lines[build] for build in sorted(self.lines)):
            runs += line, len(list(same))
        return runs

    def _set(self, sets: dict[int, int]) -> int:
        return sets.setdefault(sum(1 << build for build in self.lines), len(sets))


class _Row:
    """An operator in all builds."""

    def __init__(self) -> None:
        self.definitions: dict[tuple[Any, ...], _Record] = {}
        self.types: dict[tuple[str | None, str | None], int] = {}
        self.kernels: list[_Record] = []

    def define(self, build: int, values: tuple[Any, ...], line: int | None) -> None:
        """Add the definition in a build."""
        self.definitions.setdefault(values, _Record(values)).lines[build] = line

    def implement(self, build: int, kernels: Iterable[tuple[tuple[Any, ...], int | None]]) -> None:
        """Add the kernels of a build so that they stay in their order, among those of other builds."""
        position = 0
        for values, line in kernels:
            later = range(position, len(self.kernels))
            found = next((at for at in later if self.kernels[at].values == values), None)
            if found is None:
                self.kernels.insert(position, _Record(values))
            else:
                position = found
            self.kernels[position].lines[build] = line
            position += 1

    def written(self, name: str, sets: dict[int, int]) -> list[Any]:
        """The row as the file has it."""
        definitions = [record.written(sets) for record in self.definitions.values()]
        return [name, definitions, list(self.types), [each for record in self.kernels for each in record.written(sets)]]


class _Packer:
    """Collects what builds have, and gives numbers to what occurs many times."""

    def __init__(self) -> None:
        self._builds = 0
        self._rows: defaultdict[str, _Row] = defaultdict(_Row)
        self._roots: list[str] = []
        self._sets: dict[int, int] = {}
        self._keys: dict[str | None, int] = {}
        self._tags: dict[tuple[str, ...], int] = {}
        self._files: dict[str | None, int] = {}
        self._places: dict[Hashable, tuple[int, _Record]] = {}
        self._namespaces: dict[tuple[Any, ...], _Record] = {}
        self._others: dict[str, dict[str, int]] = {kind: {} for kind in ("classes", "numbers", "aliases", "gaps")}

    def add(self, found: Operators) -> None:
        """Add the next build."""
        build, self._builds = self._builds, self._builds + 1
        everything = [
            *((operator.name, "", operator.file, operator.line) for operator in found.operators.values()),
            *((kernel.operator, kernel.key, kernel.file, kernel.line) for kernel in found.kernels),
            *((_FALLBACKS, fallback.key, fallback.file, fallback.line) for fallback in found.fallbacks),
            *((name, "", *place) for name, place in found.namespaces.items()),
        ]
        self._roots.append(_root(file for _, _, file, _ in everything))
        place = self._placing(build, everything)
        for operator in found.operators.values():
            at, line = place(operator.name, "", operator.file, operator.line)
            schema = operator.schema
            if schema is not None:
                has_name = schema.startswith(f"{operator.name}(")
                schema = schema.removeprefix(operator.name) if has_name else _WHOLE + schema
            self._rows[operator.name].define(build, (schema, self._number(self._tags, operator.tags), at), line)
        kernels: defaultdict[str, list[Kernel]] = defaultdict(list)
        for kernel in found.kernels:
            kernels[kernel.operator].append(kernel)
        for fallback in found.fallbacks:
            kernels[_FALLBACKS].append(Kernel(_FALLBACKS, fallback.key, None, None, *fallback[1:]))
        for name, registered in kernels.items():
            self._implement(build, self._rows[name], registered, place)
        for name, where in found.namespaces.items():
            at, line = place(name, "", *where)
            self._namespaces.setdefault((name, at), _Record((name, at))).lines[build] = line
        numbers = [[number, self._number(self._keys, name)] for number, name in sorted(found.keys.items())]
        for kind, values in (
            ("classes", sorted(found.classes)),
            ("numbers", [numbers]),
            ("aliases", [self._aliases(found.aliases)]),
            ("gaps", [found.gaps]),
        ):
            for text in map(json.dumps, values):
                self._others[kind][text] = self._others[kind].get(text, 0) | 1 << build

    def rows(self) -> list[Any]:
        """The operators, sorted by name."""
        return [row.written(name, self._sets) for name, row in sorted(self._rows.items()) if name != _FALLBACKS]

    def shared(self) -> dict[str, Any]:
        """The rest; after ``rows``, which gives numbers to more sets."""
        return {
            "fallbacks": self._rows[_FALLBACKS].written(_FALLBACKS, self._sets),
            "namespaces": [record.written(self._sets) for _, record in self._namespaces.items()],
            **{
                kind: [[json.loads(text), self._number(self._sets, builds)] for text, builds in values.items()]
                for kind, values in self._others.items()
            },
            "places": [record.written(self._sets) for _, record in self._places.values()],
            "sets": [f"{builds:x}" for builds in self._sets],
            "keys": list(self._keys),
            "tags": list(self._tags),
            "roots": self._roots,
            "files": list(self._files),
        }

    def _implement(self, build: int, row: _Row, kernels: Iterable[Kernel], place: _Placing) -> None:
        records = []
        for kernel in kernels:
            at, line = place(kernel.operator, kernel.key, kernel.file, kernel.line)
            type_ = self._number(row.types, (kernel.signature, kernel.schema))
            records.append(((self._number(self._keys, kernel.key), type_, int(kernel.fallthrough), at), line))
        row.implement(build, records)

    def _aliases(self, aliases: Mapping[str, Collection[str]]) -> list[Any]:
        def number(key: str) -> int:
            return self._number(self._keys, key)

        return [[number(alias), sorted(map(number, members))] for alias, members in sorted(aliases.items())]

    def _placing(self, build: int, everything: Iterable[tuple[str, str | None, str | None, int | None]]) -> _Placing:
        """How to write where something is in ``build``: the number of a shared place, or the file, and its own line.

        A place is shared if it is a whole block of ``TORCH_LIBRARY``, with whatever is registered in it. Its line
        changes with each release, so it is the same one where file, namespace and key are the same: for several such
        blocks, where it comes at the same turn.
        """
        counts = Counter((file, line) for _, _, file, line in everything)
        blocks: defaultdict[Hashable, set[int | None]] = defaultdict(set)
        for name, key, file, line in everything:
            if counts[file, line] >= _BLOCK_OF_CODE:
                blocks[file, name.partition("::")[0], key].add(line)
        turns = {
            (block, line): turn
            for block, lines in blocks.items()
            for turn, line in enumerate(sorted(lines, key=lambda line: line or 0))
        }
        root = self._roots[build]

        def place(name: str, key: str | None, file: str | None, line: int | None) -> _Placed:
            inside = None
            if file is not None:
                inside = file.removeprefix(root) if root and file.startswith(root) else _WHOLE + file
            number = self._number(self._files, inside)
            block = file, name.partition("::")[0], key
            turn = turns.get((block, line))
            if turn is None:
                return (number,), line
            fresh = len(self._places), _Record(((number,),))
            at, record = self._places.setdefault((number, *block[1:], turn), fresh)
            record.lines[build] = line
            return at, None

        return place

    @staticmethod
    def _number(numbers: dict[Any, int], value: Hashable) -> int:
        return numbers.setdefault(value, len(numbers))


_Placed = tuple[int | tuple[int], int | None]
_Placing = Callable[[str, str | None, str | None, int | None], _Placed]


def _root(files: Iterable[str | None]) -> str:
    """The folder in which a torch was built, with a slash at the end; empty where its files do not tell."""
    found = Counter(match[1] for file in files if file is not None and (match := _SOURCE.match(file)))
    return min(found, key=lambda root: (-found[root], root), default="")


def _compressed(content: Any) -> bytes:
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
