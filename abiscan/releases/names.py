"""Many symbol names with who exports them, in little space: sorted, front-coded, compressed block by block.

One lookup decompresses one block. A name carries a number, its class: the set of columns (library of a release) that
export it. The bytes of a file::

    magic (8) | size of the header (4, little-endian) | header (xz-compressed JSON) | blocks

The header has ``classes`` (each a bit set of columns, as a hexadecimal number), ``blocks`` (each its first name and its
compressed size) and ``meta`` (whatever the writer put there). A block is a zlib stream: for each name the number of
characters it shares with the one before (one byte, at most 255), the rest of it, a newline; then, after two NULs, the
class of each name, two bytes little-endian.
"""

from __future__ import annotations

import array
import bisect
import functools
import json
import lzma
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAGIC: Final = b"ABISCAN\x01"
_BLOCK: Final = 512  # names
_MOST_CACHED: Final = 64  # blocks, of about 50 KB each once unpacked


class NameTable:
    """The names of a file made by ``pack``.

    :raises ValueError: the bytes are of something else
    """

    def __init__(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            raise ValueError("not a table of names")
        (size,) = struct.unpack_from("<I", data, len(MAGIC))
        start = len(MAGIC) + 4
        header = json.loads(lzma.decompress(data[start : start + size]))
        self.meta: Any = header["meta"]
        self._classes = [int(text, 16) for text in header["classes"]]
        self._first = [name for name, _ in header["blocks"]]
        self._data = data
        self._offsets = [start + size]
        for _, length in header["blocks"]:
            self._offsets.append(self._offsets[-1] + length)
        self._block = functools.lru_cache(maxsize=_MOST_CACHED)(self._unpack)

    def columns(self, name: str) -> int:
        """The bit set of columns that export ``name``; 0 if none does."""
        number = bisect.bisect_right(self._first, name) - 1
        if number < 0:
            return 0
        names, classes = self._block(number)
        at = bisect.bisect_left(names, name)
        return self._classes[classes[at]] if at < len(names) and names[at] == name else 0

    def starting_with(self, prefix: str) -> Iterator[tuple[str, int]]:
        """The names that begin with ``prefix``, in order, each with its columns."""
        for number in range(max(bisect.bisect_right(self._first, prefix) - 1, 0), len(self._first)):
            names, classes = self._block(number)
            for at in range(bisect.bisect_left(names, prefix), len(names)):
                if not names[at].startswith(prefix):
                    return
                yield names[at], self._classes[classes[at]]

    def _unpack(self, number: int) -> tuple[list[str], array.array[int]]:
        block = zlib.decompress(self._data[self._offsets[number] : self._offsets[number + 1]])
        # The counts of shared characters may be NUL or newline themselves, so lines are found by their ends.
        names: list[str] = []
        at, before = 0, b""
        while block[at : at + 2] != b"\0\0":
            end = block.index(b"\n", at + 1)
            before = before[: block[at]] + block[at + 1 : end]
            names.append(before.decode("ascii"))
            at = end + 1
        classes = array.array("H", block[at + 2 :])
        if sys.byteorder == "big":
            classes.byteswap()
        return names, classes


def pack(columns: Mapping[str, int], meta: Any) -> bytes:
    """The bytes of a table. The same input gives the same bytes.

    :param columns: name → the bit set of columns that export it; names are printable ASCII
    """
    numbers: dict[int, int] = {}
    names = sorted(columns)
    for name in names:
        numbers.setdefault(columns[name], len(numbers))
    blocks, index = [], []
    for start in range(0, len(names), _BLOCK):
        part = names[start : start + _BLOCK]
        classes = b"".join(struct.pack("<H", numbers[columns[name]]) for name in part)
        blocks.append(zlib.compress(_front_coded(part) + b"\0\0" + classes, 9))
        index.append([part[0], len(blocks[-1])])
    header = json.dumps({"meta": meta, "classes": [f"{bits:x}" for bits in numbers], "blocks": index}, sort_keys=True)
    packed = lzma.compress(header.encode(), preset=9)
    return b"".join([MAGIC, struct.pack("<I", len(packed)), packed, *blocks])


def _front_coded(names: list[str]) -> bytes:
    lines, before = [], ""
    for name in names:
        same = (index for index, (ours, theirs) in enumerate(zip(name, before, strict=False)) if ours != theirs)
        shared = min(next(same, min(len(name), len(before))), 255)
        lines.append(bytes([shared]) + name[shared:].encode("ascii") + b"\n")
        before = name
    return b"".join(lines)
