"""Executes the instructions of the x87: icicle, which does not know numbers of 80 bits, gets all of them wrong.

They compute what is a ``long double`` on x86-64. A number is a fraction, or a float where it is infinite or none;
results have 64 digits. Zero has no sign, exceptions are masked and not noted, and the unit always computes with full
precision (Intel SDM 1, chapter 8).
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeAlias

from abiscan.emulation.arch.data_flow import decode_x86_64
from abiscan.emulation.arch.memory import Memory
from abiscan.emulation.processor import Processor

Number: TypeAlias = "Fraction | float"

_DIGITS, _BIAS, _NO_NUMBER = 64, 16383, 0x7FFF
_WORD: Final = 0xFFFF_FFFF_FFFF_FFFF
_CONTROL: Final = 0x37F  # at first: all exceptions are masked, results are rounded to the nearest
_ROUNDING: Final[tuple[Callable[[Fraction], int], ...]] = (round, math.floor, math.ceil, math.trunc)
_CONSTANTS: Final[dict[int, Fraction]] = {
    0xE8: Fraction(1),
    0xE9: Fraction(math.log2(10)),
    0xEA: Fraction(0xB8AA3B295C17F0BC, 1 << 63),
    0xEB: Fraction(0xC90FDAA22168C235, 1 << 62),
    0xEC: Fraction(0x9A209A84FBCFF799, 1 << 65),
    0xED: Fraction(0xB17217F7D1CF79AC, 1 << 64),
    0xEE: Fraction(0),
}
_CHS, _ABS, _SQRT, _RNDINT = 0xE0, 0xE1, 0xFA, 0xFC
_COMPARE, _COMPARE_POP = 2, 3
_REAL: Final = {0xD8: "<f", 0xDC: "<d"}  # operands of arithmetic in memory, by the first byte
_INTEGER: Final = {0xDA: 4, 0xDE: 2}
_LOADS: Final = {0xD9: "<f", 0xDD: "<d"}
_INTEGERS: Final = {0xDB: 4, 0xDF: 2, 0xDD: 8}
_LESS, _EQUAL, _UNORDERED = 0x100, 0x4000, 0x4500  # in the status: C0, C3, all three


class Unit:
    """The registers of one x87: ``stack`` has what is in them, the top last."""

    def __init__(self) -> None:
        self.stack: list[Number] = []
        self._control = _CONTROL
        self._status = 0

    def push(self, value: float) -> None:
        """Put a number on top."""
        self.stack.append(_real(value))

    def execute(self, vm: Processor, memory: Memory, code: bytes) -> str | None:
        """Execute the first instruction of ``code``; its text if it is not known."""
        flow = decode_x86_64(vm.pc, code)
        at = 1 if 0x40 <= code[0] <= 0x4F else 0
        first, second = code[at], code[at + 1]
        if flow is None:
            return code[:4].hex()
        try:
            # The second byte is ModRM: operands in memory below C0, in registers from there on (SDM 2D, appendix A,
            # table A-7 on).
            if second >= 0xC0:
                done = self._on_registers(vm, first, second)
            else:
                (access,) = flow.accesses
                place = access.offset + sum(int(vm.reg_read(name)) * factor for name, factor in access.registers)
                done = self._on_memory(memory, first, second >> 3 & 7, place & _WORD)
        except (IndexError, ValueError):  # the stack is empty, there is not one operand
            done = False
        if not done:
            return f"x87 {first:02x} {second:02x}"
        vm.pc = flow.after
        vm.icount += 1
        return None

    # Operands in memory

    def _on_memory(self, memory: Memory, first: int, kind: int, place: int) -> bool:
        if first in _REAL:
            form = _REAL[first]
            return self._compute(kind, _real(struct.unpack(form, memory.read(place, struct.calcsize(form)))[0]))
        if first in _INTEGER:
            return self._compute(kind, _integer(memory.read(place, _INTEGER[first])))
        if kind == 0:
            self.stack.append(self._loaded(memory, first, place))
        elif kind == 5 and first in (0xDB, 0xDF):
            long = first == 0xDB
            self.stack.append(unpacked(memory.read(place, 10)) if long else _integer(memory.read(place, 8)))
        elif kind == 5 and first == 0xD9:
            (self._control,) = struct.unpack("<H", memory.read(place, 2))
        elif kind == 7 and first == 0xDB:
            memory.write(place, packed(self.stack[-1]))
            self.stack.pop()
        elif kind == 7 and first in (0xD9, 0xDD):
            memory.write(place, struct.pack("<H", self._control if first == 0xD9 else self._status))
        else:
            return self._store(memory, first, kind, place)
        return True

    def _loaded(self, memory: Memory, first: int, place: int) -> Number:
        if first in _LOADS:
            form = _LOADS[first]
            return _real(struct.unpack(form, memory.read(place, struct.calcsize(form)))[0])
        return _integer(memory.read(place, _INTEGERS[first]))

    def _store(self, memory: Memory, first: int, kind: int, place: int) -> bool:
        top = self.stack[-1]
        if first in _LOADS and kind in (2, 3):
            memory.write(place, _as_real(top, _LOADS[first]))
        elif first in _INTEGERS and (kind in (1, 2, 3) if first != 0xDD else kind == 1):
            self._store_integer(memory, place, _INTEGERS[first], top, truncated=kind == 1)
        elif (first, kind) == (0xDF, 7):
            self._store_integer(memory, place, 8, top, truncated=False)
        else:
            return False
        if kind != 2:
            self.stack.pop()
        return True

    def _store_integer(self, memory: Memory, place: int, size: int, number: Number, *, truncated: bool) -> None:
        limit = 1 << (8 * size - 1)
        rounded = -limit
        if isinstance(number, Fraction):
            rounded = math.trunc(number) if truncated else self._rounded(number)
        if not -limit <= rounded < limit:
            rounded = -limit  # the integer that is none
        memory.write(place, rounded.to_bytes(size, "little", signed=True))

    def _rounded(self, number: Fraction) -> int:
        return _ROUNDING[self._control >> 10 & 3](number)

    # Operands in registers

    def _on_registers(self, vm: Processor, first: int, second: int) -> bool:
        stack, kind, index = self.stack, second >> 3 & 7, -1 - (second & 7)
        if first == 0xD8:
            return self._compute(kind, stack[index])
        if first in (0xDC, 0xDE) and kind not in (_COMPARE, _COMPARE_POP):
            # E0+i is FSUBR, which takes the other from the top; E8+i is FSUB (SDM 2A). So for divisions.
            stack[index] = _value(kind, stack[-1], stack[index])
            if first == 0xDE:
                stack.pop()
        elif (first, second) == (0xDE, 0xD9) or (first, second) == (0xDA, 0xE9):
            self._status = _order(stack[-1], stack[-2])
            del stack[-2:]
        elif first == 0xD9:
            return self._on_top(kind, second, index)
        elif first == 0xDD and kind in (2, 3, 4, 5):
            if kind < 4:
                stack[index] = stack[-1]
            else:
                self._status = _order(stack[-1], stack[index])
            if kind in (3, 5):
                stack.pop()
        else:
            return self._with_flags(vm, first, second)
        return True

    def _with_flags(self, vm: Processor, first: int, second: int) -> bool:
        """Execute an instruction that sets or reads flags or registers of the processor; False for any other.

        :param first: the first opcode byte
        :param second: the second one
        """
        stack, kind, index = self.stack, second >> 3 & 7, -1 - (second & 7)
        if first in (0xDB, 0xDF) and kind in (5, 6):
            order = _order(stack[-1], stack[index])
            flags = {"CF": _LESS, "PF": _UNORDERED ^ _LESS ^ _EQUAL, "ZF": _EQUAL}
            for flag, bit in flags.items():
                vm.reg_write(flag, int(bool(order & bit)))
            if first == 0xDF:
                stack.pop()
        elif first in (0xDA, 0xDB) and kind < 4:
            if self._holds(vm, kind) == (first == 0xDA):
                stack[-1] = stack[index]
        elif (first, second) == (0xDF, 0xE0):
            vm.reg_write("RAX", int(vm.reg_read("RAX")) & ~0xFFFF | self._status)
        else:
            return False
        return True

    @staticmethod
    def _holds(vm: Processor, kind: int) -> bool:
        """Whether the condition of a move holds: below, equal, either, unordered."""
        names = (("CF",), ("ZF",), ("CF", "ZF"), ("PF",))[kind]
        return any(vm.reg_read(name) for name in names)

    def _on_top(self, kind: int, second: int, index: int) -> bool:
        stack = self.stack
        top = stack[-1] if stack else Fraction(0)
        if kind == 0:
            stack.append(stack[index])
        elif kind == 1:
            exchanged = stack[index]
            stack[index] = top
            stack[-1] = exchanged
        elif second in _CONSTANTS:
            stack.append(_CONSTANTS[second])
        elif second == _CHS:
            stack[-1] = -top
        elif second == _ABS:
            stack[-1] = top if top >= 0 else -top
        elif second == _SQRT:
            stack[-1] = _root(top)
        elif second == _RNDINT:
            stack[-1] = Fraction(self._rounded(top)) if isinstance(top, Fraction) else top
        else:
            return False
        return True

    def _compute(self, kind: int, operand: Number) -> bool:
        stack = self.stack
        if kind in (_COMPARE, _COMPARE_POP):
            self._status = _order(stack[-1], operand)
            if kind == _COMPARE_POP:
                stack.pop()
        else:
            stack[-1] = _value(kind, stack[-1], operand)
        return True


# Numbers


_OPERATIONS: Final[dict[int, Callable[[Number, Number], Number]]] = {
    0: operator.add,
    1: operator.mul,
    4: operator.sub,
    5: lambda first, second: second - first,
    6: operator.truediv,
    7: lambda first, second: second / first,
}


def _value(kind: int, first: Number, second: Number) -> Number:
    """Compute an operation on the top of the stack and another number."""
    if isinstance(first, Fraction) and isinstance(second, Fraction):
        divisor = {6: second, 7: first}.get(kind)
        if divisor == 0:
            dividend = first if kind == 6 else second
            return math.nan if not dividend else math.copysign(math.inf, dividend)
        return _shortened(_OPERATIONS[kind](first, second))
    try:
        return _real(_OPERATIONS[kind](float(first), float(second)))
    except (ZeroDivisionError, OverflowError):
        return math.nan


def _shortened(number: Number) -> Number:
    """Round to 64 digits, to the nearest."""
    if not isinstance(number, Fraction) or not number:
        return number
    shift = _DIGITS - _exponent(number) - 1
    scale = Fraction(2) ** shift
    return Fraction(round(number * scale)) / scale


def _exponent(number: Fraction) -> int:
    """Return the exponent of the largest power of two that is no larger than a number."""
    size = abs(number)
    # The lengths of numerator and denominator tell it but for one.
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if size >= Fraction(2) ** guess else guess - 1


def _root(number: Number) -> Number:
    if not isinstance(number, Fraction) or number < 0:
        return number if number == math.inf else math.nan
    # The root of an integer, scaled by a power of four whose root is a power of two, with more digits than are kept.
    scale = 4 ** max(_DIGITS + 2 - _exponent(number) // 2, 0) if number else 1
    return _shortened(Fraction(math.isqrt(int(number * scale)), math.isqrt(scale)))


def _real(value: Number) -> Number:
    return Fraction(value) if isinstance(value, Fraction) or math.isfinite(value) else value


def _integer(content: bytes) -> Fraction:
    return Fraction(int.from_bytes(content, "little", signed=True))


def _as_real(number: Number, form: str) -> bytes:
    try:
        return struct.pack(form, float(number))
    except OverflowError:
        return struct.pack(form, math.copysign(math.inf, number))


def _order(first: Number, second: Number) -> int:
    if (isinstance(first, float) and math.isnan(first)) or (isinstance(second, float) and math.isnan(second)):
        return _UNORDERED
    return _LESS if first < second else _EQUAL if first == second else 0


def packed(number: Number) -> bytes:
    """Return the ten bytes of a number: 64 digits, then an exponent with the sign."""
    if not isinstance(number, Fraction):
        sign = 0x8000 if math.copysign(1.0, number) < 0 else 0
        return struct.pack("<QH", 1 << 63 | (1 << 62 if math.isnan(number) else 0), sign | _NO_NUMBER)
    if not number:
        return bytes(10)
    exponent = _exponent(number)
    digits = int(abs(number) * Fraction(2) ** (_DIGITS - 1 - exponent))
    return struct.pack("<QH", digits, (0x8000 if number < 0 else 0) | exponent + _BIAS)


def unpacked(content: bytes) -> Number:
    """Return the number in ten bytes."""
    digits, exponent = struct.unpack("<QH", content)
    sign, exponent = (-1 if exponent >> 15 else 1), exponent & _NO_NUMBER
    if exponent == _NO_NUMBER:
        return math.nan if digits << 1 & _WORD else sign * math.inf
    power = exponent - _BIAS - _DIGITS + 1
    return Fraction(sign * digits * (1 << max(power, 0)), 1 << max(-power, 0))
