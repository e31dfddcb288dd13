"""What ``ld.so`` checks of one file before it maps it, and with what words it refuses one (glibc, elf/dl-load.c)."""

from __future__ import annotations

import struct
from typing import Final

EHDR: Final = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
PHDR: Final = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr: type, flags, offset, vaddr, paddr, filesz, memsz, align
MAGIC: Final = b"\x7fELF"
ET_EXEC, ET_DYN = 2, 3

_ELFCLASS64: Final = 2
_ELFDATA2LSB: Final = 1
_EV_CURRENT: Final = 1
_OSABI, _ABI_VERSION, _PADDING = 7, 8, 9
_ELFOSABI_SYSV, _ELFOSABI_GNU = 0, 3
# libc-abis: an entry for unique symbols, one for IFUNC (x86), one for absolute symbols.
_GNU_ABI_VERSIONS: Final = {62: 4, 183: 3}


def refuse_header(head: bytes) -> str | None:
    """Return the words with which ``ld.so`` refuses a file by its ELF header, whose search then ends; None for others.

    A file for another class or machine is passed over: that is no refusal.

    :param head: the first 64 bytes (fewer if the file is shorter)
    """
    if len(head) < EHDR.size:
        return "file too short"
    ident, kind, machine, version, *_, entry_size, _, _, _, _ = EHDR.unpack_from(head)
    if not ident.startswith(MAGIC):
        return "invalid ELF header"
    is_gnu = ident[_OSABI] == _ELFOSABI_GNU
    known_versions = _GNU_ABI_VERSIONS.get(machine, 1) if is_gnu else 1
    is_for_others = ident[4] != _ELFCLASS64, machine not in _GNU_ABI_VERSIONS
    checks = (
        (is_for_others[0], None),
        (ident[5] != _ELFDATA2LSB, "ELF file data encoding not little-endian"),
        (ident[6] != _EV_CURRENT, "ELF file version ident does not match current one"),
        (not is_gnu and ident[_OSABI] != _ELFOSABI_SYSV, "ELF file OS ABI invalid"),
        (ident[_ABI_VERSION] >= known_versions, "ELF file ABI version invalid"),
        (any(ident[_PADDING:]), "nonzero padding in e_ident"),
        (version != _EV_CURRENT, "ELF file version does not match current one"),
        (is_for_others[1], None),
        (kind not in (ET_DYN, ET_EXEC), "only ET_DYN and ET_EXEC can be loaded"),
        (entry_size != PHDR.size, "ELF file's phentsize not the expected size"),
    )
    return next((words for is_wrong, words in checks if is_wrong), None)
