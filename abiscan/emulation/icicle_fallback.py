"""icicle, where the native processor ends: it executes what that one does not know, on the same registers and memory.

The memory is lent page by page, when icicle touches it; what it changed is taken back before the native processor goes
on. To hand over takes as long as thousands of instructions, so icicle does more of them at once where it is needed
again soon.
"""

from __future__ import annotations

import struct
from collections.abc import Set as AbstractSet
from typing import Final

from abiscan.emulation.arch import Arch
from abiscan.emulation.by_icicle import IcicleProcessor
from abiscan.emulation.processor import ACCESSES, EXECUTE, FORBIDDEN, READ, WRITE, Stopped
from abiscan.native._core import Core

_PAGE: Final = 0x1000
_LONGEST_ACCESS: Final = 63
_SOON: Final = 64  # instructions
_MOST_AT_ONCE: Final = 1 << 16
_MOST_HANDED_OVER: Final = 50_000  # instructions and pages: with each, icicle takes as long as with thousands at once
_TOO_MUCH: Final = f"limit of {_MOST_HANDED_OVER:,} instructions and pages that are handed to another processor"
# Beside the general registers of an architecture, the stack pointer among them, and its vectors.
_OTHER_REGISTERS: Final = {
    "x86_64": ("RSP", "CF", "PF", "AF", "ZF", "SF", "OF", "DF", "FS_OFFSET", "GS_OFFSET"),
    "aarch64": ("sp", "NG", "ZR", "CY", "OV", "tpidr_el0"),
}


class IcicleFallback:
    """icicle's processor for one native processor.

    :param most_pages: how many pages can ever be mapped
    :param breakpoints: those of the native processor
    """

    def __init__(self, native: Core, arch: Arch, most_pages: int, breakpoints: AbstractSet[int]) -> None:
        self._native = native
        self._arch = arch
        self._breakpoints = breakpoints
        self.other = ""
        self._icicle = IcicleProcessor(arch.name, most_pages)
        self._registers = (*arch.registers, *_OTHER_REGISTERS[arch.name])
        self._vectors = _WholeVectors(native, self._icicle) if arch.name == "aarch64" else None
        if self._vectors is None:
            self._registers += arch.vectors
        self._code: set[int] = set()  # pages that icicle has for good: nothing can change them
        self._lent: dict[int, bytes] = {}
        self._at_once = 1
        self._left_at = -_SOON
        self._left = _MOST_HANDED_OVER

    def close(self) -> None:
        """Give the processor back."""
        self._icicle.close()

    def run(self, *, several: bool) -> int:
        """Execute the next instruction, or ``several``, and return what stopped it."""
        native, icicle = self._native, self._icicle
        self._left -= 1
        if self._left < 0:
            self.other = _TOO_MUCH
            return Stopped.OTHER
        is_soon = native.icount - self._left_at <= _SOON
        self._at_once = min(2 * self._at_once, _MOST_AT_ONCE) if several and is_soon else 1
        if self._vectors is not None:
            self._vectors.give()
        for name in self._registers:
            icicle.reg_write(name, native.reg_read(name))
        icicle.pc = native.pc
        self._lend_for(native.pc)
        most = min(self._at_once, native.icount_limit - native.icount)
        stopped = self._execute(most)
        for name in self._registers:
            native.reg_write(name, icicle.reg_read(name))
        native.pc = icicle.pc
        if self._vectors is not None:
            self._vectors.take_back()
        self._take_back()
        self._left_at = native.icount
        return stopped

    def _execute(self, most: int) -> int:
        native, icicle = self._native, self._icicle
        done = 0
        while True:
            before = icicle.icount
            icicle.icount_limit = before + most - done
            stopped = icicle.run() if done else icicle.step()
            executed = icicle.icount - before
            if stopped in ACCESSES and self._lend_for(icicle.address):
                done += executed - 1  # the last one comes again
                native.icount += executed - 1
                continue
            native.icount += executed
            done += executed
            if stopped in ACCESSES or stopped in FORBIDDEN:
                native.faults += 1
            native.address, self.other = icicle.address, icicle.other
            if stopped == Stopped.NOT_CODE:
                if self._lend(icicle.pc & -_PAGE):
                    continue
                return Stopped.NOT if done else stopped  # what is there is for the native processor to say
            if stopped == Stopped.NOT and done < most:
                for address in self._breakpoints:
                    icicle.add_breakpoint(address)
                continue
            # icicle counts an instruction that it does not know if that has a meaning that nobody can express.
            has_got_on = icicle.pc != native.pc
            is_done = stopped in (Stopped.LIMIT, Stopped.BREAKPOINT) or (stopped == Stopped.UNKNOWN and has_got_on)
            return Stopped.NOT if is_done else stopped

    def _lend_for(self, address: int) -> bool:
        """Lend what an access at ``address`` needs; False if all of it that is mapped has been lent."""
        pages = (address & -_PAGE, (address + _LONGEST_ACCESS) & -_PAGE & (1 << 64) - 1)
        return sum(self._lend(page) for page in dict.fromkeys(pages)) > 0

    def _lend(self, page: int) -> bool:
        """Give icicle a page; False if it has it, or there is none."""
        native, icicle = self._native, self._icicle
        permissions = native.permissions(page)
        if not permissions or page in self._lent or page in self._code:
            return False
        content = native.mem_read(page, _PAGE)
        icicle.mem_map(page, _PAGE, permissions)
        icicle.mem_write(page, content)
        self._left -= 1
        if permissions & EXECUTE:
            # The native processor goes on there.
            for offset in (*self._arch.suspects(content), *self._arch.extensions(content)):
                icicle.add_breakpoint(page + offset)
        if permissions & EXECUTE and not permissions & WRITE:
            self._code.add(page)
        else:
            self._lent[page] = content
        return True

    def _take_back(self) -> None:
        for page, content in self._lent.items():
            now = self._icicle.mem_read(page, _PAGE)
            if now != content:
                self._native.mem_write(page, now)
            self._icicle.mem_unmap(page, _PAGE)
        self._lent.clear()


class _WholeVectors:
    """The vectors of AArch64: icicle tells Python only the lower halves, so its code moves them to memory and back.

    All of that is where no program has memory, and the data are mapped only meanwhile.
    """

    _CODE: Final = 0xFFFF_F000_0000_0000
    _DATA: Final = _CODE + _PAGE
    _COUNT: Final = 32
    _BYTES: Final = 16
    _LOAD, _STORE = 0xAD40_0000, 0xAD00_0000  # ldp and stp q0, q0, [x0]

    def __init__(self, native: Core, icicle: IcicleProcessor) -> None:
        self._native, self._icicle = native, icicle
        icicle.mem_map(self._CODE, _PAGE, READ | EXECUTE)
        pairs = [number << 15 | number + 1 << 10 | number for number in range(0, self._COUNT, 2)]
        code = [instruction | pair for instruction in (self._LOAD, self._STORE) for pair in pairs]
        icicle.mem_write(self._CODE, struct.pack(f"<{len(code)}I", *code))

    def give(self) -> None:
        """Set the vectors of icicle; a general register is lost."""
        self._move(self._CODE, b"".join(self._native.vector(number)[: self._BYTES] for number in range(self._COUNT)))

    def take_back(self) -> None:
        """Set those of the native processor; a general register of icicle is lost."""
        vectors = self._move(self._CODE + 2 * self._COUNT, bytes(self._BYTES * self._COUNT))
        for number in range(self._COUNT):
            value = vectors[self._BYTES * number : self._BYTES * (number + 1)]
            self._native.set_vector(number, value.ljust(64, b"\0"))

    def _move(self, code: int, content: bytes) -> bytes:
        icicle = self._icicle
        icicle.mem_map(self._DATA, _PAGE, READ | WRITE)
        icicle.mem_write(self._DATA, content)
        icicle.reg_write("x0", self._DATA)
        icicle.pc = code
        for _ in range(self._COUNT // 2):
            icicle.step()
        moved = icicle.mem_read(self._DATA, len(content))
        icicle.mem_unmap(self._DATA, _PAGE)
        return moved
