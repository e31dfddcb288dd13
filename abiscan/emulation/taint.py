"""Follows what nobody knows: the answers of imported functions that have no double.

From the call of such a function on, the code is executed instruction by instruction, and each instruction that reads
what came from the answer makes what it writes come from it, too: registers, by their parts, and memory, by the byte.
Where the answer becomes the condition of a branch, an address, or part of what is registered, it *decides*: what the
emulator does from there on may not be what a real process does. Once nothing in the registers comes from an answer, the
code runs at full speed again, and the bytes in memory that do are guarded: whoever touches one is looked at.

What a function may leave dirty by the ABI is no answer: after a call, only what the function returns counts. Nor does a
called function look at the registers that it keeps for its caller: it runs at full speed where nothing else is at hand.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from abiscan.emulation.processor import Processor

if TYPE_CHECKING:
    from abiscan.emulation.arch import Arch
    from abiscan.emulation.arch.data_flow import Access, DataFlow

_MOST_STEPS: Final = 400_000  # of one object
_MOST_BYTES: Final = 1 << 20  # of memory that is guarded at a time
_MOST_CALLS: Final = 500  # of one function from one place
_WORD: Final = 0xFFFF_FFFF_FFFF_FFFF
_PAGE_SHIFT: Final = 12


class _Machine(Protocol):
    """What executes the code: see ``Emulator``."""

    vm: Processor

    def guard(self, address: int, size: int, *, guarded: bool) -> None:
        """Stop at accesses to some bytes, or no longer."""

    def step_one(self) -> bool:
        """Execute one instruction; False if it was not, and the machine has to see why."""

    def stop_at(self, address: int) -> None:
        """Stop when the code gets to an address that a function returns to."""

    def code_at(self, address: int) -> bytes:
        """Return the bytes of an instruction, and some behind it."""


class Source(NamedTuple):
    """A function whose answer nobody knows, and where a call of it returns to."""

    function: str
    address: int


class AnswerDecision(NamedTuple):
    """Where an answer decides, and how."""

    source: Source
    address: int
    how: str


class _Suspended(NamedTuple):
    """A called function that runs untraced.

    :ivar address: where tracing resumes
    :ivar stack: the stack pointer there
    :ivar registers: those that it keeps for its caller
    """

    address: int
    stack: int
    registers: dict[str, int]


class _Unseen:
    """See ``Taint.unseen``; not a generator, which takes longer than all that most doubles do."""

    def __init__(self, taint: Taint) -> None:
        self._taint, self._read = taint, taint.read

    def __enter__(self) -> None:
        self._taint.read = 0

    def __exit__(self, *_: object) -> None:
        self._taint.read = self._read


class Taint:
    """What comes from unknown answers, in one process: a label has a bit for each source.

    :param decided: told of every decision
    """

    def __init__(self, machine: _Machine, arch: Arch, decided: Callable[[AnswerDecision], None]) -> None:
        self._machine: _Machine = weakref.proxy(machine)
        self._arch = arch
        self._decided = decided
        self._sources: dict[Source, int] = {}  # the number of each
        self._calls: dict[Source, int] = {}
        self._done = 0  # the sources that have decided: there is nothing more to learn of them
        self.registers: dict[str, int] = {}
        self.memory: dict[int, int] = {}
        self._pages: dict[int, int] = {}  # how many bytes of each page are in ``memory``
        self.read = 0
        """What the double that runs has read."""
        self._instructions: dict[int, DataFlow | None] = {}
        self._steps = _MOST_STEPS
        self._suspended: list[_Suspended] = []
        self._answered = False  # whether the instruction that is executed has answered by itself
        self.is_off = False
        """Whether new answers are left alone: where nothing that the code does means anything."""

    @property
    def is_used(self) -> bool:
        """Whether there is anything to follow."""
        return bool(self._sources)

    # Answers

    def answer(self, function: str, address: int) -> int:
        """Return the label of what a function without a double returns; 0 if that has decided already."""
        if self.is_off:
            return 0
        # One source for all calls from one place: a loop over an unknown answer would otherwise need a bit for each
        # turn.
        source = Source(function, address)
        number = self._sources.setdefault(source, len(self._sources))
        self._calls[source] = self._calls.get(source, 0) + 1
        if self._calls[source] > _MOST_CALLS:
            self.decide(1 << number, address, "it is called too often to be followed")
        return (1 << number) & ~self._done

    def answer_again(self, source: Source) -> int:
        """Return a label for what a source may decide besides, which has decided something already."""
        if self.is_off or source not in self._sources:
            return 0
        self._done &= ~(1 << self._sources[source])
        return 1 << self._sources[source]

    def answer_in(self, name: str, address: int, parts: Iterable[str]) -> None:
        """Note that an instruction has answered in registers."""
        if label := self.answer(name, address):
            self.registers.update(dict.fromkeys(parts, label))
        self._answered = True

    def returned(self, label: int) -> None:
        """Note that a called function has returned: of the registers that it need not keep, only its result counts."""
        # A callee may leave anything in the other registers (SysV psABI 3.2.1, AAPCS64 6.1): their labels are dropped.
        kept = self._arch.kept_parts
        self.registers = {part: old for part, old in self.registers.items() if part in kept}
        if label := label & ~self._done:
            self.registers.update(dict.fromkeys(self._arch.result_parts, label))

    def start(self, stack: range) -> None:
        """Note that a function is started: nothing is in registers or in the stack."""
        self.registers = {}
        self._suspended.clear()
        self.read = 0
        if any(page << _PAGE_SHIFT in stack for page in self._pages):
            self._clear([address for address in self.memory if address in stack])

    def enter(self) -> dict[str, int]:
        """Note that a double calls a function of the object, with arguments made of what it has read."""
        before = self.registers
        self.registers = dict.fromkeys(self._arch.argument_parts, self.read) if self.read else {}
        return before

    def leave(self, before: dict[str, int]) -> None:
        """Note that the function that a double called has come to its end, one way or the other."""
        self.read |= self.label_in(self._arch.result_parts)
        self.registers = before

    def unseen(self) -> _Unseen:
        """Leave out what a double reads and writes here: it only manages memory, or finds its way through frames."""
        return _Unseen(self)

    def mark(self, address: int, size: int, label: int) -> None:
        """Note that bytes are written that come from answers, or from none."""
        label &= ~self._done
        if not label and not self.memory:
            return
        # Giving up counts as a decision: an answer is never dropped silently.
        if label and len(self.memory) + size > _MOST_BYTES:
            self.decide(label, int(self._machine.vm.pc), "more memory comes from it than can be followed")
            return
        if not label:
            self._clear(self._marked(address, size))
            return
        new = [at for at in range(address, address + size) if at not in self.memory]
        # The guard stops the machine at any access to the bytes, while it runs at full speed.
        self._guard(new, guarded=True)
        for at in new:
            self._pages[at >> _PAGE_SHIFT] = self._pages.get(at >> _PAGE_SHIFT, 0) + 1
        self.memory.update(dict.fromkeys(range(address, address + size), label))

    def _guard(self, places: Sequence[int], *, guarded: bool) -> None:
        first = 0
        for number, at in enumerate(places, 1):
            if number == len(places) or places[number] != at + 1:
                self._machine.guard(places[first], number - first, guarded=guarded)
                first = number

    def is_clear(self, address: int, size: int) -> bool:
        """Whether nothing comes from answers in the pages of a part of memory: asked at every access of a double."""
        first, last = address >> _PAGE_SHIFT, address + size - 1 >> _PAGE_SHIFT
        return first not in self._pages and (first == last or self._pages.keys().isdisjoint(range(first, last + 1)))

    def _marked(self, address: int, size: int) -> list[int]:
        """Return the bytes of a part of memory that come from answers."""
        if self.is_clear(address, size):
            return []
        if size < len(self.memory):
            return [at for at in range(address, address + size) if at in self.memory]
        return [at for at in self.memory if address <= at < address + size]

    def _clear(self, places: Sequence[int]) -> None:
        for at in places:
            del self.memory[at]
            page = at >> _PAGE_SHIFT
            self._pages[page] -= 1
            if not self._pages[page]:
                del self._pages[page]
        self._guard(places, guarded=False)

    def label_of(self, address: int, size: int) -> int:
        """Return the label of some bytes: from which answers they come."""
        label = 0
        for at in self._marked(address, size):
            label |= self.memory[at]
        return label & ~self._done

    def label_in(self, parts: Iterable[str]) -> int:
        """Return the label of some parts of registers: from which answers they come."""
        label = 0
        for part in parts:
            label |= self.registers.get(part, 0)
        return label & ~self._done

    def decide(self, label: int, address: int, how: str) -> None:
        """Note that answers decide, and let go of them: there is nothing more to learn of their sources."""
        label &= ~self._done
        if not label:
            return
        # Each source decides once: one gap tells users what there is to know, and following it further costs time.
        for source, number in self._sources.items():
            if label >> number & 1:
                self._decided(AnswerDecision(source, address, how))
        self._done |= label
        self.registers = {part: left for part, old in self.registers.items() if (left := old & ~self._done)}
        self._clear([at for at, old in self.memory.items() if not old & ~self._done])

    def give_up(self) -> bool:
        """Let everything in memory decide; False if nothing is there."""
        label = 0
        for item in self.memory.values():
            label |= item
        self.decide(label, int(self._machine.vm.pc), "it is in memory that cannot be followed")
        had_any = bool(self.memory or label)
        self._clear(list(self.memory))
        return had_any

    # Instructions

    def step(self) -> bool:
        """Execute one instruction, and follow what it does; False if the machine has to execute it by itself."""
        pc = int(self._machine.vm.pc)
        if pc not in self._instructions:
            self._instructions[pc] = self._arch.decode(pc, self._machine.code_at(pc))
        instruction = self._instructions[pc]
        if instruction is None or not self._may_step(pc):
            return False
        if instruction.is_call and self._suspend(instruction):
            return False
        # Addresses are computed before the instruction runs: it may change the registers that make them.
        places = [(self._address(access), access) for access in instruction.accesses]
        label = self._label_read(instruction, places, pc)
        touched = [at for place, access in places for at in range(place, place + access.size) if at in self.memory]
        # The machine itself must get past its guards while the instruction runs.
        self._guard(touched, guarded=False)
        self._answered = False
        executed = self._machine.step_one()
        self._guard([at for at in touched if at in self.memory], guarded=True)
        # An instruction that answers by itself, such as ``cpuid``, has labelled its results already.
        if executed and not self._answered:
            for part in instruction.writes:
                if label:
                    self.registers[part] = label
                else:
                    self.registers.pop(part, None)
            for place, access in places:
                if access.writes:
                    self.mark(place, access.size, label)
        return executed

    def _may_step(self, pc: int) -> bool:
        self._steps -= 1
        if self._steps < 0:
            label = 0
            for register in (*self.registers.values(), *self.memory.values()):
                label |= register
            self.decide(label, pc, "it is in use for longer than can be followed")
        return self._steps >= 0

    def _label_read(self, instruction: DataFlow, places: list[tuple[int, Access]], pc: int) -> int:
        """Return the label of the values that an instruction reads, after deciding what it decides."""
        label = self.label_in(instruction.reads)
        for place, access in places:
            if access.reads and self.memory:
                label |= self.label_of(place, access.size)
        if instruction.jumps:
            self.decide(label, pc, "a branch")
        self.decide(self.label_in(instruction.decides), pc, "a branch")
        # An unknown address may be that of anything, so what is read or written there cannot be followed.
        self.decide(self.label_in(instruction.addresses), pc, "an address")
        return label & ~self._done

    def _address(self, access: Access) -> int:
        address = access.offset
        for name, factor in access.registers:
            address += int(self._machine.vm.reg_read(name)) * factor
        return address & _WORD

    def _suspend(self, instruction: DataFlow) -> bool:
        """Let a called function run by itself if only memory leads it to what comes from an answer; tell whether."""
        if not self.registers or any(part not in self._arch.kept_parts for part in self.registers):
            return False
        if self.label_in(instruction.reads | instruction.addresses | instruction.decides):
            return False
        # By the ABI the callee may only save and restore these registers, so no value of theirs takes part in what it
        # does.
        self._suspended.append(_Suspended(instruction.after, int(self._machine.vm.sp), self.registers))
        self.registers = {}
        self._machine.stop_at(instruction.after)
        return True

    def resume(self, address: int) -> bool:
        """Whether the function that ran at full speed has returned to ``address``: then it is over."""
        stack = int(self._machine.vm.sp)
        # Stacks grow downwards: a frame below the stack pointer is gone, whichever way it ended.
        while self._suspended and self._suspended[-1].stack < stack:  # ended by an exception
            self._suspended.pop()
        if not self._suspended or self._suspended[-1][:2] != (address, stack):
            return not any(suspended.address == address for suspended in self._suspended)
        before = self._suspended.pop().registers
        results = {part: old for part, old in self.registers.items() if part in self._arch.result_parts}
        self.registers = {**before, **results}
        return True

    def land(self) -> None:
        """Note that an exception has entered a landing pad: the registers are those that its function keeps."""
        stack = int(self._machine.vm.sp)
        self.registers = {}
        while self._suspended and self._suspended[-1].stack <= stack:
            self.registers = self._suspended.pop().registers
