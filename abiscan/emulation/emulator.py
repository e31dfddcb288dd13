"""An emulated processor with its memory: runs functions, and hands every call out of the object to Python.

Nothing of the emulated code runs on the host's processor, and it has no way out: a system call, like anything else that
the machine does not know, ends the function that was started with ``Stop``.

Memory beyond the object is laid out at fixed addresses far apart, so that a stray pointer hits nothing::

    heap, stack    readable and writable, cleared
    imports        one slot per imported symbol: data to whoever reads it, a call out to whoever jumps there
    code           the few imported functions that are called so often that they are worth code of their own
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from abiscan.emulation import processors
from abiscan.emulation.arch import Arch
from abiscan.emulation.processor import ACCESSES, EXECUTE, FORBIDDEN, READ, WRITE, AccessError, Stopped, is_mapped
from abiscan.emulation.taint import AnswerDecision, Taint

PAGE_SIZE: Final = 0x1000
_PAGE_MASK: Final = ~(PAGE_SIZE - 1)

STACK_TOP: Final = 0x7E_0000_0000
_STACK_SIZE: Final = 0x80_0000
_STACK_ABOVE: Final = 0x4000  # of the frame of the caller
_RED_ZONE: Final = 0x100  # what a function may use below the stack pointer, and more
# Of what Unknown says. No pointer to an area begins with a byte of a text.
_AREA: Final = 0x200
_AREA_START: Final = 0x80
_FRAME_WORDS: Final = 96
UNKNOWN_SIZE: Final = 0x10000
HEAP_BASE: Final = 0x60_0000_0000
HEAP_SIZE: Final = 0x4000_0000
HEAP: Final = range(HEAP_BASE, HEAP_BASE + HEAP_SIZE)
IMPORT_BASE: Final = 0x70_0000_0000
IMPORT_SLOT: Final = 0x400
_IMPORT_SIZE: Final = 1 << 28
CODE_BASE: Final = 0x74_0000_0000
CANARY: Final = 0x5AFE_C0DE_0DD5_EE00  # what the stack protector compares; any value will do
_HELPERS: Final = CODE_BASE - PAGE_SIZE
_REGIONS: Final = {STACK_TOP - _STACK_SIZE: _STACK_SIZE, HEAP_BASE: HEAP_SIZE, IMPORT_BASE: _IMPORT_SIZE}
_BLANK_PAGE: Final = bytes(PAGE_SIZE)
RETURN: Final = IMPORT_BASE  # the first slot: where a function returns to that Python called

# All pages that can ever be mapped, in pages of 4 KiB: memory that a runaway initialiser fills ends as a gap.
_CAPACITY: Final = 150_000
_CODE_WINDOW: Final = 16  # no instruction of x86-64 is longer than 15 bytes
_SUSPECT_HEAD: Final = 4  # how many bytes of an instruction tell whether the emulator does it wrongly
_VECTORS: Final = 32  # registers
_SLICE: Final = 2_000_000  # of instructions, a tenth of a second: Python sees a signal only between two of them
_MOST_STEPPED_OVER: Final = 50_000  # instructions: in Python, each takes as long as thousands of others
_MOST_AT_ONCE: Final = 1024  # bytes of a text
_MAX_DEPTH: Final = 60  # of calls from a double back into the emulated code

OUT_OF_INSTRUCTIONS: Final = "instruction budget exhausted"
SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSEGV = 4, 5, 6, 8, 11  # on Linux, whatever this machine runs
_USER_END: Final = 1 << 47  # above it lie no addresses of programs
_NULL_END: Final = 0x1_0000  # below it, Linux maps nothing (vm.mmap_min_addr)
_SIGNALS: Final[dict[int, int]] = {Stopped.WRITE_FORBIDDEN: SIGSEGV, Stopped.DIVISION: SIGFPE}
_REASONS: Final[dict[int, str]] = {
    Stopped.LIMIT: OUT_OF_INSTRUCTIONS,
    Stopped.SYSTEM_CALL: "a system call",
    Stopped.READ_FORBIDDEN: "read of protected memory at {:#x}",
    Stopped.WRITE_FORBIDDEN: "write to read-only memory at {:#x}",
    Stopped.CODE_CHANGED: "self-modifying code",
    Stopped.NO_MEMORY: "memory budget exhausted",
    Stopped.DIVISION: "division by zero",
}


class Stop(Exception):  # noqa: N818 - not an error: the way in which an emulated function ends early
    """The function that was started cannot go on. ``address`` is where, in the emulated address space.

    ``called`` is the imported function that was called there, if it is to blame; None where the code itself is.
    ``signal`` is the one that a real process gets there, None if unknown.
    """

    def __init__(self, reason: str, address: int, called: str | None = None, *, signal: int | None = None) -> None:
        super().__init__(reason)
        self.signal = signal
        self.reason = reason
        self.address = address
        self.called = called


class ProcessTermination(Stop):
    """The code ends the process. ``text`` is what is printed."""

    def __init__(self, reason: str, address: int, text: str, *, signal: int | None = None) -> None:
        super().__init__(reason, address, signal=signal)
        self.text = text


class Boundary(NamedTuple):
    """Where code goes on that called a double which calls back: address, and stack pointer there."""

    pc: int
    stack: int


class Unknown(NamedTuple):
    """The contents of registers and memory where nothing is known of them.

    Every general register, and every word of the frame that lies above the stack pointer, points into an area of its
    own, which is full of pointers to itself: code finds something at the other end of whatever it follows, but neither
    a text nor the size of one. The rest is all ones; zeros would be an empty text.

    :ivar registers: the value of each general register, by name
    :ivar memory: the areas, by address
    """

    registers: dict[str, int]
    memory: dict[int, bytes]


class Emulator:
    """One processor, one address space.

    :param pager: asked to map the page at an address that was touched; False when there is nothing to map
    :param call_out: called when the code jumps into the import slots, with the slot's address; it does what the
        imported function would do, its return included
    :param decided: called when the answer of an unknown function decides something
    """

    def __init__(
        self,
        arch: Arch,
        pager: Callable[[int], bool],
        call_out: Callable[[int], None],
        decided: Callable[[AnswerDecision], None] = lambda _: None,
    ) -> None:
        self.arch = arch
        self.vm = processors.take(arch.name, _CAPACITY)
        self._pager = pager
        self._call_out = call_out
        self._boundaries: list[Boundary | None] = []  # of the calls from doubles that run, None where nothing passes
        self._last_fault: tuple[int, int] | None = None
        self._last_instruction = 0
        self._left_to_step_over = _MOST_STEPPED_OVER
        self._map_regions()
        self._pages: dict[int, int] = {}
        self.code_pages = 0  # mapped since icicle last forgot what it made of them
        self.reached: set[int] = set()
        self._diverted: dict[int, int] = {}
        self._observed: dict[int, Callable[[], None]] = {}
        self._watched: set[int] = set()
        self.vectors, self.masks = self.vm.vectors, self.vm.masks
        self.answer = 0  # of whatever is not known here
        self._last_guard: tuple[int, int] | None = None
        self._returns: set[int] = set()  # where functions return to that run between instructions that are followed
        self.taint = Taint(self, arch, decided)
        self.floats: Any = None
        self.helpers = _HELPERS
        if arch.helpers:
            self.map_page(_HELPERS, arch.helpers, writable=False, executable=True)

    def close(self) -> None:
        """Leave the processor to the next machine: this one cannot be used any more."""
        self.vm.close()
        del self.vm

    # Memory

    def _map_regions(self) -> None:
        for base, size in _REGIONS.items():
            self.vm.mem_map(base, size, READ | WRITE)

    def map_page(self, address: int, content: bytes, *, writable: bool, executable: bool) -> None:
        """Map one page (``PAGE_SIZE`` bytes at a multiple of it) with this content."""
        permissions = READ | (WRITE if writable else 0) | (EXECUTE if executable else 0)
        self.vm.mem_map(address, PAGE_SIZE, permissions)
        self.vm.mem_write(address, content)
        self._pages[address] = permissions
        self.code_pages += executable
        # Breakpoints, and not a decoder: a byte that only looks like such an instruction costs one stop and is then let
        # go.
        if executable and self.vm.misreads_vectors:
            # An instruction may begin in one page and go on in the next, whichever of the two is mapped first. Those of
            # AArch64 begin at multiples of the size of these edges.
            before, after = self._edge(address - _SUSPECT_HEAD), self._edge(address + PAGE_SIZE)
            code = before + content + after
            for offset in (*self.arch.suspects(code), *self.arch.extensions(code)):
                self.vm.add_breakpoint(address - len(before) + offset)

    def _edge(self, address: int) -> bytes:
        """Return the bytes at the edge of a page that may begin or end an instruction; none if it is not mapped."""
        if not is_mapped(self.vm, address):
            return b""
        return self.vm.mem_read(address, _SUSPECT_HEAD)

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at ``address``.

        :raises Stop: nothing is there
        """
        if not 0 <= size <= HEAP_SIZE:
            raise Stop(f"read of {size} bytes at {address:#x}", self.vm.pc)
        # A double reads as an instruction does: the value may come from an unknown answer, which ``taint.read``
        # records.
        if self.taint.memory:
            self.taint.read |= self.taint.label_of(address, size)
        try:
            return self.vm.mem_read(address, size)
        # The access may straddle pages of which only some are there: map all of them, then try once more.
        except (AccessError, OverflowError):
            self._page_in(address, size)
        try:
            return self.vm.mem_read(address, size)
        except AccessError as error:
            raise Stop(f"read of {size} bytes at {address:#x}", self.vm.pc) from error

    def write(self, address: int, content: bytes) -> None:
        """Store ``content`` at ``address``.

        :raises Stop: nothing is there
        """
        if self.taint.memory or self.taint.read:
            self.taint.mark(address, len(content), self.taint.read)
        try:
            self.vm.mem_write(address, content)
        except (AccessError, OverflowError):
            self._page_in(address, len(content))
        else:
            return
        try:
            self.vm.mem_write(address, content)
        except AccessError as error:
            raise Stop(f"write of {len(content)} bytes at {address:#x}", self.vm.pc) from error

    def _page_in(self, address: int, size: int) -> None:
        for page in range(address & _PAGE_MASK, address + max(size, 1), PAGE_SIZE):
            if not is_mapped(self.vm, page) and not self._pager(page):
                raise Stop(f"access to unmapped memory at {max(address, page):#x}", self.vm.pc)

    def clear(self, address: int, size: int) -> None:
        """Clear a part of the heap. Both numbers are multiples of ``PAGE_SIZE``."""
        self.vm.mem_unmap(address, size)
        self.vm.mem_map(address, size, READ | WRITE)

    def forget_code(self, heap_top: int, imports_top: int) -> None:
        """Let icicle forget what it made of code that ran, which takes more memory than all else; only between
        functions.

        It forgets everything at once, so memory and registers are put back as they were.
        """
        vm = self.vm
        self.code_pages = 0
        if not vm.remembers_code:
            return
        # Breakpoints stay in icicle: only memory, registers and the count of instructions are lost.
        names = (*self.arch.registers, *self.arch.vectors, self.arch.thread_pointer)
        registers, executed = {name: vm.reg_read(name) for name in names}, vm.icount
        pages = {address: vm.mem_read(address, PAGE_SIZE) for address in self._pages}
        for base, top in ((HEAP_BASE, heap_top), (IMPORT_BASE, imports_top), (STACK_TOP - _STACK_SIZE, STACK_TOP)):
            for address in range(base, top, PAGE_SIZE):
                content = vm.mem_read(address, PAGE_SIZE)
                # The regions are gigabytes of zeros, and mapped again as such; only pages that were written have to be
                # restored.
                if content != _BLANK_PAGE:
                    pages[address] = content
        vm.forget_code()
        self._map_regions()
        for address, protection in self._pages.items():
            vm.mem_map(address, PAGE_SIZE, protection)
        for address, content in pages.items():
            vm.mem_write(address, content)
        for name, value in registers.items():
            vm.reg_write(name, value)
        vm.icount = executed

    def byte(self, address: int) -> int:
        """Return the byte at ``address``."""
        (value,) = self.read(address, 1)
        return value

    def word(self, address: int) -> int:
        """Return the eight bytes at ``address`` as an unsigned number."""
        (value,) = self.words(address, 1)
        return value

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return ``count`` words of eight bytes at ``address``."""
        # Most of them are there, and come from no unknown answer.
        taint = self.taint
        if 0 <= count <= HEAP_SIZE // 8 and (not taint.memory or taint.is_clear(address, 8 * count)):
            try:
                return self.vm.mem_words(address, count)
            except (AccessError, OverflowError):
                pass
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count))

    def set_word(self, address: int, value: int) -> None:
        """Store eight bytes at ``address``."""
        self.write(address, (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little"))

    def text(self, address: int, limit: int = 1 << 20) -> bytes:
        """Return the bytes from ``address`` up to a zero byte.

        :raises Stop: nothing is there, or no zero byte within ``limit``
        """
        # As for words.
        if not self.taint.memory or self.taint.is_clear(address, _MOST_AT_ONCE):
            try:
                return self.vm.mem_text(address, min(limit, _MOST_AT_ONCE))
            except (AccessError, OverflowError):
                pass
        result = bytearray()
        while len(result) < limit:
            chunk = self.read(address, min(256, PAGE_SIZE - address % PAGE_SIZE))
            end = chunk.find(0)
            if end >= 0:
                return bytes(result + chunk[:end])
            result += chunk
            address += len(chunk)
        raise Stop(f"string of more than {limit} bytes", self.vm.pc)

    def is_stack(self, address: int) -> bool:
        """Whether ``address`` lies in the stack."""
        return STACK_TOP - _STACK_SIZE <= address < STACK_TOP

    def is_heap(self, address: int) -> bool:
        """Whether ``address`` lies in the heap."""
        return address in HEAP

    # Execution

    @property
    def executed(self) -> int:
        """How many instructions have been executed; icicle counts one twice whose access needed a page."""
        return self.vm.icount - self.vm.faults

    def watch(self, address: int) -> None:
        """Add ``address`` to ``reached`` once the code there is executed."""
        self._watched.add(address)
        self.vm.add_breakpoint(address)

    def divert(self, address: int, slot: int) -> None:
        """Treat a call of the function at ``address`` as one of the import slot ``slot``."""
        self._diverted[address] = slot
        self.vm.add_breakpoint(address)

    def observe(self, address: int, observer: Callable[[], None]) -> None:
        """Call ``observer`` whenever the function at ``address`` is entered, which then runs as it is."""
        self._observed[address] = observer
        self.vm.add_breakpoint(address)

    def start(self, address: int, arguments: tuple[int, ...], instructions: int) -> int:
        """Run the function at ``address`` from a fresh stack, and return its result.

        :param instructions: how many instructions it may execute
        :raises Stop: it cannot be run to its end
        """
        self._boundaries.clear()
        self.taint.start(range(STACK_TOP - _STACK_SIZE, STACK_TOP))
        self.vm.sp = STACK_TOP - _STACK_ABOVE
        self._last_instruction = self.vm.icount + instructions
        # The budget is cut into slices, so that Python gets a turn: a signal is only seen between two of them.
        self.vm.icount_limit = min(self.vm.icount + _SLICE, self._last_instruction)
        return self.call(address, *arguments)

    def unknown(self, areas: int) -> Unknown:
        """Return what ``forget`` leaves behind.

        :param areas: memory, ``UNKNOWN_SIZE`` bytes at a multiple of ``PAGE_SIZE``
        """
        registers = len(self.arch.registers)
        pointers = [areas + number * _AREA + _AREA_START for number in range(registers + _FRAME_WORDS)]
        frame = struct.pack(f"<{_FRAME_WORDS}Q", *pointers[registers:])
        bottom, top = STACK_TOP - 2 * _STACK_ABOVE, STACK_TOP - _STACK_ABOVE - _RED_ZONE
        return Unknown(
            registers={
                **dict(zip(self.arch.registers, pointers, strict=False)),
                **dict.fromkeys(self.arch.vectors, 0xFFFF_FFFF_FFFF_FFFF),
            },
            memory={
                areas: b"".join(pointer.to_bytes(8, "little") * (_AREA // 8) for pointer in pointers),
                RETURN: b"\xff" * IMPORT_SLOT,  # where the return address points
                bottom: b"\xff" * (top - bottom) + frame + b"\xff" * (STACK_TOP - top - len(frame)),
            },
        )

    def forget(self, unknown: Unknown) -> None:
        """Undo what code left in registers and in the stack, as far as a function that is started can see it."""
        for register, value in unknown.registers.items():
            self.vm.reg_write(register, value)
        for number in range(_VECTORS):
            self.vectors[number] = b"\xff" * 64
        for address, content in unknown.memory.items():
            self.write(address, content)

    @property
    def depth(self) -> int:
        """How many calls from Python run, one inside the other."""
        return len(self._boundaries)

    def boundary(self, depth: int) -> Boundary | None:
        """Return where the double returns to that made the call at ``depth``; None where no exception passes."""
        return self._boundaries[depth] if depth >= 0 else None

    def answer_call(self, value: int) -> None:
        """Set the result of a function: for code behind a call that is started by itself."""
        self.vm.reg_write(self.arch.result, value)

    def call(self, address: int, *arguments: int, is_thread: bool = False) -> int:
        """Call a function from within a double (or ``start``), on the current stack.

        :param is_thread: it is the first function of a thread: no exception leaves it
        """
        if self.depth >= _MAX_DEPTH:
            raise Stop("calls nested too deeply", address)
        vm, arch = self.vm, self.arch
        # Start below the red zone, which a function may use without moving the stack pointer (SysV psABI, 3.2.2).
        pc, stack, link = vm.pc, vm.sp, arch.return_address(vm) if self.depth else 0
        boundary = Boundary(link, arch.stack_after_return(vm)) if self.depth and not is_thread else None
        vm.sp = stack - _RED_ZONE
        for register, value in zip(arch.arguments, arguments, strict=False):
            vm.reg_write(register, value & 0xFFFF_FFFF_FFFF_FFFF)
        arch.enter(vm, RETURN)
        vm.pc = address
        self._boundaries.append(boundary)
        before = self.taint.enter()
        try:
            self._run()
        finally:
            self._boundaries.pop()
            self.taint.leave(before)
        result = int(vm.reg_read(arch.result))
        vm.pc, vm.sp = pc, stack
        # Where the return address of the double itself is in a register, the call has overwritten it.
        if self.depth and arch.link is not None:
            vm.reg_write(arch.link, link)
        return result

    def call_with_result(self, address: int, result: int, *arguments: int) -> int:
        """Call a function that returns an object in memory, at ``result``."""
        return self.call(address, *self.arch.hand_result(self.vm, result, arguments))

    def _run(self) -> None:
        taint = self.taint
        while True:
            # While an answer is in a register, instructions run one by one; otherwise the machine runs until something
            # stops it.
            if taint.registers and self._follow():
                continue
            if self._is_end(self.vm.run()):
                return

    def _is_end(self, stopped: int) -> bool:
        """Handle what stopped the processor; tell whether that is the end of the function that was called."""
        vm = self.vm
        if stopped == Stopped.NOT_CODE:
            pc = vm.pc
            # ``RETURN`` is in the import slots, which hold no code: so a return is an event like a call of an import.
            if pc == RETURN:
                return True
            if IMPORT_BASE <= pc < IMPORT_BASE + _IMPORT_SIZE:
                self._call_out(pc)
            else:
                self._fetch(pc)
        elif stopped in ACCESSES:
            self._access(vm.address)
        # A guarded byte and a page without permission look alike: first see whether it was guarded.
        elif stopped in FORBIDDEN and self._go_on_at_guard():
            pass
        elif stopped == Stopped.BREAKPOINT:
            self._break()
        elif stopped == Stopped.UNKNOWN:
            self._go_on_where_decoding_failed()
        elif stopped == Stopped.LIMIT and vm.icount < self._last_instruction:
            vm.icount_limit = min(vm.icount + _SLICE, self._last_instruction)
        elif stopped == Stopped.SYSTEM_CALL and vm.reg_read(self.arch.system_call) in self.arch.exits:
            raise ProcessTermination("the code makes a system call that ends the process", vm.pc, "")
        else:
            number = _SIGNALS.get(stopped) or self.arch.signal_of(self._code_at(vm.pc))
            raise Stop(_REASONS[stopped].format(vm.address) if stopped in _REASONS else vm.other, vm.pc, signal=number)
        return False

    def _follow(self) -> bool:
        """Execute and follow one instruction; False if the machine is to go on by itself."""
        pc = self.vm.pc
        if IMPORT_BASE <= pc < IMPORT_BASE + _IMPORT_SIZE or not is_mapped(self.vm, pc):
            return False
        if pc in self._returns:
            self._returned(pc)
        return self.taint.step()

    def _go_on_at_guard(self) -> bool:
        """Go on at an access to a guarded byte; False if it is not one, or if the code itself stops there."""
        # Each attempt is counted by the processor: without its faults, the count of a second one is that of the first.
        taint, here = self.taint, (self.vm.pc, self.executed)
        if taint.step():
            return True
        # The same place, and no instruction was executed since: it cannot be followed, so the guarded value counts as
        # decisive.
        if here == self._last_guard:  # an instruction with accesses that are not known
            self._last_guard = None
            return taint.give_up()
        self._last_guard = here
        return taint.is_used

    def unknown_answer(self, name: str, address: int, registers: Sequence[str]) -> int:
        """Return what an instruction that asks about the machine puts into registers, and follow it: nobody knows the
        answer.
        """
        self.taint.answer_in(name, address, [part for register in registers for part in self.arch.parts_of(register)])
        return self.answer

    def step_one(self) -> bool:
        """Execute one instruction; False if it was not, and the machine has to see why."""
        pc = self.vm.pc
        # At such an address the machine has to stop by itself: see ``_break``.
        if pc in self._diverted or pc in self._observed:
            return False
        if pc in self._watched:
            self.reached.add(pc)
        self.vm.note_extension(pc)
        if self.vm.misreads_vectors and 0 in self.arch.suspects(self._code_at(pc)[:_SUSPECT_HEAD]):
            self._step_over(pc)
            return True
        stopped = self.vm.step()
        if stopped == Stopped.UNKNOWN:
            self._go_on_where_decoding_failed()
            return self.vm.pc != pc
        return stopped == Stopped.NOT

    def _step_over(self, pc: int) -> None:
        """Execute an instruction that is not left to the processor."""
        self._left_to_step_over -= 1
        if self._left_to_step_over < 0:
            raise Stop(f"limit of {_MOST_STEPPED_OVER:,} instructions that the processor does not know", pc)
        text = self.arch.step_over(self.vm, self, self._code_at(pc))
        if text is not None:
            raise Stop(f"unknown instruction: {text}", pc, signal=self.arch.signal_of(self._code_at(pc)))

    def stop_at(self, address: int) -> None:
        """Stop when the code gets to an address that a function returns to."""
        self._returns.add(address)
        self.vm.add_breakpoint(address)

    def _returned(self, address: int) -> bool:
        is_over = self.taint.resume(address)
        if is_over:
            self._returns.discard(address)
        return is_over

    def guard(self, address: int, size: int, *, guarded: bool) -> None:
        """Set or clear a guard on some bytes: an access by code then stops. Those that are not mapped have none."""
        try:  # noqa: SIM105 - for all that is followed: contextlib.suppress would take longer than all else
            self.vm.guard(address, size, guarded)
        except AccessError:
            pass

    def code_at(self, address: int) -> bytes:
        """Return the bytes of an instruction, and some behind it."""
        return self._code_at(address)

    def _go_on_where_decoding_failed(self) -> None:
        pc = self.vm.pc
        if self._map_one_of((pc & _PAGE_MASK, (pc + _CODE_WINDOW - 1) & _PAGE_MASK)):
            return  # what looked like no instruction was the first part of one
        code = self._code_at(pc)
        self.vm.note_extension(pc)
        # What the emulator executes incorrectly is not left to it here either.
        is_suspect = 0 in self.arch.suspects(code[:_SUSPECT_HEAD])
        if not is_suspect and self._step_across():
            return
        self._step_over(self.vm.pc)

    def _step_across(self) -> bool:
        """Execute an instruction that straddles two pages, if it is one after all.

        icicle keeps taking it for none if it saw the first page alone; a single step decodes it anew.
        """
        pc = self.vm.pc
        if pc % PAGE_SIZE <= PAGE_SIZE - _CODE_WINDOW:
            return False
        return self.vm.step() == Stopped.NOT and self.vm.pc != pc

    def _break(self) -> None:
        """Handle a breakpoint: something diverted, observed or watched, or an instruction not left to the emulator."""
        pc = self.vm.pc
        # Several breakpoints may share an address. Those that only look let the instruction run by single steps, since
        # a run would stop at the same breakpoint again.
        if pc in self._returns and not self._returned(pc):
            while self.vm.pc == pc and (stopped := self.vm.step()):
                self._is_end(stopped)
            return
        if pc in self._diverted:
            self._call_out(self._diverted[pc])
            return
        if pc in self._observed:
            self._observed[pc]()
            while self.vm.pc == pc and (stopped := self.vm.step()):
                self._is_end(stopped)
            return
        if pc in self._watched:
            self.reached.add(pc)
        self.vm.note_extension(pc)
        if not self.vm.misreads_vectors or 0 not in self.arch.suspects(self._code_at(pc)[:_SUSPECT_HEAD]):
            # Nothing is left to be done here: a byte only looked like a suspect, or a watched call was reached.
            self.vm.remove_breakpoint(pc)
            return
        self._step_over(pc)

    def _code_at(self, address: int) -> bytes:
        try:
            return self.read(address, _CODE_WINDOW)
        except Stop:  # the last instruction of a segment
            return self.read(address, PAGE_SIZE - address % PAGE_SIZE)

    def _fetch(self, pc: int) -> None:
        """Map the page of ``pc``, or the next one when an instruction straddles the two.

        icicle keeps what it decoded: code that once ran into an unmapped page ends there with a fault ever after. So a
        fault in a mapped page is worth another try, once.
        """
        pages = (pc & _PAGE_MASK, (pc + _CODE_WINDOW - 1) & _PAGE_MASK)
        here = (pc, self.vm.icount)
        if not self._map_one_of(pages) and here == self._last_fault:
            raise Stop(f"jump to {pc:#x}, which is not code", pc, signal=SIGSEGV)
        self._last_fault = here

    def _access(self, address: int) -> None:
        """Map the page of ``address``, or the next one when an access straddles the two."""
        pages = (address & _PAGE_MASK, (address + 63) & _PAGE_MASK)
        if not self._map_one_of(pages):
            # At any other address, a real process may have memory that this one lacks.
            is_certain = address < _NULL_END or address >= _USER_END or _is_below(self.vm.sp)
            number = SIGSEGV if is_certain else None
            raise Stop(f"access to unmapped memory at {address:#x}", self.vm.pc, signal=number)

    def _map_one_of(self, pages: tuple[int, ...]) -> bool:
        for page in dict.fromkeys(pages):
            if not is_mapped(self.vm, page):
                return self._pager(page)
        return False


def _is_below(stack: int) -> bool:
    """Whether the stack has overflowed: with 8 MB, it is as large as by default on Linux."""
    return STACK_TOP - 2 * _STACK_SIZE <= stack < STACK_TOP - _STACK_SIZE + _RED_ZONE
