"""Inflate what is deflated and in memory as a whole with ISA-L, which takes half of the time of zlib."""

from __future__ import annotations

_RAW = -15
"""A stream without a header of its own, as in zip archives."""


def inflate_deflated(packed: bytes, size: int, checksum: int) -> bytes | None:
    """Return the contents of a stream; None if ISA-L is not installed, or they are not what was promised.

    :param size: of the contents, in bytes
    :param checksum: their CRC-32
    """
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    try:
        content: bytes = isal_zlib.decompressobj(_RAW).decompress(packed, size)
    except isal_zlib.IsalError:
        return None
    return content if len(content) == size and isal_zlib.crc32(content) == checksum else None
