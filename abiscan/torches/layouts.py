"""The memory layouts of torch's classes, by release and name; nothing needs to be installed.

``data/layouts.bin`` is made by ``tools/release.py`` from the headers of the releases. The bytes of the file::

    magic (8) | size of the header (4, little-endian) | header (zlib-compressed JSON) | blocks

The header has ``builds`` (each a version and a machine) and ``blocks`` (each the first class in it and its compressed
size). A block is zlib-compressed JSON: class → its distinct layouts and its distinct virtual tables, each with the bit
set of the builds that have it. One lookup decompresses one block.
"""

from __future__ import annotations

import bisect
import functools
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final, NamedTuple, Protocol

from msgspec.json import decode

from abiscan.binary.elf import Machine
from abiscan.inputs.inflation import decompress
from abiscan.inputs.version import TorchVersion

MAGIC: Final = b"ABISLAY\x02"
_BLOCK: Final = 8  # classes


class Field(NamedTuple):
    """A member variable.

    :ivar offset: in bytes
    :ivar size: in bytes; None if its type is not a class
    """

    name: str
    offset: int
    type: str
    size: int | None


class Base(NamedTuple):
    """A direct base class and its offset in bytes."""

    name: str
    offset: int


class Layout(NamedTuple):
    """A class: direct bases and own fields in memory order.

    :ivar size: in bytes
    :ivar align: in bytes
    """

    name: str
    size: int
    align: int
    bases: tuple[Base, ...]
    fields: tuple[Field, ...]


class VTable(NamedTuple):
    """The virtual functions of a class, one per slot, as clang writes them (``void c10::Event::record(…) const``).

    ``~ [complete]`` and ``~ [deleting]`` are the destructor. Pure ones end in `` [pure]``.
    """

    name: str
    slots: tuple[str, ...]


class LayoutSource(Protocol):
    """The classes of one torch, by name."""

    def __hash__(self) -> int:
        """What is computed from it is kept."""

    def layout(self, name: str) -> Layout | None:
        """Return the memory layout of a class; None if the torch has no such class, or it is unknown."""

    def vtable(self, name: str) -> VTable | None:
        """Return the virtual functions of a class; None if it has none, or they are unknown."""


class ReleaseLayouts(NamedTuple):
    """The classes of an embedded release, by its number: ``2.6.0``."""

    release: str
    machine: Machine

    def layout(self, name: str) -> Layout | None:
        """Return the memory layout of a class; None if the release has no such class, or is not embedded."""
        return find_layout(name, self.release, self.machine)

    def vtable(self, name: str) -> VTable | None:
        """Return the virtual functions of a class; None if it has none, or the release has no such class."""
        return find_vtable(name, self.release, self.machine)


@functools.lru_cache(maxsize=16_384)
def find_layout(name: str, version: str, machine: Machine) -> Layout | None:
    """Return the memory layout of a class; None if the release has no such class, or is not embedded.

    :param name: as in ``c10::FunctionSchema``
    :param version: the number of a release, ``2.6.0``
    """
    packed = _make_table().find_class(name, version, machine)
    row = packed[0] if packed else None
    return as_layout(name, row) if row is not None else None


def find_vtable(name: str, version: str, machine: Machine) -> VTable | None:
    """Return the virtual functions of a class; None if it has none, or the release lacks the class or is not
    embedded.
    """
    packed = _make_table().find_class(name, version, machine)
    row = packed[1] if packed else None
    return VTable(name, tuple(row)) if row is not None else None


def is_known(version: str, machine: Machine) -> bool:
    """Whether the layouts of a release are embedded."""
    return _make_table().column(version, machine) is not None


def list_classes(version: str, machine: Machine) -> Iterator[Layout]:
    """Yield all classes of a release, by name."""
    column = _make_table().column(version, machine)
    if column is not None:
        for name, (rows, _) in _make_table().items():
            row = _find_variant(rows, column)
            if row is not None:
                yield as_layout(name, row)


def as_layout(name: str, row: Sequence[Any]) -> Layout:
    """Return a class from a row, as ``pack`` takes it."""
    size, align, bases, fields = row
    return Layout(name, size, align, tuple(Base(*base) for base in bases), tuple(Field(*field) for field in fields))


class _Table:
    """The content of a file made by ``pack``."""

    def __init__(self, content: bytes) -> None:
        if not content.startswith(MAGIC):
            raise ValueError("not a table of layouts")
        (size,) = struct.unpack_from("<I", content, len(MAGIC))
        start = len(MAGIC) + 4
        header = decode(decompress(content[start : start + size]))
        self.builds = [(str(version), str(machine)) for version, machine in header["builds"]]
        self._columns = {
            (TorchVersion(version), machine): column for column, (version, machine) in enumerate(header["builds"])
        }
        self._first = [name for name, _ in header["blocks"]]
        self._data = content
        self._offsets = [start + size]
        for _, length in header["blocks"]:
            self._offsets.append(self._offsets[-1] + length)
        self._block = functools.cache(self._read_block)
        self.column = functools.cache(self._find_column)
        """The number of a build; None if it is not in the table."""

    def _find_column(self, version: str, machine: Machine) -> int | None:
        return self._columns.get((TorchVersion(version).of_release, machine.value))

    def find_class(self, name: str, version: str, machine: Machine) -> tuple[Any, Any] | None:
        """Return the layout and the virtual table of a class, as packed; None if the table has no such class or
        build.
        """
        column = self.column(version, machine)
        # The block that would have the name begins with the last first name that is not behind it.
        number = bisect.bisect_right(self._first, name) - 1
        if column is None or number < 0 or (variants := self._block(number).get(name)) is None:
            return None
        return _find_variant(variants[0], column), _find_variant(variants[1], column)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield every class with all of its variants."""
        for number in range(len(self._first)):
            yield from self._block(number).items()

    def _read_block(self, number: int) -> dict[str, Any]:
        block: dict[str, Any] = decode(decompress(self._data[self._offsets[number] : self._offsets[number + 1]]))
        return block


def _find_variant(variants: Sequence[Sequence[Any]], column: int) -> Any:
    return next((value for bits, value in variants if int(bits, 16) >> column & 1), None)


@functools.cache
def _make_table() -> _Table:
    return _Table(resources.files("abiscan.torches").joinpath("data/layouts.bin").read_bytes())


def pack(
    builds: Iterable[tuple[str, str]], variants: Mapping[str, tuple[Mapping[Any, int], Mapping[Any, int]]]
) -> bytes:
    """Return the bytes of a file. The same input gives the same bytes.

    :param builds: version and machine of each bit, from the lowest
    :param variants: class → (layout → builds, slots → builds), builds as a bit set
    """
    # Sorted, so that a look-up finds its block by the first name of each, and the same input gives the same bytes.
    names = sorted(variants)
    blocks, index = [], []
    for start in range(0, len(names), _BLOCK):
        part = {name: [_sort_variants(variant) for variant in variants[name]] for name in names[start : start + _BLOCK]}
        text = json.dumps(part, separators=(",", ":"))
        blocks.append(zlib.compress(text.encode(), 9))
        index.append([names[start], len(blocks[-1])])
    header = json.dumps({"builds": list(builds), "blocks": index})
    packed = zlib.compress(header.encode(), 9)
    return b"".join([MAGIC, struct.pack("<I", len(packed)), packed, *blocks])


def unpack(content: bytes) -> tuple[list[tuple[str, str]], dict[str, tuple[dict[Any, int], dict[Any, int]]]]:
    """Return the arguments of ``pack`` that give a file."""
    table = _Table(content)
    variants = {name: tuple(map(_list_variants, packed)) for name, packed in table.items()}
    return table.builds, {name: (rows, slots) for name, (rows, slots) in variants.items()}


def _list_variants(packed: Sequence[Sequence[Any]]) -> dict[Any, int]:
    return {_freeze_lists(value): int(bits, 16) for bits, value in packed}


def _freeze_lists(value: Any) -> Any:
    return tuple(map(_freeze_lists, value)) if isinstance(value, list) else value


def _sort_variants(variants: Mapping[Any, int]) -> list[tuple[str, Any]]:
    """Return each variant once, the variants of the oldest builds first (by their lowest bit)."""
    return [(f"{bits:x}", value) for value, bits in sorted(variants.items(), key=lambda item: item[1] & -item[1])]
