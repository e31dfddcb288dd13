"""Containers of code for NVIDIA's GPUs ("fat binaries"), read by their headers alone.

A container is a header of 16 bytes and entries one behind the other; an entry is a header of at least 64 bytes that
names the architecture, and the code, which is not read. NVIDIA documents none of this: the layout is that of
``fatbinary``, as its output and ``cuobjdump`` show it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

from abiscan.gpu.model import CodeKind, Compression, Container, Entry

Read = Callable[[int, int], bytes]
"""Reads at most so many bytes at an offset of the file."""

_MAGIC: Final = 0xBA55ED50
_HEADER: Final = struct.Struct("<IHHQ")
_ENTRY: Final = struct.Struct("<HHIQIIHHIIIQQQ")
_ALIGNMENT: Final = 8
_WINDOW: Final = 1 << 16
_MOST: Final = 1 << 16  # containers and pieces of code; libraries of torch have 5,000
_LARGEST_HEADER: Final = 1 << 20
_KINDS: Final = {1: CodeKind.PTX, 2: CodeKind.CUBIN, 8: CodeKind.LTO}
_GROUP: Final = 0x100  # several pieces of code compressed together, from CUDA 13.5 on: nvcc --concat
_GROUP_HEAD: Final = struct.Struct("<II")
_LZ4, _ZSTD, _EXACT, _FAMILY = 0x2000, 0x8000, 0x100000, 0x200000


class Damaged(Exception):  # noqa: N818 - it says what was found, and where
    """A container that cannot be right."""


def containers(read: Read, start: int, size: int, address: int, *, relocatable: bool = False) -> Iterator[Container]:
    """The containers of a section, in order.

    :param start: the offset of the section in the file
    :param address: its address
    :raises Damaged: what follows is no container
    """
    at, end, left = start, start + size, _MOST
    while (at := skip_zeroes(read, at, end)) < end:
        head = read(at, _HEADER.size)
        if len(head) < _HEADER.size:
            raise Damaged(f"a container at {at:#x} ends with the file")
        magic, version, header, length = _HEADER.unpack(head)
        if magic != _MAGIC or version != 1 or header < _HEADER.size or at + header + length > end:
            raise Damaged(f"no container at {at:#x}")
        unknown: dict[int, None] = {}
        entries = tuple(_entries(read, at + header, at + header + length, left, unknown))
        left -= 1 + len(entries)
        if left < 0:
            raise Damaged(f"more than {_MOST} containers and pieces of code at {at:#x}")
        yield Container(address=address + at - start, entries=entries, relocatable=relocatable, unknown=tuple(unknown))
        at = _aligned(at + header + length)


def _entries(read: Read, at: int, end: int, most: int, unknown: dict[int, None]) -> Iterator[Entry]:
    """The code in a container.

    :param unknown: gets the numbers of kinds that are not known
    """
    count = 0
    while at + _ENTRY.size <= end:
        head = read(at, _ENTRY.size)
        if len(head) < _ENTRY.size:
            raise Damaged(f"an entry at {at:#x} ends with the file")
        number, _, header, size, _, more, _, _, _, _, _, flags, _, _ = _ENTRY.unpack(head)
        if not _ENTRY.size <= header <= _LARGEST_HEADER or at + header + size > end:
            raise Damaged(f"no entry at {at:#x}")
        count += 1
        if count > most:
            raise Damaged(f"more than {_MOST} containers and pieces of code at {at:#x}")
        if number in _KINDS:
            yield _entry(head, flags, at + header)
        elif number == _GROUP:
            yield from _group(read, at + more, header - more, flags, at + header)
        else:
            unknown[number] = None
        at += header + size


def _group(read: Read, at: int, room: int, flags: int, offset: int) -> Iterator[Entry]:
    """The code in a group: for each piece a record like the header of an entry, behind their number and size."""
    head = read(at, min(room, _LARGEST_HEADER)) if room > 0 else b""
    count, size = _GROUP_HEAD.unpack_from(head) if len(head) >= _GROUP_HEAD.size else (0, 0)
    if count * _ENTRY.size > len(head) - _GROUP_HEAD.size or size > room:
        raise Damaged(f"a group of {count} pieces of code at {at:#x}")
    for start in range(_GROUP_HEAD.size, _GROUP_HEAD.size + count * _ENTRY.size, _ENTRY.size):
        yield _entry(head[start : start + _ENTRY.size], flags, offset)


def _entry(head: bytes, flags: int, offset: int) -> Entry:
    """The code that a header describes.

    :param flags: those that say how it is compressed
    """
    number, _, _, size, _, _, minor, major, architecture, _, _, own_flags, _, _ = _ENTRY.unpack(head)
    if number not in _KINDS:
        raise Damaged(f"a group with code of kind {number:#x}, compressed at {offset:#x}")
    kind = _KINDS[number]
    return Entry(
        kind=kind,
        architecture=architecture,
        variant="a" if own_flags & _EXACT else "f" if own_flags & _FAMILY else "",
        ptx_isa=(major, minor) if kind is CodeKind.PTX else None,
        compression=_compression(flags),
        size=size,
        offset=offset,
    )


def _compression(flags: int) -> Compression:
    if flags & _ZSTD:
        return Compression.ZSTD
    return Compression.LZ4 if flags & _LZ4 else Compression.NONE


def _aligned(at: int) -> int:
    return -(-at // _ALIGNMENT) * _ALIGNMENT


def skip_zeroes(read: Read, at: int, end: int) -> int:
    """Where the padding between containers ends."""
    size = _ALIGNMENT
    while at < end:
        window = read(at, min(size, end - at))
        if not window:
            return end
        rest = window.lstrip(b"\0")
        if rest:
            return (at + len(window) - len(rest)) // _ALIGNMENT * _ALIGNMENT
        at, size = at + len(window), _WINDOW
    return end
