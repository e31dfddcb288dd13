"""The frames of an object's functions, from ``.eh_frame``: where each one's caller goes on, and what it catches.

Formats: DWARF 5, section 6.4 (call frame information); Linux Standard Base 5.0, Core, chapter 10.6 (``.eh_frame``,
``.eh_frame_hdr`` and the encodings of pointers); the language-specific data of C++ as ``__gxx_personality_v0`` of
libstdc++ reads it ("Itanium C++ ABI: Exception Handling", level III).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from msgspec import Struct, field

_ABSENT: Final = 0xFF  # DW_EH_PE_omit
_INDIRECT: Final = 0x80
_PC_RELATIVE, _TEXT_RELATIVE, _DATA_RELATIVE = 0x10, 0x20, 0x30
_FORMS: Final = {0x00: "<Q", 0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x0A: "<h", 0x0B: "<i", 0x0C: "<q"}
_ULEB, _SLEB = 0x01, 0x09
_WORD: Final = 0xFFFF_FFFF_FFFF_FFFF
_MOST_BYTES: Final = 1 << 20  # of one table
_MOST_ACTIONS: Final = 64
_MOST_BITS: Final = 256  # of a number; assemblers pad some
_MOST_LETTERS: Final = 16  # of an augmentation: "zPLR" and some more
_MOST_REGISTERS: Final = 256  # of a row, and rows that are remembered at once
_MOST_OF_EXPRESSION: Final = 1 << 12  # bytes
_MOST_STEPS: Final = 1 << 21  # of one object: instructions and call sites; each call that throws takes a few
_AHEAD, _PAGE = 64, 0x1000


class _Memory(Protocol):
    """What is read: the memory of the emulated process."""

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at ``address``."""

    def word(self, address: int) -> int:
        """Return eight bytes at ``address``."""


class _Reader:
    """Reads numbers one after the other."""

    def __init__(self, memory: _Memory, at: int) -> None:
        self._memory = memory
        self.at = at
        self._part, self._start = b"", at  # what was read ahead

    def take(self, form: str) -> int:
        size = struct.calcsize(form)
        (value,) = struct.unpack(form, self._memory.read(self.at, size))
        self.at += size
        return int(value)

    def byte(self) -> int:
        offset = self.at - self._start
        if not 0 <= offset < len(self._part):
            # No page is touched that the byte is not in.
            self._part, self._start = self._memory.read(self.at, min(_AHEAD, -self.at % _PAGE or _PAGE)), self.at
            offset = 0
        self.at += 1
        return self._part[offset]

    def unsigned(self) -> int:
        return self._number()[0]

    def signed(self) -> int:
        value, bits = self._number()
        return value - (1 << bits) if value >> bits - 1 else value

    def _number(self) -> tuple[int, int]:
        """Read a LEB128 number (DWARF 4, 7.6): its value without a sign, and how many bits it has."""
        value = bits = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << bits
            bits += 7
            if not byte & 0x80:
                return value, bits
            if bits > _MOST_BITS:
                raise ValueError("a number without an end")

    def encoded(self, encoding: int, content: int = 0) -> int:
        """Return a pointer (DW_EH_PE_*); zero stays zero.

        :raises ValueError: no format has this encoding
        """
        at = self.at
        form = encoding & 0x0F
        if form == _ULEB:
            value = self.unsigned()
        elif form == _SLEB:
            value = self.signed()
        elif form in _FORMS:
            value = self.take(_FORMS[form])
        else:
            raise ValueError(f"pointer encoding {encoding:#x}")
        if not value:
            return 0
        value += {_PC_RELATIVE: at, _DATA_RELATIVE: content}.get(encoding & 0x70, 0)
        value &= _WORD
        return self._memory.word(value) if encoding & _INDIRECT else value


class _RegisterRule(NamedTuple):
    """Where a register of the caller is.

    :ivar kind: what the value means: offset (from the CFA), is (the CFA and an offset), register, expression, is
        expression
    """

    kind: str  # offset (from the CFA), is (the CFA and an offset), register, expression, is expression
    value: int


class _Row(Struct):
    cfa: _RegisterRule = field(default_factory=lambda: _RegisterRule("offset", 0))
    cfa_register: int = 0
    registers: dict[int, _RegisterRule] = field(default_factory=dict)

    def copy(self) -> _Row:
        return _Row(self.cfa, self.cfa_register, dict(self.registers))


class _Common(NamedTuple):
    """A common information entry (Linux Standard Base, ``.eh_frame``; DWARF 5, 6.4.1).

    :ivar code_factor: what advances of the location are multiplied by
    :ivar data_factor: what offsets of saved registers are multiplied by
    :ivar return_column: the number of the return address among the registers
    :ivar has_augmentation: whether entries have augmentation data, with their length before them
    :ivar pointers: the encoding of addresses (``DW_EH_PE_*``)
    :ivar data: the encoding of the address of the language-specific data
    :ivar is_signal: whether the frames are those of signal handlers
    :ivar start: where its instructions begin
    :ivar end: where they end
    """

    code_factor: int
    data_factor: int
    return_column: int
    has_augmentation: bool
    pointers: int
    data: int
    is_signal: bool
    start: int
    end: int


class FrameEntry(NamedTuple):
    """A function with call frame information; addresses of the emulated process.

    :ivar data: its language-specific data, 0 without any
    """

    start: int
    size: int
    data: int
    common: _Common
    instructions: int
    end: int


class FrameState(Struct, frozen=True):
    """The registers by their DWARF numbers, and where the code goes on."""

    registers: Mapping[int, int]
    pc: int

    def register(self, number: int) -> int:
        """Return a register by its DWARF number.

        :raises ValueError: it is none that is restored
        """
        if number not in self.registers:
            raise ValueError(f"call frame register {number}")
        return self.registers[number]


class Landing(NamedTuple):
    """What a function does with an exception at some call: a landing pad, and what it is for.

    :ivar filters: the numbers of the actions in order: 0 a cleanup, positive a handler, negative a specification
    :ivar terminates: whether no exception may leave the call
    """

    pad: int
    filters: tuple[int, ...]
    types: Callable[[int], int]
    specification: Callable[[int], tuple[int, ...]]
    terminates: bool = False


class Frames:
    """The call frame information of one object.

    :param header: where its ``.eh_frame_hdr`` is
    :param stack_pointer: the DWARF number of that register
    """

    def __init__(self, memory: _Memory, header: int, stack_pointer: int) -> None:
        self._memory = memory
        self._header = header
        self._stack_pointer = stack_pointer
        # The tables are in memory that code cannot write.
        self._functions: dict[int, FrameEntry | None] = {}
        self._commons: dict[int, _Common] = {}
        self._rows: dict[tuple[int, int], _Row] = {}
        self._landings: dict[tuple[int, int], Landing | None] = {}
        self._steps = 0
        reader = _Reader(memory, header)
        # Version, then the encodings of the pointer to .eh_frame, of the number of entries, and of the table (LSB,
        # 10.6.2).
        _, self._frame_encoding, count_encoding, self._table_encoding = (reader.byte() for _ in range(4))
        self._frames = reader.encoded(self._frame_encoding, header)
        self._count = reader.encoded(count_encoding, header)
        self._table = reader.at

    def function_at(self, address: int) -> FrameEntry | None:
        """Return the function that ``address`` is in."""
        if address not in self._functions:
            self._functions[address] = self._find(address)
        return self._functions[address]

    def _step(self) -> None:
        """Count a step of a loop that the tables decide how often to go through."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise ValueError("call frames take too long to read")

    def _find(self, address: int) -> FrameEntry | None:
        # The search needs entries of one size in order: pairs of 32 bits relative to the header, as all linkers write
        # them.
        if self._table_encoding != _DATA_RELATIVE | 0x0B:
            return None
        low, high = 0, self._count
        while low < high:  # the last entry that begins at or before the address
            middle = (low + high) // 2
            if self._entry(middle)[0] <= address:
                low = middle + 1
            else:
                high = middle
        if not low:
            return None
        function = self._read(self._entry(low - 1)[1])
        return function if function is not None and function.start <= address < function.start + function.size else None

    def _entry(self, number: int) -> tuple[int, int]:
        start, entry = struct.unpack("<ii", self._memory.read(self._table + 8 * number, 8))
        return (self._header + start) & _WORD, (self._header + entry) & _WORD

    def _read(self, at: int) -> FrameEntry | None:
        reader = _Reader(self._memory, at)
        length = reader.take("<I")
        end = reader.at + length
        here = reader.at
        # In .eh_frame the pointer to the common entry counts backwards from itself, and 0 marks such an entry (LSB,
        # 10.6.1.1).
        offset = reader.take("<I")
        if not offset or length > _MOST_BYTES:
            return None
        if here - offset not in self._commons:
            self._commons[here - offset] = self._read_common(here - offset)
        common = self._commons[here - offset]
        start = reader.encoded(common.pointers, self._header)
        # The length has the form of the pointer, without what it is relative to.
        size = reader.encoded(common.pointers & 0x0F)
        content = 0
        # The length of the augmentation is given, so unknown parts of it are skipped.
        if common.has_augmentation:
            after = reader.unsigned() + reader.at
            if common.data != _ABSENT:
                content = reader.encoded(common.data, self._header)
            reader.at = after
        return FrameEntry(start, size, content, common, reader.at, end)

    def _read_common(self, at: int) -> _Common:
        reader = _Reader(self._memory, at)
        length = reader.take("<I")
        end = reader.at + length
        reader.take("<I")
        reader.byte()
        letters = b""
        while (letter := reader.byte()) != 0:
            letters += bytes((letter,))
            if len(letters) > _MOST_LETTERS:
                raise ValueError("an augmentation of call frames without an end")
        # Factors of the code and data offsets, and the register of the return address. In version 1 the last one is a
        # byte, which reads the same as long as it is below 128.
        code, content, column = reader.unsigned(), reader.signed(), reader.unsigned()
        pointers, specific = 0, _ABSENT
        if letters.startswith(b"z"):
            after = reader.unsigned() + reader.at
            for letter in letters[1:]:
                if letter == ord("R"):
                    pointers = reader.byte()
                elif letter == ord("L"):
                    specific = reader.byte()
                elif letter == ord("P"):
                    encoding = reader.byte()
                    reader.encoded(encoding & ~_INDIRECT, self._header)
            reader.at = after
        return _Common(
            code, content, column, letters.startswith(b"z"), pointers, specific, b"S" in letters, reader.at, end
        )

    # Callers

    def cfa(self, function: FrameEntry, state: FrameState) -> int:
        """Return the canonical frame address of the function: the stack pointer before it was called."""
        return self._cfa(self._make_row(function, state.pc), state)

    def caller(self, function: FrameEntry, state: FrameState) -> FrameState:
        """Return the registers where the function, stopped in ``state``, returns to."""
        row = self._make_row(function, state.pc)
        # All rules are read against the registers of the callee: none sees what another one has just restored.
        cfa = self._cfa(row, state)
        registers = dict(state.registers)
        for number, rule in row.registers.items():
            if rule.kind == "offset":
                registers[number] = self._memory.word((cfa + rule.value) & _WORD)
            elif rule.kind == "is":
                registers[number] = (cfa + rule.value) & _WORD
            elif rule.kind == "register":
                registers[number] = state.register(rule.value)
            else:
                value = self._evaluate(rule.value, state, cfa)
                registers[number] = value if rule.kind == "is expression" else self._memory.word(value)
        pc = FrameState(registers, state.pc).register(function.common.return_column)
        registers[self._stack_pointer] = cfa
        return FrameState(registers, pc)

    def saved(self, function: FrameEntry, state: FrameState) -> tuple[int, ...]:
        """Return where in its frame the function has saved registers and its return address."""
        row = self._make_row(function, state.pc)
        cfa = self._cfa(row, state)
        places = (rule.value for rule in row.registers.values() if rule.kind == "offset")
        return tuple(sorted((cfa + place) & _WORD for place in places))

    def _cfa(self, row: _Row, state: FrameState) -> int:
        if row.cfa.kind == "expression":
            return self._evaluate(row.cfa.value, state, None)
        return (state.register(row.cfa_register) + row.cfa.value) & _WORD

    def _make_row(self, function: FrameEntry, pc: int) -> _Row:
        """Return the rules at the call that returns to ``pc``."""
        place = function.instructions, pc
        if place not in self._rows:
            self._rows[place] = self._read_row(function, pc)
        return self._rows[place]

    def _read_row(self, function: FrameEntry, pc: int) -> _Row:
        common = function.common
        row = _Row()
        self._run(common, _Reader(self._memory, common.start), common.end, row, None, 0, None)
        # DW_CFA_restore means the rules that the common entry left, not those of the caller.
        initial = row.copy()
        self._run(common, _Reader(self._memory, function.instructions), function.end, row, initial, function.start, pc)
        return row

    def _run(  # noqa: C901 - one instruction set
        self, common: _Common, reader: _Reader, end: int, row: _Row, initial: _Row | None, at: int, pc: int | None
    ) -> None:
        saved: list[_Row] = []
        while reader.at < end:
            self._step()
            if len(row.registers) > _MOST_REGISTERS or len(saved) > _MOST_REGISTERS:
                raise ValueError("call frames of too many registers")
            code = reader.byte()
            high, low = code & 0xC0, code & 0x3F
            if high == 0x40 or code in (0x01, 0x02, 0x03, 0x04):  # advance_loc
                if code == 0x01:
                    at = reader.encoded(common.pointers, self._header)
                else:
                    step = low if high else reader.take({0x02: "<B", 0x03: "<H", 0x04: "<I"}[code])
                    at += step * common.code_factor
                # ``pc`` is a return address: a row that begins there is already behind the call.
                if pc is not None and at >= pc:
                    return
            elif high == 0x80:  # offset
                row.registers[low] = _RegisterRule("offset", reader.unsigned() * common.data_factor)
            elif high == 0xC0 or code == 0x06:  # restore
                number = low if high else reader.unsigned()
                rule = initial.registers.get(number) if initial else None
                if rule is None:
                    row.registers.pop(number, None)
                else:
                    row.registers[number] = rule
            elif code == 0x05:  # offset_extended
                number = reader.unsigned()
                row.registers[number] = _RegisterRule("offset", reader.unsigned() * common.data_factor)
            elif code in (0x07, 0x08):  # undefined, same_value
                row.registers.pop(reader.unsigned(), None)
            elif code == 0x09:  # register
                number = reader.unsigned()
                row.registers[number] = _RegisterRule("register", reader.unsigned())
            # The rule for the CFA is a part of the row, and comes back with it.
            elif code == 0x0A:  # remember_state
                saved.append(row.copy())
            elif code == 0x0B:  # restore_state
                before = saved.pop()
                row.cfa, row.cfa_register, row.registers = before.cfa, before.cfa_register, before.registers
            elif code in (0x0C, 0x12):  # def_cfa, def_cfa_sf
                row.cfa_register = reader.unsigned()
                offset = reader.unsigned() if code == 0x0C else reader.signed() * common.data_factor
                row.cfa = _RegisterRule("offset", offset)
            elif code == 0x0D:  # def_cfa_register
                row.cfa_register = reader.unsigned()
            elif code in (0x0E, 0x13):  # def_cfa_offset, def_cfa_offset_sf
                offset = reader.unsigned() if code == 0x0E else reader.signed() * common.data_factor
                row.cfa = _RegisterRule("offset", offset)
            elif code == 0x0F:  # def_cfa_expression
                row.cfa = _RegisterRule("expression", reader.at)
                reader.at = self._behind_block(reader.at)
            elif code in (0x10, 0x16):  # expression, val_expression
                number = reader.unsigned()
                row.registers[number] = _RegisterRule("expression" if code == 0x10 else "is expression", reader.at)
                reader.at = self._behind_block(reader.at)
            elif code == 0x11:  # offset_extended_sf
                number = reader.unsigned()
                row.registers[number] = _RegisterRule("offset", reader.signed() * common.data_factor)
            elif code in (0x14, 0x15):  # val_offset, val_offset_sf
                number = reader.unsigned()
                offset = reader.unsigned() if code == 0x14 else reader.signed()
                row.registers[number] = _RegisterRule("is", offset * common.data_factor)
            elif code == 0x2E:  # GNU_args_size
                reader.unsigned()
            # An instruction of unknown length cannot be skipped.
            elif code not in (0x00, 0x2D):  # nop; AARCH64_negate_ra_state: nothing signs here
                raise ValueError(f"call frame instruction {code:#x}")

    def _behind_block(self, at: int) -> int:
        reader = _Reader(self._memory, at)
        size = reader.unsigned()
        return reader.at + size

    def _evaluate(self, at: int, state: FrameState, cfa: int | None) -> int:
        """Return a DWARF expression, as linkers write them for stubs and compilers for realigned stacks."""
        end = self._behind_block(at)
        reader = _Reader(self._memory, at)
        if reader.unsigned() > _MOST_OF_EXPRESSION:
            raise ValueError("a call frame expression that is too long")
        # A rule for a register starts with the CFA on the stack, the rule for the CFA itself with nothing (DWARF 5,
        # 6.4.2.3).
        stack = [] if cfa is None else [cfa]
        while reader.at < end:
            code = reader.byte()
            if code == 0x06:  # deref
                stack.append(self._memory.word(stack.pop()))
            elif 0x30 <= code <= 0x4F:  # lit
                stack.append(code - 0x30)
            elif 0x70 <= code <= 0x8F:  # breg
                stack.append((state.register(code - 0x70) + reader.signed()) & _WORD)
            elif code in (0x08, 0x09, 0x0A, 0x0B):  # const
                stack.append(reader.take({0x08: "<B", 0x09: "<b", 0x0A: "<H", 0x0B: "<h"}[code]) & _WORD)
            elif code in (0x1A, 0x1C, 0x22, 0x24, 0x2A):  # and, minus, plus, shl, ge
                right, left = stack.pop(), stack.pop()
                stack.append(
                    {
                        0x1A: left & right,
                        0x1C: left - right,
                        0x22: left + right,
                        0x24: left << (right & 63),
                        0x2A: int(left >= right),
                    }[code]
                    & _WORD
                )
            elif code == 0x23:  # plus_uconst
                stack.append((stack.pop() + reader.unsigned()) & _WORD)
            else:
                raise ValueError(f"call frame operation {code:#x}")
        return stack[-1]

    # Handlers

    def landing(self, function: FrameEntry, pc: int) -> Landing | None:
        """Return what the function does with an exception out of the call that returns to ``pc``; None for nothing."""
        place = function.data, pc
        if place not in self._landings:
            self._landings[place] = self._read_landing(function, pc)
        return self._landings[place]

    def _read_landing(self, function: FrameEntry, pc: int) -> Landing | None:
        if not function.data:
            return None
        # Header, call sites, actions, and behind them the types, which are counted backwards from their end.
        reader = _Reader(self._memory, function.data)
        encoding = reader.byte()
        base = function.start if encoding == _ABSENT else reader.encoded(encoding, self._header)
        type_encoding = reader.byte()
        types = 0
        if type_encoding != _ABSENT:
            types = reader.unsigned()
            types += reader.at
        call_encoding = reader.byte()
        actions = reader.unsigned()
        actions += reader.at
        # Call sites are sorted, so the first one behind the call ends the search. Without an entry, ``std::terminate``
        # is called (libsupc++, eh_personality.cc): that is how compilers write ``noexcept``.
        while reader.at < actions:
            self._step()
            start, size, pad = (reader.encoded(call_encoding & 0x0F) for _ in range(3))
            action = reader.unsigned()
            if function.start + start <= pc - 1 < function.start + start + size:
                if not pad:
                    return None
                return Landing(
                    base + pad,
                    tuple(self._type_filters(actions, action)) if action else (0,),
                    lambda number: self._type(types, type_encoding, number),
                    lambda number: tuple(self._specification(types, type_encoding, number)),
                )
            if pc - 1 < function.start + start:
                break
        return Landing(0, (), lambda _: 0, lambda _: (), terminates=True)

    def _type_filters(self, actions: int, action: int) -> Iterator[int]:
        at = actions + action - 1
        for _ in range(_MOST_ACTIONS):
            reader = _Reader(self._memory, at)
            yield reader.signed()
            # The displacement counts from its own field.
            here = reader.at
            following = reader.signed()
            if not following:
                return
            at = here + following

    def _type(self, types: int, encoding: int, number: int) -> int:
        """Return the type that a handler catches; 0 for all."""
        # Type 1 is the entry right before the end of the table, type 2 the one before that.
        size = 8 if encoding & 0x0F in (0x00, 0x04, 0x0C) else 2 if encoding & 0x0F in (0x02, 0x0A) else 4
        return _Reader(self._memory, types - number * size).encoded(encoding, self._header)

    def _specification(self, types: int, encoding: int, number: int) -> Iterator[int]:
        """Yield the types of an exception specification."""
        # The lists lie behind the table: action -1 is the one at its end (libsupc++, eh_personality.cc).
        reader = _Reader(self._memory, types + number)
        for _ in range(_MOST_ACTIONS):
            index = reader.unsigned()
            if not index:
                return
            yield self._type(types, encoding, index)
