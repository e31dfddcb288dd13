"""icicle's processors, which machines use one after the other.

To make one takes icicle longer than to run the initialisers of most extensions: it compiles the specification of the
architecture anew. To clear one takes microseconds.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from icicle import ExceptionCode, Icicle, MemoryException, MemoryProtection, RunStatus  # type: ignore[import-untyped]

from abiscan.emulation.processor import ACCESSES, EXECUTE, FORBIDDEN, WRITE, AccessError, Stopped, Vectors

_PAGE: Final = 0x1000
_BACKTRACES: Final = "RUST_LIB_BACKTRACE"
# icicle's enumerations compare but do not hash.
_STOPPED: Final = (
    (ExceptionCode.ExecViolation, Stopped.NOT_CODE),
    (ExceptionCode.ReadUnmapped, Stopped.READ_UNMAPPED),
    (ExceptionCode.WriteUnmapped, Stopped.WRITE_UNMAPPED),
    (ExceptionCode.InvalidInstruction, Stopped.UNKNOWN),
    (ExceptionCode.UnimplementedOp, Stopped.UNKNOWN),
    (ExceptionCode.UnknownCpuID, Stopped.UNKNOWN),
    (ExceptionCode.Syscall, Stopped.SYSTEM_CALL),
    (ExceptionCode.ReadPerm, Stopped.READ_FORBIDDEN),
    (ExceptionCode.WritePerm, Stopped.WRITE_FORBIDDEN),
    (ExceptionCode.SelfModifyingCode, Stopped.CODE_CHANGED),
    (ExceptionCode.OutOfMemory, Stopped.NO_MEMORY),
    (ExceptionCode.DivisionException, Stopped.DIVISION),
)
# Rust creates this exception, and panics if that fails, as it did for a KeyboardInterrupt in its constructor, which is
# Python code. The constructor of Exception is C code, where none can occur.
if "__init__" in vars(MemoryException):
    del MemoryException.__init__
    MemoryException.__str__ = lambda error: f"{error.args[0]} ({error.args[1]})"
    MemoryException.code = property(lambda error: error.args[1])

_PROTECTIONS: Final = {
    False: {False: MemoryProtection.ReadOnly, True: MemoryProtection.ReadWrite},
    True: {False: MemoryProtection.ExecuteRead, True: MemoryProtection.ExecuteReadWrite},
}


class IcicleProcessor:
    """A processor of icicle's, in its initial state, without memory.

    :param most_pages: how many pages can ever be mapped
    """

    misreads_vectors = True
    remembers_code = True

    def __init__(self, architecture: str, most_pages: int) -> None:
        self.architecture = architecture
        self._vm = vm = _take(architecture)
        self._most_pages = most_pages
        vm.mem_capacity = max(vm.mem_capacity, most_pages)
        self._protections: dict[int, MemoryProtection] = {}  # of pages that were mapped alone
        self.faults = 0
        self.address = 0
        self.other = ""
        self.vectors: Vectors = [bytes(64)] * 32  # of the first 16, the part above the 128 bits that icicle has
        self.masks = [0] * 8
        self._extensions: dict[int, None] = {}
        self.reg_read = vm.reg_read
        self.reg_write = vm.reg_write
        self.add_breakpoint = vm.add_breakpoint
        self.remove_breakpoint = vm.remove_breakpoint

    @property
    def pc(self) -> int:
        """The program counter."""
        return int(self._vm.pc)

    @pc.setter
    def pc(self, value: int) -> None:
        self._vm.pc = value

    @property
    def sp(self) -> int:
        """The stack pointer."""
        return int(self._vm.sp)

    @sp.setter
    def sp(self, value: int) -> None:
        self._vm.sp = value

    @property
    def icount(self) -> int:
        """How many instructions have been executed, those that needed a page twice."""
        return int(self._vm.icount)

    @icount.setter
    def icount(self, value: int) -> None:
        self._vm.icount = value

    @property
    def icount_limit(self) -> int:
        """How many may be."""
        return int(self._vm.icount_limit)

    @icount_limit.setter
    def icount_limit(self, value: int) -> None:
        self._vm.icount_limit = value

    def mem_map(self, address: int, size: int, permissions: int) -> None:
        """Map zeros in the place of whatever is there."""
        protection = _PROTECTIONS[bool(permissions & EXECUTE)][bool(permissions & WRITE)]
        self._vm.mem_map(address, size, protection)
        if size == _PAGE:
            self._protections[address] = protection

    def mem_unmap(self, address: int, size: int) -> None:
        """Unmap whatever is there."""
        self._vm.mem_unmap(address, size)

    def mem_read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at ``address``.

        :raises AccessError: they are not all mapped
        """
        try:
            return bytes(self._vm.mem_read(address, size))
        except MemoryException as error:
            raise AccessError(f"nothing is mapped at {address:#x}") from error

    def mem_text(self, address: int, most: int) -> bytes:
        """Return the bytes at ``address`` up to a zero byte, which is one of the first so many.

        :raises AccessError: there is none, or they are not all mapped
        """
        text, zero, _ = self.mem_read(address, most).partition(b"\0")
        if not zero:
            raise AccessError(f"no text at {address:#x}")
        return text

    def mem_words(self, address: int, count: int) -> tuple[int, ...]:
        """Return words of eight bytes at ``address``.

        :raises AccessError: they are not all mapped
        """
        return struct.unpack(f"<{count}Q", self.mem_read(address, 8 * count))

    def mem_write(self, address: int, content: bytes) -> None:
        """Store bytes, also where code cannot.

        :raises AccessError: not all of it is mapped, or code was executed there
        """
        try:
            self._vm.mem_write(address, content)
        except MemoryException as error:
            raise AccessError(f"nothing can be written at {address:#x}") from error

    def guard(self, address: int, size: int, guarded: bool) -> None:  # noqa: FBT001 - positional in C
        """Stop at accesses of code to some bytes (``FORBIDDEN``), or no longer.

        :raises AccessError: they are not all mapped; those that are, are guarded
        """
        failure = None
        for at in range(address, address + size):
            page = self._protections.get(at & -_PAGE, MemoryProtection.ReadWrite)
            try:
                self._vm.mem_protect(at, 1, MemoryProtection.NoAccess if guarded else page)
            except MemoryException as error:
                failure = error
        if failure is not None:
            raise AccessError(f"nothing is mapped at {address:#x}") from failure

    def run(self) -> int:
        """Run until something happens, and return what."""
        return self._stopped(self._vm.run())

    def step(self) -> int:
        """Execute one instruction, whether there is a breakpoint or not; return why it could not be done."""
        vm = self._vm
        pc, limit = vm.pc, vm.icount_limit
        status = vm.step(1)
        if status == RunStatus.Breakpoint and vm.pc == pc:
            vm.remove_breakpoint(pc)
            status = vm.step(1)
            vm.add_breakpoint(pc)
        vm.icount_limit = limit
        stopped = self._stopped(status)
        return Stopped.NOT if stopped in (Stopped.LIMIT, Stopped.BREAKPOINT) else stopped

    def _stopped(self, status: RunStatus) -> Stopped:
        vm = self._vm
        if status == RunStatus.UnhandledException:
            code = vm.exception_code
            self.address = int(vm.exception_value)
            stopped = next((stopped for reason, stopped in _STOPPED if reason == code), Stopped.OTHER)
            if stopped in ACCESSES or stopped in FORBIDDEN:
                self.faults += 1
            elif stopped == Stopped.OTHER:
                self.other = f"processor exception {str(code).rpartition('.')[2]}"
            return stopped
        if status == RunStatus.Breakpoint:
            return Stopped.BREAKPOINT
        if status == RunStatus.InstructionLimit:
            return Stopped.LIMIT
        self.other = f"the emulator stopped: {status}"
        return Stopped.OTHER

    def note_extension(self, address: int) -> None:
        """Remember the place of an instruction that not every processor has."""
        self._extensions[address] = None

    def extensions(self, first: int) -> list[int]:
        """Return the places that were noted, without the first so many."""
        return list(itertools.islice(self._extensions, first, None))

    def forget_code(self) -> None:
        """Forget memory, registers and code; the settings stay."""
        self._vm.reset()
        self._vm.mem_capacity = max(self._vm.mem_capacity, self._most_pages)

    def close(self) -> None:
        """Leave it to the next that needs one: it cannot be used any more. Breakpoints stay in it."""
        vm = self.__dict__.pop("_vm")
        vm.reset()
        _IDLE.processors[self.architecture].append(vm)


class _Idle(threading.local):
    """The free processors, by architecture. A processor can only be used in the thread that created it."""

    def __init__(self) -> None:
        self.processors: defaultdict[str, list[Icicle]] = defaultdict(list)


_IDLE: Final = _Idle()


def _take(architecture: str) -> Icicle:
    idle = _IDLE.processors[architecture]
    if idle:
        return idle.pop()
    # Most code runs once: translating it to host code, or optimising it, takes longer than interpreting it.
    with _without_backtraces():
        return Icicle(architecture, jit=False, jit_mem=False, optimize_instructions=False, recompilation=False)


@contextlib.contextmanager
def _without_backtraces() -> Iterator[None]:
    """Hide RUST_BACKTRACE: with it, icicle takes a backtrace for each construct that it cannot compile."""
    before = os.environ.get(_BACKTRACES)
    os.environ[_BACKTRACES] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_BACKTRACES]
        else:
            os.environ[_BACKTRACES] = before
