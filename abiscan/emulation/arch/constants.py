"""Which constants registers and the frame of an x86-64 function hold that it has loaded long before, or elsewhere.

A compiler keeps the address of a text that is needed often in a register that calls leave alone, or in the frame. What
is there at an instruction is what was put there last on every way that leads to it. If all ways agree on one address in
the object, that is the constant; whatever else is put there, or comes with the call of the function, is none.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from abiscan.regex import regex

Location: TypeAlias = str | int
"""A register, or the distance of a word of the frame from the frame pointer."""

_ARCHITECTURE: Final = "x86_64"
_LONGEST: Final = 1 << 16  # bytes of a function that are looked at
FRAME_POINTER: Final = "rbp"
_KEPT: Final = ("rbx", "r12", "r13", "r14", "r15")
_LOST_IN_CALLS: Final = ("rax", "rcx", "rdx", "rsi", "rdi", *(f"r{number}" for number in range(8, 12)))
_NO_WAY_ON: Final = ("jmp", "ret", "ud2", "hlt")
_CHANGING: Final = frozenset(
    ("mov", "lea", "movzx", "movsx", "movsxd", "add", "sub", "and", "or", "xor", "shl", "shr", "sar")
)
_ASKING: Final = ("cmp", "test")
_NOT_BY_TEXT: Final = regex(r"bp|eip|[c-gs]s\b|[cd]r\d|\bst")
"""Frames, and registers of other kinds."""

_WHOLE: Final = frozenset((*_KEPT, *_LOST_IN_CALLS, "rsp"))
_WORD: Final = 8
_REGISTER, _MEMORY = 1, 3  # kinds of operands (CS_OP_REG, CS_OP_MEM)


class Constants:
    """The constants of one object's functions.

    :param architecture: that of the object; of any but x86-64, none are known
    :param code_of: the code of the function that starts at an address
    """

    def __init__(self, architecture: str, code_of: Callable[[int], bytes]) -> None:
        self._code_of = code_of if architecture == _ARCHITECTURE else lambda _: b""
        self._function = functools.lru_cache(maxsize=4)(self._decode)

    def at(self, address: int, start: int, code: range) -> Mapping[Location, int]:
        """Return which registers and words hold which constants before the instruction at ``address`` of a function.

        :param code: where the instructions are that it is for
        """
        function = self._function(start)
        locations: tuple[Location, ...] = (*_KEPT, *function.words_read(code))
        return {
            location: constant
            for location in locations
            if (constant := function.constant(location, address)) is not None
        }

    def _decode(self, start: int) -> _Function:
        code = self._code_of(start)
        return _Function(start, code if len(code) <= _LONGEST else b"")


class _Copy(NamedTuple):
    """What an instruction puts into a place that it copies from another."""

    location: Location


class _Relative(NamedTuple):
    """A constant, by its distance from the instruction that puts it there."""

    offset: int


_Change: TypeAlias = int | _Copy | None  # a constant; None for anything that is not known
_Effect: TypeAlias = _Relative | _Copy | None  # the same, wherever the instruction is
_UNCHANGED: Final = _Copy("")


class _Block(NamedTuple):
    """Instructions that are only entered at the first and only left after the last one.

    :ivar changes: those that are still there at its end, with the instruction that made each
    """

    start: int
    changes: dict[Location, tuple[_Change, int]]


class _Function:
    """One function: what each of its instructions changes, and which come before it."""

    def __init__(self, start: int, code: bytes) -> None:
        self._start = start
        self._changes: dict[int, Mapping[Location, _Change]] = {}
        self._before: dict[int, list[int]] = defaultdict(list)
        self._has_frame = False
        ends = {start}  # the addresses that are not only reached from the instruction before
        # The text of an instruction is enough to tell branches; decoding in detail is left to ``_changes_of``, which
        # keeps it.
        for address, size, mnemonic, operands in _decoder().disasm_lite(code, start) if code else ():
            self._has_frame |= mnemonic == "mov" and operands == "rbp, rsp"
            branches = operands.startswith("0x") and (mnemonic == "call" or mnemonic[0] == "j")
            at, following = address - start, address + size
            if branches:
                self._changes[address] = _of_branch(mnemonic)
            else:
                changes, relative = _changes_of(code[at : at + size], mnemonic, operands)
                made = {location: address + offset for location, offset in relative.items()}
                self._changes[address] = {**changes, **made} if made else changes
            if branches and mnemonic != "call":
                target = int(operands, 16)
                self._before[target].append(address)
                ends.update((target, following))
            # The edge to the next instruction. A jump through a register adds no edge: code that is only reached by one
            # has no predecessor, and no constants.
            if mnemonic not in _NO_WAY_ON:
                self._before[following].append(address)
            else:
                ends.add(following)
        self._words_read = functools.lru_cache(maxsize=1)(self._read_words)
        self._blocks = dict(self._read_blocks(ends))  # by each of their instructions

    def _read_blocks(self, ends: Container[int]) -> Iterator[tuple[int, _Block]]:
        block = _Block(self._start, {})
        for address, changes in self._changes.items():
            if address in ends:
                block = _Block(address, {})
            for location, change in changes.items():
                block.changes[location] = change, address
            yield address, block

    def words_read(self, code: range) -> set[int]:
        """Return the words of the frame that some instructions read."""
        return self._words_read(code)

    def _read_words(self, code: range) -> set[int]:
        changes = (change for at in code for change in self._changes.get(at, {}).values() if self._has_frame)
        return {change.location for change in changes if isinstance(change, _Copy) and isinstance(change.location, int)}

    def constant(self, location: Location, address: int) -> int | None:
        """Return the constant in a place before an instruction, None if it is not known to have one."""
        result, seen = set[int](), set[tuple[int, Location]]()
        # Backwards from the instruction along all paths: every path has to end in the same constant. A path around a
        # loop returns to a place that was seen, and adds nothing.
        places = [(address, location)]
        while places:
            place = address, location = places.pop()
            if place in seen:
                continue
            seen.add(place)
            if address == self._start:
                return None
            for before in self._before[address]:
                block = self._blocks[before]
                # Within its block an instruction has one before it; from another block, only what that leaves at its
                # end counts.
                if address in self._blocks and self._blocks[address] is block and address != block.start:
                    changes = self._changes[before]
                    change, at = changes.get(location, _UNCHANGED), before
                else:
                    change, at = block.changes.get(location, (_UNCHANGED, block.start))
                if change is _UNCHANGED:
                    places.append((at, location))
                elif change is None:
                    return None
                elif isinstance(change, int):
                    result.add(change)
                else:
                    places.append((at, change.location))
        return result.pop() if len(result) == 1 else None


# Decoding in detail takes most of the time, and most instructions occur often: their effects are kept. The text of most
# is enough: they change their first operand, and flags, which nobody asks for.


@functools.lru_cache(maxsize=1 << 15)
def _changes_of(code: bytes, mnemonic: str, operands: str) -> tuple[Mapping[Location, _Change], Mapping[Location, int]]:
    """Return what an instruction changes; in the second part, constants by their distance from it."""
    first, _, source = operands.partition(", ")
    if (mnemonic in _CHANGING or (mnemonic in _ASKING and first in _WHOLE)) and not _NOT_BY_TEXT.search(operands):
        if mnemonic == "lea" and source.startswith("[rip ") and first in _WHOLE:  # the displacement comes last
            return {}, {first: len(code) + int.from_bytes(code[-4:], "little", signed=True)}
        if mnemonic == "mov" and source in _WHOLE and first in _WHOLE:
            return {first: _Copy(source)}, {}
        return {} if "[" in first else {_whole(first): None}, {}
    changes = dict(change for instruction in _decoder().disasm(code, 0, 1) for change in _changes_by(instruction))
    relative = {location: change.offset for location, change in changes.items() if isinstance(change, _Relative)}
    return {place: change for place, change in changes.items() if not isinstance(change, _Relative)}, relative


@functools.cache
def _of_branch(mnemonic: str) -> Mapping[Location, _Change]:
    """Return what a call of, or a jump to, a constant address changes."""
    return dict.fromkeys(("rsp", *_LOST_IN_CALLS)) if mnemonic == "call" else {}


def _changes_by(instruction: Any) -> Iterator[tuple[Location, _Effect]]:
    """Yield what an instruction changes, and to what: of two changes of one place, the latter counts."""
    for register in instruction.regs_access()[1]:
        yield _whole(instruction.reg_name(register)), None
    if instruction.mnemonic == "call":
        yield from ((register, None) for register in _LOST_IN_CALLS)
    elif len(instruction.operands) > 1:
        target, source = instruction.operands[0], instruction.operands[-1]
        word = _in_frame(instruction, target)
        if word is not None:
            # A store may touch a part of a word, or several: none of them is known any more.
            for part in range(word // _WORD * _WORD, word + target.size, _WORD):
                yield part, None
        place = instruction.reg_name(target.reg) if target.type == _REGISTER else word
        if place is not None and target.size == _WORD:
            yield place, _moved(instruction, source)


def _moved(instruction: Any, source: Any) -> _Effect:
    """Return what ``lea`` and ``mov`` put into their target."""
    if instruction.mnemonic == "lea" and instruction.reg_name(source.mem.base) == "rip":
        return _Relative(instruction.size + source.mem.disp)
    if instruction.mnemonic != "mov" or source.size != _WORD:
        return None
    location = instruction.reg_name(source.reg) if source.type == _REGISTER else _in_frame(instruction, source)
    return None if location is None else _Copy(location)


def _in_frame(instruction: Any, operand: Any) -> int | None:
    """Return the distance of an operand in memory from the frame pointer; None if it is elsewhere."""
    if operand.type != _MEMORY:
        return None
    memory = operand.mem
    is_frame = memory.base and instruction.reg_name(memory.base) == FRAME_POINTER and not memory.index
    return int(memory.disp) if is_frame else None


@functools.cache
def _whole(register: str) -> str:
    """Return the register of 64 bits of which this is a part."""
    if register[0] == "r":
        return register.rstrip("dwb") if register[1:2].isdigit() else register
    letters = register.removeprefix("e")
    if letters[-1] in "lhx" and len(letters) == 2 and letters[0] in "abcd":
        return f"r{letters[0]}x"
    return f"r{letters.removesuffix('l')}" if letters.removesuffix("l") in ("si", "di", "bp", "sp") else register


@functools.cache
def _decoder() -> Any:
    import capstone  # type: ignore[import-untyped]

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    return decoder
