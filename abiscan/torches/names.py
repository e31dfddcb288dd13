"""Many symbol names and the libraries that export them, stored compactly, with fast lookup.

A name has a number, its class: the set of columns (libraries of a release) that export it. Names are looked up by hash
and never compared; a name that is not in the table is mistaken for one that is once in 400 million times. For listing,
names are stored too: sorted, front-coded, compressed block by block. The bytes of a file, numbers little-endian::

    magic (8) | number of names (4), of classes (4) | sizes of the parts (8 of 4) | the parts:
        meta      zlib: the writer's own data, as JSON
        columns   zlib: for each class, its set of columns as a number of as many bytes as the widest takes
        starts    for each bucket, where its names begin among the hashes (4), and the end
        hashes    for each name the lower half of its hash (4), sorted in each bucket; the upper bits are the bucket
        classes   the class of each name (2), in the same order
        listed    zlib: the class of each name (2), in the order of the blocks
        index     zlib: the first name and the size of each block, as JSON
        blocks    zlib, each: for each name the number of characters it shares with the one before (one byte, at most
                  255), the rest of it, a newline
"""

from __future__ import annotations

import array
import bisect
import functools
import hashlib
import itertools
import json
import mmap
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.json import decode

from abiscan.binary.symbols import Definition, LostSymbol
from abiscan.inputs.inflation import decompress

MAGIC: Final = b"ABISCAN\x04"
_HEAD: Final = struct.Struct("<8sII8I")
_BLOCK: Final = 512  # names
_BUCKET: Final = 8  # names, on average
_HASH_BITS: Final = 48
_LOW_BITS: Final = 32


class NameTable:
    """The names of a file made by ``pack``.

    :raises ValueError: the bytes are not such a file
    """

    def __init__(self, content: bytes | mmap.mmap) -> None:
        if content[: len(MAGIC)] != MAGIC:
            raise ValueError("not a table of names")
        _, count, class_count, *sizes = _HEAD.unpack_from(content)
        ends = list(itertools.accumulate(sizes, initial=_HEAD.size))
        view = memoryview(content)
        parts = [view[start:end] for start, end in itertools.pairwise(ends)]
        meta, columns, starts, hashes, classes, self._listed_part, self._index, self._blocks = parts
        self.meta: Any = decode(decompress(meta))
        self._columns = decompress(columns)
        self._starts = _list_numbers("I", starts)
        self._hashes = _list_numbers("I", hashes)
        self._classes = _list_numbers("H", classes)
        self._class_count = class_count
        self._width = len(self._columns) // max(class_count, 1)
        self._bits = _bucket_bits(count)
        self.columns = functools.cache(self._look_up)
        """The bit set of columns that export a name; 0 if none does."""

    def starting_with(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the names that begin with ``prefix``, in order, each with its columns."""
        first, _ = self._block_index
        # The first name with the prefix may be in the middle of the block before the first block that begins with it.
        for number in range(max(bisect.bisect_right(first, prefix) - 1, 0), len(first)):
            names = self._read_block(number)
            for position in range(bisect.bisect_left(names, prefix), len(names)):
                if not names[position].startswith(prefix):
                    return
                yield names[position], self.columns(names[position])

    def by_columns(self, requested: Callable[[int], object] = bool) -> Mapping[int, Sequence[str]]:
        """Return the names by the bit set of columns that export them, in order: all, or those of the requested bit
        sets.

        This takes as long as all of their blocks take, and needs no hash.
        """
        sets = {number: bits for number, bits in enumerate(self._columns_of_classes) if requested(bits)}
        # Classes are few, names are many: a block without a name of these classes is not decompressed.
        groups: dict[int, list[str]] = {number: [] for number in sets}
        for number in sorted(
            {block for class_number in sets for block in self._blocks_of_classes.get(class_number, ())}
        ):
            classes = self._listed[number * _BLOCK : (number + 1) * _BLOCK]
            for of_name, name in zip(classes, self._decode_block(number), strict=True):
                if of_name in groups:
                    groups[of_name].append(name)
        return {bits: groups[number] for number, bits in sets.items()}

    def _look_up(self, name: str) -> int:
        number = self._find_class(name)
        return self._columns_of_class(number) if number >= 0 else 0

    def _find_class(self, name: str) -> int:
        """Return the class of a name, -1 if it is not in the table."""
        # The bucket is implied by the place, so only the lower bits are stored; to look a name up decompresses none.
        bucket, low = _hash_name(name, self._bits)
        start, end = self._starts[bucket], self._starts[bucket + 1]
        position = bisect.bisect_left(self._hashes, low, start, end)
        return self._classes[position] if position < end and self._hashes[position] == low else -1

    @functools.cached_property
    def _listed(self) -> Sequence[int]:
        """The class of each name, in the order of the blocks."""
        return _list_numbers("H", decompress(self._listed_part))

    @functools.cached_property
    def _blocks_of_classes(self) -> dict[int, list[int]]:
        """The blocks that have names of each class."""
        blocks: dict[int, list[int]] = {}
        for number in range(len(self._block_index[0])):
            for class_number in set(self._listed[number * _BLOCK : (number + 1) * _BLOCK]):
                blocks.setdefault(class_number, []).append(number)
        return blocks

    @functools.cached_property
    def _columns_of_classes(self) -> list[int]:
        return list(map(self._columns_of_class, range(self._class_count)))

    def _columns_of_class(self, number: int) -> int:
        return int.from_bytes(self._columns[number * self._width : (number + 1) * self._width], "little")

    @functools.cached_property
    def _block_index(self) -> tuple[list[str], list[int]]:
        """The first name of each block; the offset of each block, and of the end."""
        index = decode(decompress(self._index))
        return [name for name, _ in index], list(itertools.accumulate((size for _, size in index), initial=0))

    @functools.lru_cache(maxsize=64)  # noqa: B019 - a table lives as long as the process; each block takes 50 kB
    def _read_block(self, number: int) -> list[str]:
        return self._decode_block(number)

    def _decode_block(self, number: int) -> list[str]:
        _, offsets = self._block_index
        block = decompress(self._blocks[offsets[number] : offsets[number + 1]])
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
        return isinstance(name, str) and bool(self._table.columns(name) >> self._column & 1)

    def __iter__(self) -> Iterator[str]:
        return self._list_names(lambda bits: bits >> self._column & 1)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __sub__(self, other: AbstractSet[Any]) -> AbstractSet[str]:
        """The names that the other set lacks; in another column of the table, no other names are read for it."""
        if not isinstance(other, ColumnNames) or other._table is not self._table:
            return super().__sub__(other)
        return frozenset(self._list_names(lambda bits: bits >> self._column & 1 and not bits >> other._column & 1))

    @classmethod
    def _from_iterable(cls, names: Iterable[str]) -> AbstractSet[str]:  # type: ignore[override]
        return frozenset(names)

    def _list_names(self, requested: Callable[[int], object]) -> Iterator[str]:
        return itertools.chain.from_iterable(self._table.by_columns(requested).values())


class ColumnSymbols(Struct, frozen=True, kw_only=True):
    """``Symbols`` of one column of a table, without types, sizes and versions."""

    table: NameTable
    column: int

    def find(self, name: str) -> tuple[Definition, ...]:
        """Return one definition if ``name`` is in the column."""
        return _EXPORTED if self.table.columns(name) >> self.column & 1 else ()

    def starting_with(self, prefix: str) -> Iterator[str]:
        """Return the names that begin with ``prefix``."""
        return (name for name, columns in self.table.starting_with(prefix) if columns >> self.column & 1)

    def find_lost(self) -> Iterator[LostSymbol]:
        """Yield nothing: what torch defines, it finds."""
        return iter(())


def pack(columns: Mapping[str, int], meta: Any) -> bytes:
    """Return the bytes of a table. The same input gives the same bytes.

    :param columns: name → the bit set of columns that export it, not 0; names are printable ASCII
    :raises ValueError: two names have the same hash
    """
    names = sorted(columns)
    numbers: dict[int, int] = {}
    for name in names:
        numbers.setdefault(columns[name], len(numbers))
    width = max((bits.bit_length() + 7) // 8 for bits in numbers) if numbers else 0
    bits = _bucket_bits(len(names))
    # A collision among the names of the table shows here, and would be an error of the data; one with a name that is
    # not in the table cannot be seen (``_HASH_BITS``).
    hashed = sorted((*_hash_name(name, bits), numbers[columns[name]]) for name in names)
    if len({(bucket, low) for bucket, low, _ in hashed}) < len(names):
        raise ValueError("two names have the same hash: change the hash")
    starts = [bisect.bisect_left(hashed, (bucket,)) for bucket in range((1 << bits) + 1)]
    blocks, index = [], []
    for start in range(0, len(names), _BLOCK):
        part = names[start : start + _BLOCK]
        blocks.append(zlib.compress(_front_coded(part), 9))
        index.append([part[0], len(blocks[-1])])
    parts = [
        zlib.compress(json.dumps(meta, sort_keys=True).encode(), 9),
        zlib.compress(b"".join(number.to_bytes(width, "little") for number in numbers), 9),
        struct.pack(f"<{len(starts)}I", *starts),
        struct.pack(f"<{len(hashed)}I", *(low for _, low, _ in hashed)),
        struct.pack(f"<{len(hashed)}H", *(number for _, _, number in hashed)),
        zlib.compress(struct.pack(f"<{len(names)}H", *(numbers[columns[name]] for name in names)), 9),
        zlib.compress(json.dumps(index).encode(), 9),
        b"".join(blocks),
    ]
    return _HEAD.pack(MAGIC, len(names), len(numbers), *map(len, parts)) + b"".join(parts)


def _hash_name(name: str, bits: int) -> tuple[int, int]:
    """Return the bucket of a name, one of 2 to the power of ``bits``, and the rest of its hash."""
    value = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=_HASH_BITS // 8).digest(), "little")
    return value >> _LOW_BITS & (1 << bits) - 1, value & (1 << _LOW_BITS) - 1


def _bucket_bits(count: int) -> int:
    return min((count // _BUCKET).bit_length(), _HASH_BITS - _LOW_BITS)


def _list_numbers(kind: Literal["I", "H"], content: bytes | memoryview) -> Sequence[int]:
    if sys.byteorder == "little":
        return memoryview(content).cast(kind)  # without a copy: a lookup reads a few of them
    numbers = array.array(kind)
    numbers.frombytes(content)
    numbers.byteswap()
    return numbers


def _front_coded(names: list[str]) -> bytes:
    lines, before = [], ""
    for name in names:
        # Sorted names share long beginnings; 255 is the most that one byte can say.
        same = (
            index
            for index, (character, previous) in enumerate(zip(name, before, strict=False))
            if character != previous
        )
        shared = min(next(same, min(len(name), len(before))), 255)
        lines.append(bytes([shared]) + name[shared:].encode("ascii") + b"\n")
        before = name
    return b"".join(lines)
