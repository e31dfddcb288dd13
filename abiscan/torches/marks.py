"""What is known of things by their names, such as the modules of torch, as *marks*: texts, each with its columns.

A mark says one thing of a key, and is the item of a file: see ``blocks``. The section ``keys`` has all of them, sorted
by key, as text: for each key a line with it, then for each set of columns a line with its number in base 36 and the
marks of that set, a tab before each; an empty line between keys. To look a key up takes one block.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from abiscan.torches.blocks import BlockFile, KeyedBlocks, Table

SEPARATOR: Final = "\t"
Marks = Mapping[str, int]
"""The marks of a key, each with the set of the columns that have it."""
Lines = Sequence[tuple[int, str]]
"""The same, with the marks of each set in one text."""


class MarkTable(Table):
    """The marks of one kind of data."""

    def __init__(self, files: Sequence[BlockFile]) -> None:
        super().__init__(files)
        self._files = [_MarkFile(file, start) for file, start in zip(files, self.starts, strict=False)]
        self.lines = functools.lru_cache(maxsize=4096)(self._merge_lines)
        """Returns the lines of a key."""
        self._marks = functools.lru_cache(maxsize=1024)(self.marks_of)

    def lines_in(self, key: str, column: int) -> tuple[str, ...]:
        """Return the lines of a key in a column."""
        return tuple(marks for bits, marks in self.lines(key) if bits >> column & 1)

    def marks_in(self, key: str, column: int) -> Iterator[str]:
        """Yield the marks of a key in a column."""
        for marks in self.lines_in(key, column):
            yield from marks.split(SEPARATOR)

    def marks_of(self, key: str) -> Marks:
        """Return all marks of a key."""
        return _as_marks(self.lines(key))

    def columns_with(self, key: str, mark: str | None = None) -> int:
        """Return the set of columns in which a key has a mark, or any."""
        if mark is not None:
            return self._marks(key).get(mark, 0)
        return functools.reduce(int.__or__, (bits for bits, _ in self.lines(key)), 0)

    def columns_with_ending(self, key: str, ending: str) -> int:
        """Return the set of columns in which a mark of a key ends in a text."""
        lines = (bits for bits, marks in self.lines(key) if f"{ending}\t" in f"{marks}\t")
        return functools.reduce(int.__or__, lines, 0)

    def items(self) -> Iterator[tuple[str, Marks]]:
        """Yield all keys in order, each with its marks."""
        for key in sorted({key for file in self._files for key in file}):
            if marks := _as_marks(self.lines(key)):
                yield key, marks

    def items_in(self, column: int) -> Iterator[tuple[str, str]]:
        """Yield the marks of all keys in a column, sorted, each with its key."""
        return ((key, mark) for key, marks in self.items() for mark in sorted(marks) if marks[mark] >> column & 1)

    def _merge_lines(self, key: str) -> Lines:
        lines: Lines = []
        for number, file in enumerate(self._files):
            if lines:
                lines = [(self.inherit(number, bits), marks) for bits, marks in lines]
            if own := file.lines(key):
                lines = _changed_lines(lines, own) if lines else own
        return lines


class _MarkFile:
    """One file, whose columns begin at a number."""

    def __init__(self, file: BlockFile, start: int) -> None:
        self._file, self._start = file, start
        self._blocks = KeyedBlocks(file, "keys")
        self._block = functools.lru_cache(maxsize=64)(self._read_block)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        for number in range(len(self._blocks)):
            yield from (entry.partition("\n")[0] for entry in self._block(number))

    def lines(self, key: str) -> Lines:
        number = self._blocks.find(key)
        entries, first_line = self._block(number) if number >= 0 else [], f"{key}\n"
        place = bisect.bisect_left(entries, first_line)
        if place == len(entries) or not entries[place].startswith(first_line):
            return []
        parts = (line.partition(SEPARATOR) for line in entries[place].split("\n")[1:])
        return [(self._file.set(int(number, 36)) << self._start, marks) for number, _, marks in parts]

    def _read_block(self, number: int) -> list[str]:
        """Return the keys of a block, each with its lines: in order, since a line break is less than what keys have."""
        return self._blocks.read(number).decode().split("\n\n")


def _changed_lines(lines: Lines, change: Lines) -> Lines:
    """Return lines with the columns of some marks changed: those are in the result that one of both has."""
    marks = dict(_as_marks(lines))
    for mark, bits in _as_marks(change).items():
        marks[mark] = marks.get(mark, 0) ^ bits
    return [(bits, SEPARATOR.join(same)) for bits, same in grouped(marks).items() if bits]


def grouped(marks: Marks) -> dict[int, list[str]]:
    """Return the marks of each set of columns."""
    groups: dict[int, list[str]] = {}
    for mark, bits in marks.items():
        groups.setdefault(bits, []).append(mark)
    return groups


def _as_marks(lines: Iterable[tuple[int, str]]) -> Marks:
    return {mark: bits for bits, marks in lines for mark in marks.split(SEPARATOR)}
