"""The container of everything that is embedded of the releases of torch: files of blocks, to which a release appends.

Each kind of data has a folder in ``data``, with the files ``0.blocks``, ``1.blocks``, … A file has *columns*, one for
each release, build or library that it adds. What is in a column is an item, and a file has each item once, with the set
of its columns. Few items change from one release to the next: a column has a *parent* in a file before, and its file
lists only the items in which the two differ. So a new release is a new file, and all others stay as they are.

The bytes of a file, numbers little-endian::

    magic (8) | number of blocks (4) | CRC-32 of the index (4)
    index: for each block its offset (4) and its CRC-32 (4); the size of the file (4), 0 (4)
    blocks

Block 0 is the ``Head``, as JSON; block 1 the sets of columns, each a number with a bit for each column of the file.
The others form sections, whose content is a matter of the kind. In a section with keys, the blocks are sorted; a block
before them has the first key of each. Most blocks are compressed with zlib. A look-up reads and checks the blocks that
it needs. ``tools/blocks.py`` writes the files.
"""

from __future__ import annotations

import array
import bisect
import errno
import functools
import itertools
import mmap
import os
import struct
import sys
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.json import decode

from abiscan import release_data
from abiscan.inputs.inflation import decompress

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

MAGIC: Final = b"ABIBLK\r\n"
START: Final = struct.Struct("<8sII")
_ENTRY: Final = 8  # bytes of the index, for each block


class Head(Struct, frozen=True, kw_only=True):
    """What a file says of itself.

    :ivar columns: their names: ``2.13.0+cpu x86_64``
    :ivar parents: for each column, the number of the older column that it is a change of, if any
    :ivar width: the bytes of each set of columns
    :ivar meta: what the kind has to say of the columns
    :ivar sections: for each its first block, and the number of its blocks, without the one that has the keys
    """

    columns: list[str]
    parents: list[int | None]
    width: int
    meta: list[Any]
    sections: dict[str, tuple[int, int]]


class BlockFile:
    """A file of blocks.

    :param path: what it is called if it is damaged
    :raises OSError: it is damaged: ``inputs.installation`` tells the user what to do
    """

    def __init__(self, content: bytes | mmap.mmap, path: str = "") -> None:
        self._view, self._path = memoryview(content), path
        if len(content) < START.size or content[: len(MAGIC)] != MAGIC:
            raise self._damage("is not a file of blocks")
        _, self.block_count, checksum = START.unpack_from(content)
        index = self._view[START.size : START.size + _ENTRY * (self.block_count + 1)]
        if zlib.crc32(index) != checksum:
            raise self._damage("its index is damaged")
        self._index = numbers_in("I", index)
        if self._index[2 * self.block_count] != len(content):
            raise self._damage(f"has {len(content)} bytes instead of {self._index[2 * self.block_count]}")
        self.head = decode(self.read(0), type=Head)
        self.set = functools.cache(self._read_set)
        """A set of columns, by its number."""

    def raw(self, number: int) -> memoryview:
        """Return a block as it is stored."""
        offset, checksum, end = self._index[2 * number : 2 * number + 3]
        block = self._view[offset:end]
        if zlib.crc32(block) != checksum:
            raise self._damage(f"block {number} is damaged")
        return block

    def read(self, number: int) -> bytes:
        """Return the content of a compressed block."""
        return decompress(self.raw(number))

    def section(self, name: str) -> range:
        """Return the blocks of a section."""
        first, count = self.head.sections[name]
        return range(first, first + count)

    @property
    def set_count(self) -> int:
        """The number of sets of columns."""
        return len(self._sets) // max(self.head.width, 1)

    @functools.cached_property
    def _sets(self) -> bytes:
        return self.read(1)

    def _read_set(self, number: int) -> int:
        width = self.head.width
        return int.from_bytes(self._sets[number * width : (number + 1) * width], "little")

    def _damage(self, problem: str) -> OSError:
        return OSError(errno.EIO, problem, self._path)


class KeyedBlocks:
    """A section whose blocks are found by key."""

    def __init__(self, file: BlockFile, name: str) -> None:
        self._file, self._blocks = file, file.section(name)

    def __len__(self) -> int:
        return len(self._blocks)

    def find(self, key: str) -> int:
        """Return the number of the block that has a key if any has; -1 if it comes before all."""
        return bisect.bisect_right(self._firsts, key) - 1

    def read(self, number: int) -> bytes:
        """Return the content of a block."""
        return self._file.read(self._blocks[number])

    @functools.cached_property
    def _firsts(self) -> list[str]:
        firsts: list[str] = decode(self._file.read(self._blocks.start - 1))
        return firsts


class Table:
    """All files of a kind: their columns, one after the other."""

    def __init__(self, files: Sequence[BlockFile]) -> None:
        self.files = files
        self.columns = [column for file in files for column in file.head.columns]
        self.numbers = {column: number for number, column in enumerate(self.columns)}
        """The bit of each column in sets."""
        self.meta = [described for file in files for described in file.head.meta]
        self.starts = list(itertools.accumulate((len(file.head.columns) for file in files), initial=0))
        """The number of the first column of each file."""
        self.inherit = functools.lru_cache(maxsize=16_384)(self._inherit)
        """Returns a set of columns of older files with the columns of a file, by its number, whose parents are in
        it."""

    @classmethod
    def of(cls, kind: str) -> Self:
        """Open the files of a kind.

        :raises OSError: one is missing, or damaged
        """
        folder = release_data.folder("torches") / kind
        count = sum(entry.name.endswith(".blocks") for entry in folder.iterdir())
        return cls([_open_file(folder / f"{number}.blocks") for number in range(max(count, 1))])

    def _inherit(self, number: int, bits: int) -> int:
        parents = self.files[number].head.parents
        own = (1 << column for column, parent in enumerate(parents) if parent is not None and bits >> parent & 1)
        return bits | sum(own) << self.starts[number]


def _open_file(path: Path) -> BlockFile:
    # Mapped: a look-up needs a few blocks of megabytes.
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:  # which cannot be mapped
            return BlockFile(b"", str(path))
        return BlockFile(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), str(path))


def numbers_in(kind: Literal["I", "H"], content: bytes | memoryview) -> Sequence[int]:
    """Return numbers of 4 or 2 bytes."""
    if sys.byteorder == "little":
        return memoryview(content).cast(kind)  # without a copy: a lookup reads a few of them
    numbers = array.array(kind)
    numbers.frombytes(content)
    numbers.byteswap()
    return numbers
