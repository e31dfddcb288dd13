"""The Python names of many releases of torch in one file: each name once, with the set of releases that have it.

A module, or a class, has *marks*: texts that say what is known of it in a release. Those that follow each other are
compressed together in a block; to look a module up takes one. The bytes of a file, numbers little-endian::

    magic (8) | size of the index (4) | the index: zlib of JSON: releases, sets of releases, blocks | the blocks

A block is zlib of lines, since lzma takes four times as long to undo: for each module its name, then for each set of
releases, by its number in base 36, the marks that these releases have.
"""

from __future__ import annotations

import bisect
import functools
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.json import decode

from abiscan.inputs.inflation import decompress

MAGIC: Final = b"ABIPYTH\x02"
_SIZE: Final = struct.Struct("<I")
_BLOCK: Final = 32 << 10  # of text
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"

Marks = Mapping[str, int]
"""The marks of a module, each with the bit set of the releases that have it."""


class PythonTable:
    """A file made by ``pack``.

    :raises ValueError: the bytes are not such a file
    """

    def __init__(self, content: bytes) -> None:
        if content[: len(MAGIC)] != MAGIC:
            raise ValueError("not a table of Python names")
        (size,) = _SIZE.unpack_from(content, len(MAGIC))
        start = len(MAGIC) + _SIZE.size
        index = decode(decompress(content[start : start + size]))
        self.releases: Sequence[str] = index["releases"]
        self._numbers = {release: number for number, release in enumerate(self.releases)}
        self._sets: Sequence[str] = index["sets"]
        self._bits = functools.cache(lambda number: int(self._sets[int(number, 36)], 16))
        self._firsts: Sequence[str] = [first for first, _, _ in index["blocks"]]
        self._extents = [(start + size + offset, length) for _, offset, length in index["blocks"]]
        self._data = content
        self._block = functools.lru_cache(maxsize=64)(self._read_block)
        self._lines = functools.lru_cache(maxsize=4096)(self._find_lines)
        self._marks = functools.lru_cache(maxsize=1024)(self.releases_of)

    def marks(self, module: str, release: str) -> frozenset[str]:
        """Return the marks of a module in a release; none if it is not there."""
        return frozenset(mark for marks in self.lines_of(module, release) for mark in marks.split(" "))

    def lines_of(self, module: str, release: str) -> tuple[str, ...]:
        """Return the marks of a module in a release, with a space between those of each line of the file."""
        bit = 1 << self._numbers[release]
        return tuple(marks for bits, marks in self._lines(module) if bits & bit)

    def releases_of(self, module: str) -> Marks:
        """Return all marks of a module, with the releases that have them."""
        return _as_marks(self._lines(module))

    def number_of(self, release: str) -> int:
        """Return the number of the bit that stands for a release in each set of releases."""
        return self._numbers[release]

    def releases_with(self, module: str, mark: str | None = None) -> int:
        """Return the set of releases in which a module has a mark, or any."""
        if mark is not None:
            return self._marks(module).get(mark, 0)
        return functools.reduce(int.__or__, (bits for bits, _ in self._lines(module)), 0)

    def releases_with_ending(self, module: str, ending: str) -> int:
        """Return the set of releases in which a mark of a module ends in a text."""
        lines = (bits for bits, marks in self._lines(module) if f"{ending} " in f"{marks} ")
        return functools.reduce(int.__or__, lines, 0)

    def modules(self) -> Iterator[tuple[str, Marks]]:
        """Yield everything that the file holds."""
        for number in range(len(self._firsts)):
            for module, text in self._block(number).items():
                yield module, _as_marks(self._read_lines(text))

    def _find_lines(self, module: str) -> Sequence[tuple[int, str]]:
        number = bisect.bisect_right(self._firsts, module) - 1
        return self._read_lines(self._block(number).get(module, "")) if number >= 0 else []

    def _read_lines(self, text: str) -> list[tuple[int, str]]:
        parts = (line.partition(" ") for line in text.split("\n") if line)
        return [(self._bits(head), marks) for head, _, marks in parts]

    def _read_block(self, number: int) -> Mapping[str, str]:
        """Return the lines of each module in a block; few of them are ever asked for."""
        offset, length = self._extents[number]
        text = decompress(self._data[offset : offset + length]).decode()
        parts = (paragraph.partition("\n") for paragraph in text.split("\n\n"))
        return {module: lines for module, _, lines in parts}


def _as_marks(lines: Iterable[tuple[int, str]]) -> Marks:
    return {mark: bits for bits, marks in lines for mark in marks.split(" ")}


def pack(releases: Sequence[str], modules: Mapping[str, Marks]) -> bytes:
    """Return the bytes of a file; the same content gives the same bytes."""
    frequent: dict[int, int] = {}
    for marks in modules.values():
        for bits in set(marks.values()):
            frequent[bits] = frequent.get(bits, 0) + 1
    # The most frequent sets get the shortest numbers.
    sets = sorted(frequent, key=lambda bits: (-frequent[bits], bits))
    numbers = {bits: _to_base36(number) for number, bits in enumerate(sets)}
    blocks: list[tuple[str, bytes]] = []
    # Modules next to each other share words, so blocks of neighbours compress well, and a look-up needs just one of
    # them.
    for texts in _list_blocks(_format_module(module, modules[module], numbers) for module in sorted(modules)):
        text = "\n\n".join(texts).encode()
        blocks.append((texts[0].partition("\n")[0], zlib.compress(text, 9)))
    index, offset = [], 0
    for first, block in blocks:
        index.append([first, offset, len(block)])
        offset += len(block)
    head = {"releases": list(releases), "sets": [f"{bits:x}" for bits in sets], "blocks": index}
    packed = zlib.compress(json.dumps(head, separators=(",", ":")).encode(), 9)
    return MAGIC + _SIZE.pack(len(packed)) + packed + b"".join(block for _, block in blocks)


def _format_module(module: str, marks: Marks, numbers: Mapping[int, str]) -> str:
    grouped: dict[str, list[str]] = {}
    for mark in sorted(marks):
        grouped.setdefault(numbers[marks[mark]], []).append(mark)
    return "\n".join([module, *(f"{number} {' '.join(names)}" for number, names in sorted(grouped.items()))])


def _list_blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    size = 0
    for text in texts:
        if block and size + len(text) > _BLOCK:
            yield block
            block, size = [], 0
        block.append(text)
        size += len(text)
    if block:
        yield block


def _to_base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
        if not number:
            return text
