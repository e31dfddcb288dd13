"""Containers of code for NVIDIA's GPUs ("fat binaries") by their headers alone.

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


def read_containers(
    read: Read, start: int, size: int, address: int, *, relocatable: bool = False
) -> Iterator[Container]:
    """Yield the containers of a section, in order.

    :param start: the offset of the section in the file
    :param address: its address
    :raises Damaged: what follows is not a container
    """
    # Invariant: ``at`` is where the next container begins, or padding before it; ``left`` is how many containers and
    # pieces of code may still follow, so that a hostile file cannot keep this loop busy.
    at, end, left = start, start + size, _MOST
    while (at := skip_zeroes(read, at, end)) < end:
        head = read(at, _HEADER.size)
        if len(head) < _HEADER.size:
            raise Damaged(f"a container at {at:#x} ends with the file")
        magic, version, header, length = _HEADER.unpack(head)
        if magic != _MAGIC or version != 1 or header < _HEADER.size or at + header + length > end:
            raise Damaged(f"no container at {at:#x}")
        unknown: dict[int, None] = {}
        entries = tuple(_read_entries(read, at + header, at + header + length, left, unknown))
        left -= 1 + len(entries)
        if left < 0:
            raise Damaged(f"more than {_MOST} containers and pieces of code at {at:#x}")
        yield Container(address=address + at - start, entries=entries, relocatable=relocatable, unknown=tuple(unknown))
        at = _align_up(at + header + length)


def _read_entries(read: Read, at: int, end: int, most: int, unknown: dict[int, None]) -> Iterator[Entry]:
    """Yield the code in a container.

    :param unknown: gets the numbers of kinds that are not known
    """
    count = 0
    while at + _ENTRY.size <= end:
        head = read(at, _ENTRY.size)
        if len(head) < _ENTRY.size:
            raise Damaged(f"an entry at {at:#x} ends with the file")
        # kind, version, size of the header, size of the code, then more: where a group's records begin.
        number, _, header, size, _, more, _, _, _, _, _, flags, _, _ = _ENTRY.unpack(head)
        if not _ENTRY.size <= header <= _LARGEST_HEADER or at + header + size > end:
            raise Damaged(f"no entry at {at:#x}")
        count += 1
        if count > most:
            raise Damaged(f"more than {_MOST} containers and pieces of code at {at:#x}")
        if number in _KINDS:
            yield _make_entry(head, flags, at + header)
        elif number == _GROUP:
            yield from _read_group(read, at + more, header - more, flags, at + header)
        else:
            unknown[number] = None
        at += header + size


def _read_group(read: Read, at: int, room: int, flags: int, offset: int) -> Iterator[Entry]:
    """Yield the code in a group: for each piece a record like the header of an entry, after their number and size."""
    head = read(at, min(room, _LARGEST_HEADER)) if room > 0 else b""
    count, size = _GROUP_HEAD.unpack_from(head.ljust(_GROUP_HEAD.size, b"\0"))
    # Both numbers come from the file: the records must fit into what was read.
    if count * _ENTRY.size > len(head) - _GROUP_HEAD.size or size > room:
        raise Damaged(f"a group of {count} pieces of code at {at:#x}")
    for start in range(_GROUP_HEAD.size, _GROUP_HEAD.size + count * _ENTRY.size, _ENTRY.size):
        yield _make_entry(head[start : start + _ENTRY.size], flags, offset)


def _make_entry(head: bytes, flags: int, offset: int) -> Entry:
    """Build the entry that a header describes.

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
        compression=_compression_of(flags),
        size=size,
        offset=offset,
    )


def _compression_of(flags: int) -> Compression:
    """Return the compression that the flags of a header name."""
    if flags & _ZSTD:
        return Compression.ZSTD
    return Compression.LZ4 if flags & _LZ4 else Compression.NONE


def _align_up(at: int) -> int:
    """Round an offset up to where the next container may begin."""
    return -(-at // _ALIGNMENT) * _ALIGNMENT


def skip_zeroes(read: Read, at: int, end: int) -> int:
    """Return where the padding between containers ends."""
    size = _ALIGNMENT
    # A small window first: the padding between containers is short, that at the end of a section may be long.
    while at < end:
        window = read(at, min(size, end - at))
        if not window:
            return end
        content = window.lstrip(b"\0")
        if content:
            return (at + len(window) - len(content)) // _ALIGNMENT * _ALIGNMENT
        at, size = at + len(window), _WINDOW
    return end
