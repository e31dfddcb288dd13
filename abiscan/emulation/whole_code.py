"""What all code of a file needs of the processor, whether or not anything calls it: for code that is not emulated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.binary.elf import ElfFile
from abiscan.cpu.instructions import features_of

_EXECUTABLE: Final = 1  # PF_X


def features_in(file: ElfFile) -> dict[str, int]:
    """Return the features that the instructions of a file use, each with the address of the first one that does."""
    by_name: dict[str, int] = {}
    for address, instruction in _instructions(file):
        for feature in features_of(file.machine, instruction):
            by_name.setdefault(feature, address)
    return by_name


def _instructions(file: ElfFile) -> Iterator[tuple[int, bytes]]:
    """Yield the instructions of all executable segments; bytes that are none are skipped."""
    for segment in file.segments:
        if not segment.flags & _EXECUTABLE:
            continue
        code = bytes(file.data[segment.offset : segment.offset + segment.file_size])
        if word := file.machine.traits.word:
            yield from ((segment.address + at, code[at : at + word]) for at in range(0, len(code), word))
            continue
        import capstone  # type: ignore[import-untyped]

        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        decoder.skipdata = True
        for address, size, _, _ in decoder.disasm_lite(code, segment.address):
            at = address - segment.address
            yield address, code[at : at + size]
