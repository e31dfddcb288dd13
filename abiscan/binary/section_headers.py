"""The headers of sections, which ``ld.so`` does not look at: they say where a library has its code for GPUs."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("<40xQ10xHHH")  # Elf64_Ehdr: shoff, shentsize, shnum, shstrndx
SECTION: Final = struct.Struct("<II8x8xQQ24x")  # Elf64_Shdr: name, type, offset, size
STRINGS: Final = 3  # SHT_STRTAB
_PROGRAM_BITS: Final = 1  # SHT_PROGBITS
_LONGEST_NAMES: Final = 1 << 16
_GPU_CODE: Final = {b".nv_fatbin": b"\x50\xed\x55\xba", b".hip_fatbin": b"__CLANG_OFFLOAD_BUNDLE__"}
"""The sections for it, and how their contents begin."""


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
        begins = data[section.offset : section.offset + 32]
        if section.holds_gpu_code(names) and bytes(begins).startswith(tuple(_GPU_CODE.values())):
            return range(section.offset, min(section.stop, len(data)))
    return range(0)
