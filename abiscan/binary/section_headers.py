"""The headers of sections, which ``ld.so`` does not look at: they say where a library has its code for GPUs."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("<40xQ10xHHH")  # Elf64_Ehdr: shoff, shentsize, shnum, shstrndx
SECTION: Final = struct.Struct("<II8x8xQQ24x")  # Elf64_Shdr: name, type, offset, size
STRINGS: Final = 3  # SHT_STRTAB
_PROGRAM_BITS: Final = 1  # SHT_PROGBITS
_LONGEST_NAMES: Final = 1 << 16
_GPU_CODE: Final = (b".nv_fatbin", b".hip_fatbin")
_FAT_BINARY: Final = b"\x50\xed\x55\xba"
_FAT_HEADER: Final = struct.Struct("<4x2xHQ")  # size of the header, size of what follows it
_BUNDLE: Final = b"__CLANG_OFFLOAD_BUNDLE__"
_BUNDLE_COUNT: Final = struct.Struct("<24xQ")
_BUNDLE_ENTRY: Final = struct.Struct("<QQQ")  # offset and size of the code, length of the name behind it
_MOST_CONTAINERS: Final = 1 << 16
_MOST_ENTRIES: Final = 1 << 10
_WINDOW: Final = 1 << 12


class SectionHeader(NamedTuple):
    """An entry of the section header table: Elf64_Shdr.

    :ivar name: where its name begins in the section of names
    """

    name: int
    kind: int
    offset: int
    size: int

    @property
    def stop(self) -> int:
        """Where it ends in the file."""
        return self.offset + self.size

    def holds_gpu_code(self, names: bytes) -> bool:
        """Whether it has the name of a section for that.

        :param names: of the sections
        """
        return self.kind == _PROGRAM_BITS and any(names.startswith(item + b"\0", self.name) for item in _GPU_CODE)


def read_headers(content: bytes | memoryview, start: int, count: int) -> list[SectionHeader]:
    """Return the section headers that are at an offset of some content."""
    return [SectionHeader(*SECTION.unpack_from(content, start + number * SECTION.size)) for number in range(count)]


def find_gpu_code(data: memoryview) -> range:
    """Return where a file has code for GPUs, as its contents confirm; empty if it has none, or the table is damaged."""
    try:
        table, entry_size, count, names_at = HEADER.unpack_from(data)
        sections = read_headers(data, table, count) if entry_size == SECTION.size else []
        first = sections[names_at].offset if names_at < len(sections) else len(data)
        names = bytes(data[first : first + _LONGEST_NAMES])
    except (struct.error, OverflowError):
        return range(0)
    for section in sections:
        if section.holds_gpu_code(names):
            end = _end_of_containers(data, section.offset, min(section.stop, len(data)))
            if end > section.offset:
                return range(section.offset, end)
    return range(0)


def _end_of_containers(data: memoryview, start: int, stop: int) -> int:
    """Return where the containers of code for GPUs end that follow each other: not all that a header says need be one.

    What is behind them, such as texts of the host's code, is not hidden by a section of that name.
    """
    at = end = start
    for _ in range(_MOST_CONTAINERS):
        at = _skip_zeroes(data, at, stop)
        try:
            size = _size_of_container(data, at) if at < stop else 0
        except (struct.error, OverflowError):  # an offset that no file has
            size = 0
        if not 0 < size <= stop - at:
            # Nothing but padding may be left.
            return stop if at >= stop and end > start else end
        at = end = at + size
    return end


def _size_of_container(data: memoryview, at: int) -> int:
    """Return the size of the container at an offset; 0 if there is none."""
    begins = bytes(data[at : at + len(_BUNDLE)])
    if begins.startswith(_FAT_BINARY):
        return sum(_FAT_HEADER.unpack_from(data, at))
    if begins != _BUNDLE:
        return 0
    (count,) = _BUNDLE_COUNT.unpack_from(data, at)
    reach, entry = 0, at + _BUNDLE_COUNT.size
    for _ in range(min(count, _MOST_ENTRIES)):
        offset, size, length = _BUNDLE_ENTRY.unpack_from(data, entry)
        reach, entry = max(reach, offset + size), entry + _BUNDLE_ENTRY.size + length
    return reach


def _skip_zeroes(data: memoryview, at: int, stop: int) -> int:
    """Return where the padding before a container ends."""
    while at < stop:
        window = bytes(data[at : min(at + _WINDOW, stop)])
        left = len(window.lstrip(b"\0"))
        at += len(window) - left
        if left:
            break
    return at
