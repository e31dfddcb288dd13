"""Whether code of an object runs while it is loaded, other than what the compiler adds to every object.

The emulator takes longer to import than most checks take, so what does nothing is told by its instructions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from abiscan.binary.machines import Machine

_INIT, _RELA, _RELASZ, _JMPREL, _PLTRELSZ, _INIT_ARRAY, _INIT_ARRAYSZ, _PREINIT_ARRAY = 12, 7, 8, 23, 2, 25, 27, 32
_IFUNCS: Final = (0x1A, 0x2A)  # st_info of a global and a weak STT_GNU_IFUNC
_TYPE: Final = 0xFFFF_FFFF  # of r_info
_RELA_SIZE: Final = 24
_MOST_PLAIN: Final = 8  # entries of DT_INIT_ARRAY that are looked at: no compiler adds more
_STUB: Final = rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(....)"  # endbr64, a jump through a slot
_BRANCH: Final = 1 << 25
_CALLED: Final = ("_ZNSt8ios_base4InitC1Ev", "__cxa_atexit")


class _Mapped(Protocol):
    """The part of ``ElfFile`` that is asked here."""

    machine: Machine
    dynamic: dict[int, int]

    def is_in_file(self, address: int, size: int) -> bool: ...

    def bytes_at(self, address: int, size: int) -> memoryview: ...

    def tail_at(self, address: int) -> memoryview: ...

    def table(self, address_tag: int, size_tag: int) -> memoryview: ...


def initialises(file: _Mapped, relocations: Sequence[int], symbols: bytes, read_name: Callable[[int], str]) -> bool:
    """Whether initialisers of an object do anything, or functions of it choose others as it is relocated (IFUNC).

    :param relocations: ``r_info`` of each kind of relocation
    :param symbols: the dynamic symbol table
    :param read_name: returns the text at a place of the string table
    """
    dynamic, traits = file.dynamic, file.machine.traits
    entries, init = dynamic.get(_INIT_ARRAYSZ, 0) // 8, dynamic.get(_INIT)
    if entries > _MOST_PLAIN or _PREINIT_ARRAY in dynamic or (entries and not init):
        return True
    if init and not _match(file, traits.crti, init):
        return True
    tables = b"".join(bytes(file.table(*tags)) for tags in ((_RELA, _RELASZ), (_JMPREL, _PLTRELSZ))) if entries else b""
    for number in range(entries):
        address = _relocated_word(file, tables, dynamic.get(_INIT_ARRAY, 0) + 8 * number)
        if _is_frame_dummy(file, address):
            continue
        match = _match(file, traits.ios_init, address) if traits.ios_init else None
        calls = [(address + match.end(group), match[group]) for group in range(1, 5) if match[group]] if match else []
        if tuple(_import_at(file, tables, symbols, read_name, end, distance) for end, distance in calls) != _CALLED:
            return True
    # A reference from anywhere to an exported IFUNC runs its resolver.
    infos = bytes(memoryview(symbols)[4::24])
    return any(info in infos for info in _IFUNCS) or any(info & _TYPE == traits.irelative for info in relocations)


def _is_frame_dummy(file: _Mapped, address: int) -> bool:
    traits = file.machine.traits
    match = _match(file, traits.frame_dummy, address)
    group = next((number for number in range(1, match.re.groups + 1) if match[number]), 0) if match else 0
    if not match or not group:
        return False
    distance = int.from_bytes(match[group], "little", signed=True)
    if traits.word:  # a branch has its distance in words in its lower 26 bits (Arm ARM, C6.2.26)
        target = address + match.start(group) + traits.word * ((distance + _BRANCH & 2 * _BRANCH - 1) - _BRANCH)
    else:
        target = address + match.end(group) + distance
    return _match(file, traits.tm_clones, target) is not None


def _match(file: _Mapped, pattern: bytes, address: int) -> re.Match[bytes] | None:
    """Match the code at an address."""
    return re.match(pattern, file.tail_at(address), re.DOTALL) if file.is_in_file(address, 1) else None


def _relocated_word(file: _Mapped, tables: bytes, place: int) -> int:
    """Return the word at a place once it is relocated, without the base."""
    relocation = tables.find(place.to_bytes(8, "little"))
    if relocation >= 0 and relocation % _RELA_SIZE == 0:
        return int.from_bytes(tables[relocation + 16 : relocation + 24], "little")
    return int.from_bytes(file.bytes_at(place, 8), "little") if file.is_in_file(place, 8) else 0


def _import_at(
    file: _Mapped, tables: bytes, symbols: bytes, read_name: Callable[[int], str], end: int, distance: bytes
) -> str | None:
    """Return the function that a call leads to through a stub, by its distance from the end of the call."""
    target = end + int.from_bytes(distance, "little", signed=True)
    stub = _match(file, _STUB, target)
    if stub is None:
        return None
    slot = target + stub.end() + int.from_bytes(stub[1], "little", signed=True)
    relocation = tables.find(slot.to_bytes(8, "little"))
    if relocation < 0 or relocation % _RELA_SIZE:
        return None
    (info,) = struct.unpack_from("<Q", tables, relocation + 8)
    return read_name(int.from_bytes(symbols[24 * (info >> 32) : 24 * (info >> 32) + 4], "little"))
