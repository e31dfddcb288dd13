"""The headers of sections, which ``ld.so`` does not look at: they say where a library has its code for GPUs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("<40xQ10xHHH")  # Elf64_Ehdr: shoff, shentsize, shnum, shstrndx
SECTION: Final = struct.Struct("<II8x8xQQ24x")  # Elf64_Shdr: name, type, offset, size
STRINGS: Final = 3  # SHT_STRTAB
_PROGRAM_BITS: Final = 1  # SHT_PROGBITS
_LONGEST_NAMES: Final = 1 << 16
_GPU_CODE: Final = (b".nv_fatbin", b".hip_fatbin")
CONTAINER: Final = b"\x50\xed\x55\xba"
"""The first bytes of a container of CUDA."""
_FAT_HEADER: Final = struct.Struct("<4x2xHQ")  # size of the header, size of what follows it
CONTAINER_HEADER: Final = _FAT_HEADER.size
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


def _read_table(data: memoryview) -> tuple[list[SectionHeader], bytes, list[range]]:
    """Return the section headers of a file, their names, and where both are.

    :raises struct.error: the table is damaged
    """
    table, entry_size, count, names_at = HEADER.unpack_from(data)
    sections = read_headers(data, table, count) if entry_size == SECTION.size else []
    first = sections[names_at].offset if names_at < len(sections) else len(data)
    places = [range(table, table + len(sections) * SECTION.size), range(first, first + _LONGEST_NAMES)]
    return sections, bytes(data[first : first + _LONGEST_NAMES]), places


class GpuPlaces(NamedTuple):
    """Code for GPUs in a file, as its contents confirm.

    :ivar place: where it is; empty if there is none, or the table of sections is damaged
    :ivar containers: where its containers are
    :ivar read: what else of the file says so
    """

    place: range = range(0)
    containers: Sequence[range] = ()
    read: Sequence[range] = ()


def find_gpu_code(data: memoryview) -> GpuPlaces:
    """Return where a file has code for GPUs."""
    try:
        sections, names, places = _read_table(data)
    except (struct.error, OverflowError):
        return GpuPlaces()
    for section in sections:
        if section.holds_gpu_code(names):
            stop = min(section.stop, len(data))
            containers, is_all = _containers(data, section.offset, stop)
            if containers:
                return GpuPlaces(range(section.offset, stop if is_all else containers[-1].stop), containers, places)
    return GpuPlaces()


def _containers(data: memoryview, start: int, stop: int) -> tuple[list[range], bool]:
    """Return the containers of code for GPUs that follow each other, and whether only padding is behind them.

    Not all that a header says need be one: what is behind them, such as texts of the host's code, is not hidden by a
    section of that name.
    """
    containers: list[range] = []
    at = start
    while len(containers) < _MOST_CONTAINERS:
        at = _skip_zeroes(data, at, stop)
        try:
            size = size_of_container(data, at) if at < stop else 0
        except (struct.error, OverflowError):  # an offset that no file has
            size = 0
        if not 0 < size <= stop - at:
            return containers, at >= stop
        containers.append(range(at, at + size))
        at += size
    return containers, False


def size_of_container(data: memoryview, at: int) -> int:
    """Return the size of the container at an offset; 0 if there is none."""
    begins = bytes(data[at : at + len(_BUNDLE)])
    if begins.startswith(CONTAINER):
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
