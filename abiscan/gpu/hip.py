"""Bundles of code for AMD's GPUs, plain and compressed (clang's ``OffloadBundler`` and ``CompressedOffloadBundle``)."""

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


def containers(read: Read, start: int, size: int, address: int) -> Iterator[Container]:
    """The bundles of a section, in order.

    The next one is where this one's size says: its first bytes may also occur in the code of another bundle.

    :param start: the offset of the section in the file
    :param address: its address
    :raises Damaged: what follows is no bundle
    :raises NoZstd: a directory is compressed, and cannot be read here
    """
    at, end = start, start + size
    for _ in range(_MOST_BUNDLES):
        if at < end:
            at = skip_zeroes(read, at, end)
        if at >= end:
            return
        head = read(at, min(_DIRECTORY, end - at))
        directory, compression, length = head, Compression.NONE, 0
        if head.startswith(_COMPRESSED):
            directory, length = _decompressed(read, at, end, head)
            compression = Compression.ZSTD if _unpacked("<HH", head, 4)[1] == _ZSTD else Compression.NONE
        if not directory.startswith(_PLAIN):
            raise Damaged(f"no bundle at {at:#x}")
        entries, reach = _entries(directory, at, compression)
        yield Container(address=address + at - start, entries=entries)
        at += -(-(length or reach) // _ALIGNMENT) * _ALIGNMENT


def _entries(head: bytes, base: int, compression: Compression) -> tuple[tuple[Entry, ...], int]:
    """The code that the directory of a bundle lists, and the size of the bundle."""
    at, reach = len(_PLAIN) + 8, len(_PLAIN)
    (count,) = _unpacked("<Q", head, len(_PLAIN))
    entries = []
    if count > _MOST_CODES:
        raise Damaged(f"a bundle of {count} pieces of code at {base:#x}")
    for _ in range(count):
        offset, size, length = _unpacked("<QQQ", head, at)
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


def _decompressed(read: Read, start: int, end: int, head: bytes) -> tuple[bytes, int]:
    """The first bytes of what is inside a compressed bundle, and the size of the bundle."""
    version, method = _unpacked("<HH", head, 4)
    if version == 1:
        header, total = 4 + 4 + 4 + 8, end - start
    elif version == 2:
        header, total = 4 + 4 + 8 + 8, _unpacked("<I", head, 8)[0]
    else:
        header, total = 4 + 4 + 16 + 8, _unpacked("<Q", head, 8)[0]
    if not header < total <= end - start:
        raise Damaged(f"the bundle at {start:#x} is longer than its section")
    data = read(start + header, min(total - header, 1 << 18))
    if method == _ZLIB:
        try:
            return zlib.decompressobj().decompress(data, _DIRECTORY), total
        except zlib.error as error:
            raise Damaged(f"damaged zlib at {start:#x}: {error}") from error
    if method != _ZSTD:
        raise Damaged(f"the bundle at {start:#x} is compressed by an unknown method")
    return _first_of_zstd(data), total


def _first_of_zstd(data: bytes) -> bytes:
    try:
        from compression.zstd import ZstdDecompressor  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            from backports.zstd import ZstdDecompressor  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise NoZstd from error
    try:
        return bytes(ZstdDecompressor().decompress(data, _DIRECTORY))
    except Exception as error:
        raise Damaged(f"damaged zstd: {error}") from error


def _unpacked(form: str, data: bytes, at: int) -> tuple[int, ...]:
    if at + struct.calcsize(form) > len(data):
        raise Damaged("a bundle ends too early")
    return struct.unpack_from(form, data, at)
