"""``std::string`` in the memory of the emulated process, in both layouts of libstdc++.

``CXX11`` is ``std::__cxx11::basic_string``: pointer, length, then a buffer of 16 bytes for short texts or the capacity.
``COW`` is the old copy-on-write string, ``Ss`` in mangled names: one pointer to the text, before which lie length,
capacity and reference count (``_Rep``). libstdc++ manual, "Dual ABI"; bits/basic_string.h, bits/cow_string.h.
"""

from __future__ import annotations

import functools
import struct
from typing import Final, Protocol

from abiscan.emulation.emulator import Emulator, Stop
from abiscan.emulation.process import EmulatedProcess

_LOCAL_CAPACITY: Final = 15
_MAX_LENGTH: Final = 1 << 24
REP_SIZE: Final = 24
_WIDE: Final = 4
EMPTY_REP: Final = "_ZNSs4_Rep20_S_empty_rep_storageE"


class StringAbi(Protocol):
    """The memory layout of a ``std::string``.

    :ivar size: its ``sizeof``
    """

    size: int

    def read(self, process: EmulatedProcess, address: int) -> bytes:
        """Return the text of the string at ``address``; raises ``Stop`` if there is none."""

    def create(self, process: EmulatedProcess, address: int, text: bytes) -> None:
        """Create a string at ``address``, ignoring what was there before."""


class _Cxx11:
    size = 32

    def read(self, process: EmulatedProcess, address: int) -> bytes:
        pointer, length = process.machine.words(address, 2)
        if not pointer:
            raise Stop(f"no string at {address:#x}", process.machine.vm.pc)
        if length > _MAX_LENGTH:
            raise Stop(f"string of {length} bytes", process.machine.vm.pc)
        return process.machine.read(pointer, length) if length else b""

    def create(self, process: EmulatedProcess, address: int, text: bytes) -> None:
        machine = process.machine
        if len(text) <= _LOCAL_CAPACITY:
            machine.write(address, struct.pack("<QQ", address + 16, len(text)) + text + b"\0")
        else:
            pointer = process.store(text + b"\0")
            machine.write(address, struct.pack("<QQQ", pointer, len(text), len(text)))


class _Cow:
    size = 8

    def read(self, process: EmulatedProcess, address: int) -> bytes:
        pointer = process.machine.word(address)
        length = process.machine.word(pointer - REP_SIZE)
        if length > _MAX_LENGTH:
            raise Stop(f"string of {length} bytes", process.machine.vm.pc)
        return process.machine.read(pointer, length) if length else b""

    def create(self, process: EmulatedProcess, address: int, text: bytes) -> None:
        process.machine.set_word(address, self.new_text(process, text))

    def new_text(self, process: EmulatedProcess, text: bytes, capacity: int = 0) -> int:
        """Return the address of a fresh text with its ``_Rep`` before it."""
        if not text and not capacity:
            return process.bind(EMPTY_REP) + REP_SIZE
        capacity = max(capacity, len(text))
        rep = process.allocate(REP_SIZE + capacity + 1)
        head = b"".join(word.to_bytes(8, "little") for word in (len(text), capacity, 0))
        process.machine.write(rep, head + text)
        return rep + REP_SIZE


CXX11: Final = _Cxx11()
COW: Final = _Cow()


def decoded(content: bytes, width: int) -> str:
    """Return the text of units of a byte or of four, one character for each.

    :raises ValueError: one of them is no character
    """
    return content.decode("latin-1") if width == 1 else content.decode("utf-32-le", "surrogatepass")


def encoded(text: str, width: int) -> bytes:
    """Return the units of a text."""
    return text.encode("latin-1") if width == 1 else text.encode("utf-32-le", "surrogatepass")


def wide_text(machine: Emulator, address: int) -> str:
    """Return the ``wchar_t`` from ``address`` up to a zero.

    :raises Stop: nothing is there, or no zero for long
    """
    result = bytearray()
    while (unit := machine.read(address + len(result), _WIDE)) != bytes(_WIDE):
        result += unit
        if len(result) > _MAX_LENGTH:
            raise Stop(f"string of more than {_MAX_LENGTH} bytes", machine.vm.pc)
    return decoded(bytes(result), _WIDE)


_CXX11_MARK: Final = "__cxx11"
_COW_ENDINGS: Final = ("RKSs", "OSs", "ESs", "RSs", "KSs")


@functools.lru_cache(maxsize=1024)
def abi_in(name: str) -> StringAbi | None:
    """Return the string layout in a mangled name, None if it has none."""
    if _CXX11_MARK in name or "B5cxx11" in name:
        return CXX11
    if name.startswith(("_ZNSs", "_ZNKSs")) or any(mark in name for mark in _COW_ENDINGS):
        return COW
    return None


def abi_of(imports: frozenset[str]) -> StringAbi:
    """Return the string layout of an object that imports these names.

    The layout in torch's own functions decides, since their objects must match; then that in functions of the C++
    library; without any evidence, it is the default of all compilers since GCC 5.
    """
    for beginnings in (("_ZN5torch", "_ZN3c10", "_ZNR5torch", "_ZN2at"), ("_ZN",)):
        votes = [abi_in(name) for name in imports if name.startswith(beginnings)]
        cow, cxx11 = votes.count(COW), votes.count(CXX11)
        if cow or cxx11:
            return COW if cow > cxx11 else CXX11
    return CXX11
