"""Many symbol names and the libraries that export them, with fast lookup: see ``blocks``, whose items are the names.

Names are looked up by hash and never compared; a name that is not in a file is mistaken for one that is once in 400
million times. For listing, names are stored too, sorted and front-coded. The sections of a file::

    hashes    pages, not compressed. The upper bits of a hash are its page, the next 6 its bucket there. A page has for
              each bucket where its names begin in the page (2), and the end; for each name the lower half of its hash
              (4), sorted in each bucket; for each name the number of its set of columns (2), in the same order
    listed    the number of the set of each name (2), in the order of the blocks
    names     by their first name: for each name the number of characters it shares with the one before (one byte, at
              most 255), the rest of it, a newline
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct

from abiscan.binary.symbols import Definition, LostSymbol
from abiscan.torches.blocks import BlockFile, KeyedBlocks, Table, numbers_in

BLOCK: Final = 512  # names
BUCKETS: Final = 64  # of a page
HASH_BITS: Final = 48
LOW_BITS: Final = 32
BUCKET_BITS: Final = BUCKETS.bit_length() - 1


class NameTable(Table):
    """The names of one kind of data, each with the set of columns that export it."""

    def __init__(self, files: Sequence[BlockFile]) -> None:
        super().__init__(files)
        self._files = [_NameFile(file, start) for file, start in zip(files, self.starts, strict=False)]
        self.columns_with = functools.cache(self._look_up)
        """The bit set of columns that export a name; 0 if none does."""
        # Each library of a torch is a column, and all that load into it ask for the same prefixes.
        self.starting_with = functools.lru_cache(maxsize=4096)(self._names_starting_with)
        """The names that begin with a prefix, in order, each with its columns."""

    def by_columns(self, requested: Callable[[int], object] = bool) -> Mapping[int, Sequence[str]]:
        """Return the names by the bit set of columns that export them, in order: all, or those of the requested bit
        sets.

        This takes as long as all of their blocks take, and needs no hash but for the names that a later file changes.
        """
        first, *later = self._files
        changed = frozenset(name for file in later for name in file.starting_with(""))
        sets = {bits: self._inherit_all(bits) for bits in first.sets}
        groups: dict[int, list[str]] = {}
        for own, names in first.by_set({own for own, bits in sets.items() if requested(bits)}).items():
            kept = [name for name in names if name not in changed] if changed else names
            groups.setdefault(sets[own], []).extend(kept)
        for name in changed:
            if (bits := self.columns_with(name)) and requested(bits):
                groups.setdefault(bits, []).append(name)
        return {bits: sorted(names) for bits, names in groups.items() if names} if changed else groups

    def _names_starting_with(self, prefix: str) -> Sequence[tuple[str, int]]:
        listed = (file.starting_with(prefix) for file in self._files)
        names = sorted(set(itertools.chain.from_iterable(listed)))
        return [(name, bits) for name in names if (bits := self.columns_with(name))]

    def _look_up(self, name: str) -> int:
        bits = 0
        for number, file in enumerate(self._files):
            bits = (self.inherit(number, bits) if bits else 0) ^ file.columns_with(name)
        return bits

    def _inherit_all(self, bits: int) -> int:
        for number in range(1, len(self._files)):
            bits = self.inherit(number, bits)
        return bits


class _NameFile:
    """One file, whose columns begin at a number."""

    def __init__(self, file: BlockFile, start: int) -> None:
        self._file, self._start = file, start
        self._pages = file.section("hashes")
        self._page_bits = len(self._pages).bit_length() - 1
        self._page = functools.cache(self._read_page)
        self._blocks = KeyedBlocks(file, "names")

    def columns_with(self, name: str) -> int:
        """Return the set of columns in which the file lists a name."""
        # The page and the bucket are implied by the place, so only the lower bits are stored; to look a name up
        # decompresses nothing.
        page, bucket, low = hash_name(name, self._page_bits)
        starts, hashes, sets = self._page(page)
        start, end = starts[bucket], starts[bucket + 1]
        position = bisect.bisect_left(hashes, low, start, end)
        is_there = position < end and hashes[position] == low
        return self._file.set(sets[position]) << self._start if is_there else 0

    def starting_with(self, prefix: str) -> Iterator[str]:
        """Yield the names that begin with ``prefix``, in order."""
        # The first name with the prefix may be in the middle of the block before the first block that begins with it.
        for number in range(max(self._blocks.find(prefix), 0), len(self._blocks)):
            names = self._read_block(number)
            for position in range(bisect.bisect_left(names, prefix), len(names)):
                if not names[position].startswith(prefix):
                    return
                yield names[position]

    @property
    def sets(self) -> Iterator[int]:
        """All sets of columns that names have."""
        return (self._file.set(number) << self._start for number in range(self._file.set_count))

    def by_set(self, requested: AbstractSet[int]) -> Mapping[int, list[str]]:
        """Return the names, in order, by the requested sets of columns."""
        # Sets are few, names are many: a block without a name of these sets is not decompressed.
        numbers = {number: bits for number, bits in enumerate(self.sets) if bits in requested}
        groups: dict[int, list[str]] = {number: [] for number in numbers}
        for block in sorted({block for number in numbers for block in self._blocks_of_sets.get(number, ())}):
            sets = self._listed[block * BLOCK : (block + 1) * BLOCK]
            for number, name in zip(sets, self._decode_block(block), strict=True):
                if number in groups:
                    groups[number].append(name)
        return {bits: groups[number] for number, bits in numbers.items()}

    @functools.cached_property
    def _listed(self) -> Sequence[int]:
        """The number of the set of each name, in the order of the blocks."""
        (block,) = self._file.section("listed")
        return numbers_in("H", self._file.read(block))

    @functools.cached_property
    def _blocks_of_sets(self) -> dict[int, list[int]]:
        """The blocks that have names of each set."""
        blocks: dict[int, list[int]] = {}
        for block in range(len(self._blocks)):
            for number in set(self._listed[block * BLOCK : (block + 1) * BLOCK]):
                blocks.setdefault(number, []).append(block)
        return blocks

    def _read_page(self, number: int) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return a page: where each bucket begins; the hash of each name; the number of its set."""
        page = self._file.raw(self._pages[number])
        starts = numbers_in("H", page[: 2 * (BUCKETS + 1)])
        hashes_end = 2 * (BUCKETS + 1) + 4 * starts[BUCKETS]
        return starts, numbers_in("I", page[2 * (BUCKETS + 1) : hashes_end]), numbers_in("H", page[hashes_end:])

    @functools.lru_cache(maxsize=64)  # noqa: B019 - a table lives as long as the process; each block takes 50 kB
    def _read_block(self, number: int) -> list[str]:
        return self._decode_block(number)

    def _decode_block(self, number: int) -> list[str]:
        block = self._blocks.read(number)
        # A count of shared characters may itself be a newline, so the search for the end begins after it.
        names: list[str] = []
        position, before = 0, b""
        while position < len(block):
            end = block.index(b"\n", position + 1)
            before = before[: block[position]] + block[position + 1 : end]
            names.append(before.decode("ascii"))
            position = end + 1
        return names


_EXPORTED: Final = (Definition(version=None, hidden=False, version_index=0, type=0, size=0),)


class ColumnNames(AbstractSet[str]):
    """The names in one column of a table. None is read to learn whether the column has a name."""

    def __init__(self, table: NameTable, column: int) -> None:
        self._table, self._column = table, column

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._table.columns_with(name) >> self._column & 1)

    def __iter__(self) -> Iterator[str]:
        return self._names_by_columns(lambda bits: bits >> self._column & 1)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __sub__(self, other: AbstractSet[Any]) -> AbstractSet[str]:
        """The names that the other set lacks; in another column of the table, no other names are read for it."""
        if not isinstance(other, ColumnNames) or other._table is not self._table:
            return super().__sub__(other)
        return frozenset(
            self._names_by_columns(lambda bits: bits >> self._column & 1 and not bits >> other._column & 1)
        )

    @classmethod
    def _from_iterable(cls, names: Iterable[str]) -> AbstractSet[str]:  # type: ignore[override]
        return frozenset(names)

    def _names_by_columns(self, requested: Callable[[int], object]) -> Iterator[str]:
        return itertools.chain.from_iterable(self._table.by_columns(requested).values())


class ColumnSymbols(Struct, frozen=True, kw_only=True):
    """``Symbols`` of one column of a table, without types, sizes and versions."""

    table: NameTable
    column: int

    def find(self, name: str) -> tuple[Definition, ...]:
        """Return one definition if ``name`` is in the column."""
        return _EXPORTED if self.table.columns_with(name) >> self.column & 1 else ()

    def starting_with(self, *prefixes: str) -> Iterator[str]:
        """Return the names that begin with one of ``prefixes``."""
        found = itertools.chain.from_iterable(map(self.table.starting_with, prefixes))
        return (name for name, columns in found if columns >> self.column & 1)

    def find_lost(self) -> Iterator[LostSymbol]:
        """Yield nothing: what torch defines, it finds."""
        return iter(())


def hash_name(name: str, page_bits: int) -> tuple[int, int, int]:
    """Return the page of a name, one of 2 to the power of ``page_bits``, its bucket there, and the rest of its hash."""
    value = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=HASH_BITS // 8).digest(), "little")
    upper = value >> LOW_BITS
    return upper >> BUCKET_BITS & (1 << page_bits) - 1, upper & BUCKETS - 1, value & (1 << LOW_BITS) - 1
