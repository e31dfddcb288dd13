"""Bundles of code for AMD's GPUs, plain and compressed.

The formats are those of clang's ``OffloadBundler`` and ``CompressedOffloadBundle``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from abiscan.gpu.cuda import Damaged, Read, skip_zeroes
from abiscan.gpu.model import CodeKind, Compression, Container, Entry

_PLAIN: Final = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED: Final = b"CCOB"
_DIRECTORY: Final = 1 << 13  # all names are in the first 2 KB, even with every GPU that ROCm knows
_MOST_CODES: Final = 1 << 10
_MOST_BUNDLES: Final = 1 << 16
_ALIGNMENT: Final = 1 << 12
_LONGEST_NAME: Final = 256
_SEPARATOR: Final = "amdhsa--"
_ZLIB, _ZSTD = 0, 1


class NoZstd(Exception):  # noqa: N818
    """This Python cannot decompress zstd."""


def read_bundles(read: Read, start: int, size: int, address: int) -> Iterator[Container]:
    """Yield the bundles of a section, in order.

    The next one is where this one's size says: its first bytes may also occur in the code of another bundle.

    :param start: the offset of the section in the file
    :param address: its address
    :raises Damaged: what follows is no bundle
    :raises NoZstd: a directory is compressed, and cannot be read here
    """
    at, end = start, start + size
    # A limit, so that a hostile file cannot keep this loop busy.
    for _ in range(_MOST_BUNDLES):
        if at < end:
            at = skip_zeroes(read, at, end)
        if at >= end:
            return
        head = read(at, min(_DIRECTORY, end - at))
        directory, compression, length = head, Compression.NONE, 0
        if head.startswith(_COMPRESSED):
            directory, length = _decompress_head(read, at, end, head)
            compression = Compression.ZSTD if _unpack_at("<HH", head, 4)[1] == _ZSTD else Compression.NONE
        if not directory.startswith(_PLAIN):
            raise Damaged(f"no bundle at {at:#x}")
        entries, reach = _read_directory(directory, at, compression)
        yield Container(address=address + at - start, entries=entries)
        # Each bundle begins at a page, counted from the beginning of the section.
        at += -(-(length or reach) // _ALIGNMENT) * _ALIGNMENT


def _read_directory(head: bytes, base: int, compression: Compression) -> tuple[tuple[Entry, ...], int]:
    """Read the directory of a bundle: the code that it lists, and the size of the bundle."""
    at, reach = len(_PLAIN) + 8, len(_PLAIN)
    (count,) = _unpack_at("<Q", head, len(_PLAIN))
    entries = []
    if count > _MOST_CODES:
        raise Damaged(f"a bundle of {count} pieces of code at {base:#x}")
    for _ in range(count):
        # A record is the offset and the size of the code, the length of the name, and the name:
        # "hipv4-amdgcn-amd-amdhsa--gfx90a". The entry for the host is empty.
        offset, size, length = _unpack_at("<QQQ", head, at)
        if length > _LONGEST_NAME or at + 24 + length > len(head):
            raise Damaged(f"the directory of the bundle at {base:#x} does not end")
        name = head[at + 24 : at + 24 + length].decode("ascii", "replace")
        at, reach = at + 24 + length, max(reach, offset + size)
        _, separator, target = name.partition(_SEPARATOR)
        if separator and not name.startswith("host") and target:
            entries.append(
                Entry(kind=CodeKind.HIP, gfx=target.lstrip("-"), compression=compression, size=size, offset=base)
            )
    return tuple(entries), reach


def _decompress_head(read: Read, start: int, end: int, head: bytes) -> tuple[bytes, int]:
    """Decompress the beginning of a compressed bundle; return it with the size of the bundle."""
    version, method = _unpack_at("<HH", head, 4)
    # After "CCOB", version and method: 1 has the uncompressed size (4 bytes) and a hash (8); 2 the total size before
    # them; 3 has both sizes in 8 bytes each.
    if version == 1:
        header, total = 4 + 4 + 4 + 8, end - start
    elif version == 2:
        header, total = 4 + 4 + 8 + 8, _unpack_at("<I", head, 8)[0]
    else:
        header, total = 4 + 4 + 16 + 8, _unpack_at("<Q", head, 8)[0]
    if not header < total <= end - start:
        raise Damaged(f"the bundle at {start:#x} is longer than its section")
    compressed = read(start + header, min(total - header, 1 << 18))
    if method == _ZLIB:
        try:
            return zlib.decompressobj().decompress(compressed, _DIRECTORY), total
        except zlib.error as error:
            raise Damaged(f"damaged zlib at {start:#x}: {error}") from error
    if method != _ZSTD:
        raise Damaged(f"the bundle at {start:#x} is compressed by an unknown method")
    return _decompress_zstd(compressed), total


def _decompress_zstd(compressed: bytes) -> bytes:
    """Decompress the beginning of zstd, with whichever module this Python has."""
    try:
        from compression.zstd import ZstdDecompressor  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            from backports.zstd import ZstdDecompressor  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise NoZstd from error
    try:
        return bytes(ZstdDecompressor().decompress(compressed, _DIRECTORY))
    except Exception as error:
        raise Damaged(f"damaged zstd: {error}") from error


def _unpack_at(form: str, content: bytes, at: int) -> tuple[int, ...]:
    """Unpack a structure at an offset; what does not fit is damaged."""
    if at + struct.calcsize(form) > len(content):
        raise Damaged("a bundle ends too early")
    return struct.unpack_from(form, content, at)
