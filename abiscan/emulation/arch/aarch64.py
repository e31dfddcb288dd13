"""AArch64: the calling convention of AAPCS64 (section 6, "The Base Procedure Call Standard")."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from abiscan.binary.elf import Machine
from abiscan.cpu.instructions import AARCH64_TOPS, features_of
from abiscan.emulation.arch.memory import Memory
from abiscan.emulation.arch.values import VariableArguments
from abiscan.emulation.processor import Processor

if TYPE_CHECKING:
    from abiscan.emulation.arch.data_flow import DataFlow


_MOST_BEFORE_CALL: Final = 12  # instructions
_BRANCHES, _BRANCH = 0x1C00_0000, 0x1400_0000
_BRK: Final = 0xD420_0000
_SYSTEM: Final = 0xD5  # instructions like nop, in the same group
_SETS_X8: Final = (  # mask and bits of mov, add, sub, ldr (Arm ARM, C4.1)
    *((0xFFE0_FFFF, 0xAA00_03E8), (0xFF80_001F, 0x9100_0008), (0xFF80_001F, 0xD100_0008), (0xFFC0_001F, 0xF940_0008)),
)


class Aarch64:
    """The AArch64 processor under AAPCS64."""

    name: ClassVar[str] = "aarch64"
    arguments: ClassVar[tuple[str, ...]] = ("x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7")
    registers: ClassVar[tuple[str, ...]] = tuple(f"x{number}" for number in range(31))
    vectors: ClassVar[tuple[str, ...]] = tuple(f"q{number}" for number in range(32))
    result: ClassVar[str] = "x0"
    second_result: ClassVar[str] = "x1"
    dwarf: ClassVar[tuple[str, ...]] = (*registers, "sp")  # DWARF for the Arm 64-bit Architecture, section 4.1
    dwarf_stack_pointer: ClassVar[int] = 31
    kept: ClassVar[frozenset[str]] = frozenset(f"x{number}" for number in range(19, 30))
    number_registers: ClassVar[tuple[str, ...]] = tuple(f"q{number}" for number in range(8))
    landing: ClassVar[tuple[str, str]] = ("x0", "x1")
    kept_parts: ClassVar[frozenset[str]] = kept
    result_parts: ClassVar[tuple[str, ...]] = ("x0", "x1", "q0", "q1", "q2", "q3")
    argument_parts: ClassVar[tuple[str, ...]] = arguments
    # Variant I of thread-local storage: the variables follow the thread pointer and the two words that it points to.
    thread_pointer: ClassVar[str] = "tpidr_el0"
    thread_pointer_offset: ClassVar[int] = 16
    hidden_result: ClassVar[str | None] = "x8"  # AAPCS64 section 6.9, "Result return"
    link: ClassVar[str | None] = "x30"
    system_call: ClassVar[str] = "x8"
    exits: ClassVar[frozenset[int]] = frozenset((93, 94))
    has_x87: ClassVar[bool] = False
    pairs_numbers: ClassVar[bool] = False
    tells_features: ClassVar[bool] = True
    names_data: ClassVar[bool] = False

    # Relocation types, "ELF for the Arm 64-bit Architecture", section 5.7.11.
    absolute: ClassVar[int] = 257  # R_AARCH64_ABS64
    slots: ClassVar[tuple[int, ...]] = (1025, 1026)  # R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT
    stub_slot: ClassVar[int] = 1026
    relative: ClassVar[int] = 1027
    irelative: ClassVar[int] = 1032
    tls_module: ClassVar[int] = 1028
    tls_offset: ClassVar[int] = 1029
    tls_thread_offset: ClassVar[int] = 1030
    tls_descriptor: ClassVar[int] = 1031

    # mov v<number>.d[1], x16, for each vector register: see _set_vector.
    helpers: ClassVar[bytes] = struct.pack("<32I", *(0x4E18_1E00 | number for number in range(32)))
    return_zero: ClassVar[bytes] = struct.pack("<2I", 0xD2800000, 0xD65F03C0)  # mov x0, #0; ret

    def allocator(self, top: int, otherwise: int) -> bytes:
        """Return the code of a bump allocator whose heap pointer is the word at ``top``.

        The word before each block has its size. More than 1 MiB at once is left to the function at ``otherwise``.
        """
        code = (
            0xF144001F,  # cmp x0, #0x100, lsl #12
            0x540001A8,  # b.hi to the last part
            *_load(9, top),
            0xF940012A,  # ldr x10, [x9]
            0xF81F8140,  # stur x0, [x10, #-8]
            0x8B00014B,  # add x11, x10, x0
            0x91007D6B,  # add x11, x11, #31
            0x927CED6B,  # and x11, x11, #-16
            0xF900012B,  # str x11, [x9]
            0xAA0A03E0,  # mov x0, x10
            0xD65F03C0,  # ret
            *_load(16, otherwise),
            0xD61F0200,  # br x16
        )
        return struct.pack(f"<{len(code)}I", *code)

    def runtime(self, allocate: int, double_of: Callable[[str], int]) -> dict[str, bytes]:  # noqa: ARG002 - see Arch
        """Return the resolver of thread-local variables, which preserves all other registers; the rest are doubles."""
        return {"__tlsdesc_resolve": struct.pack("<2I", 0xF9400400, 0xD65F03C0)}  # ldr x0, [x0, #8]; ret

    def enter(self, vm: Processor, return_to: int) -> None:
        """Set the link register, and keep the stack aligned."""
        vm.sp &= ~0xF
        vm.reg_write("x30", return_to)

    def leave(self, vm: Processor) -> int:
        """Return the link register."""
        return int(vm.reg_read("x30"))

    def return_address(self, vm: Processor) -> int:
        """Return the link register."""
        return int(vm.reg_read("x30"))

    def stack_after_return(self, vm: Processor) -> int:
        """Return the stack pointer: the return address is in a register."""
        return int(vm.sp)

    def hand_result(self, vm: Processor, result: int, arguments: tuple[int, ...]) -> tuple[int, ...]:
        """Put the address into ``x8``."""
        vm.reg_write("x8", result)
        return arguments

    def sets_result(self, read: Callable[[int, int], bytes], return_address: int) -> bool:
        """Whether code sets ``x8``: a compiler does close to the call that it is for, with no branch between them.

        Otherwise, the register may have what was there before.
        """
        code = read(return_address - 4 * (_MOST_BEFORE_CALL + 1), 4 * _MOST_BEFORE_CALL)
        for (instruction,) in reversed(list(struct.iter_unpack("<I", code))):
            if instruction & _BRANCHES == _BRANCH and instruction >> 24 != _SYSTEM:
                return False
            if any(instruction & mask == bits for mask, bits in _SETS_X8):
                return True
        return False

    def variable_arguments(self, words: Callable[[int, int], tuple[int, ...]], address: int) -> VariableArguments:
        """Return how far it is: both kinds of saved registers end where the offsets count from, which are negative.

        AAPCS64, appendix B.
        """
        overflow, saved, number_saved, at = words(address, 4)
        offset, number_offset = struct.unpack("<2i", at.to_bytes(8, "little"))
        return VariableArguments(
            overflow=overflow,
            saved=saved,
            offset=offset,
            end=0,
            number_saved=number_saved,
            number_offset=number_offset,
            number_end=0,
        )

    def return_object(self, vm: Processor, address: int) -> None:
        """Do nothing: ``x8`` need not be preserved, and nothing else is returned (AAPCS64, section 6.9)."""

    def decode(self, address: int, code: bytes) -> DataFlow | None:
        """Return what the first instruction of ``code`` reads and writes, which is at ``address``; None if it
        is none.
        """
        from abiscan.emulation.arch.data_flow import decode_aarch64

        return decode_aarch64(address, code)

    def data_of(self, address: int, code: bytes, most: int) -> tuple[list[tuple[int, int]], int, int]:  # noqa: ARG002
        """Return nothing: an address takes two instructions here, which are not put together."""
        return [], 0, 0

    def number_part(self, register: str) -> str:
        """Return the low eight bytes of one of ``number_registers``, as the emulator calls them."""
        return f"d{register[1:]}"

    def parts_of(self, register: str) -> tuple[str, ...]:
        """Return the register itself."""
        return (register,)

    def suspects(self, code: bytes) -> list[int]:
        """Find the instructions that icicle does wrongly: see ``_WRONG``."""
        return [
            4 * number
            for number, top in enumerate(code[3::4])
            if top in _WRONG_TOPS and _is_wrong(*struct.unpack_from("<I", code, 4 * number))
        ]

    def is_stepped_over(self, code: bytes) -> bool:
        """Whether icicle does it wrongly."""
        return self.suspects(code[:4]) == [0]

    def extensions(self, code: bytes) -> list[int]:
        """Return what is newer than ARMv8.0-A."""
        return [
            4 * number
            for number, top in enumerate(code[3::4])
            if top in AARCH64_TOPS and features_of(Machine.AARCH64, code[4 * number : 4 * number + 4])
        ]

    def signal_of(self, code: bytes) -> int | None:
        """Return the signal of ``brk`` and ``udf``."""
        word = int.from_bytes(code[:4], "little")
        if word & 0xFFE0_001F == _BRK:
            return 5  # SIGTRAP
        return 4 if word <= 0xFFFF else None  # SIGILL

    def step_over(self, vm: Processor, memory: Memory, code: bytes) -> str | None:
        """Execute an instruction that the emulator lacks or does wrongly; return its encoding if it is unknown here."""
        (word,) = struct.unpack_from("<I", code)
        for mask, bits, execute in (*_WRONG, *_MISSING):
            if word & mask == bits:
                # Who did not know it has counted it already; who was kept from it has not.
                counted = vm.icount + _is_wrong(word)
                execute(vm, memory, word)
                vm.icount = counted
                vm.pc += 4
                return None
        return f"instruction {word:08x}"


def _is_wrong(word: int) -> bool:
    return any(word & mask == bits for mask, bits, _ in _WRONG)


def _load_literal(vm: Processor, memory: Memory, word: int) -> None:
    """Execute LDR (literal): opc 31:30, V 26, imm19 23:5, Rt 4:0."""
    offset = (word >> 5 & 0x7FFFF) << 2
    address = vm.pc + offset - (offset >> 20 << 21)
    kind, number = word & _LITERAL_KIND, word & 31
    # A hint, or a load whose result is dropped.
    if kind not in _LITERAL_SIZES or (number == _ZERO_REGISTER and not kind & _VECTOR):
        return
    value = int.from_bytes(memory.read(address, _LITERAL_SIZES[kind]), "little", signed=kind == _SIGNED)
    if kind & _VECTOR:
        _set_vector(vm, memory, number, value)
    else:
        vm.reg_write(f"x{number}", value & _ALL_ONES)


def _move_float(vm: Processor, memory: Memory, word: int) -> None:
    """Execute FMOV (vector, immediate): Q 30, op 29, abc 18:16, defgh 9:5, Rd 4:0; the number as VFPExpandImm says."""
    sign, exponent, fraction = word >> 18 & 1, (word >> 16 & 3) << 1 | word >> 9 & 1, word >> 5 & 0xF
    # Three bits of an exponent from -3 to 4, the highest of them inverted.
    value = (-1.0 if sign else 1.0) * (16 + fraction) / 16 * 2.0 ** ((exponent ^ 4) - 3)
    half = struct.pack("<d", value) if word >> 29 & 1 else struct.pack("<ff", value, value)
    _set_vector(vm, memory, word & 31, int.from_bytes(half * (1 + (word >> 30 & 1)), "little"))


def _convert(vm: Processor, memory: Memory, word: int) -> None:
    """Execute UCVTF (vector, integer), of one number: sz 22, Rn 9:5, Rd 4:0."""
    register, code = ("d", "<d") if word >> 22 & 1 else ("s", "<f")
    value = float(vm.reg_read(f"{register}{word >> 5 & 31}"))
    _set_vector(vm, memory, word & 31, int.from_bytes(struct.pack(code, value), "little"))


def _do_nothing(vm: Processor, memory: Memory, word: int) -> None:
    """Execute HINT and the like: there is no other thread and no debugger to wait for."""


def _add_atomically(vm: Processor, memory: Memory, word: int) -> None:
    """Execute LDADD and the like, or SWP, in any ordering: size 31:30, Rs 20:16, o3, opc 15:12, Rn 9:5, Rt 4:0."""
    size, address = _accessed(vm, word)
    operand = _low(vm, word >> 16 & 31, size)
    before = int.from_bytes(memory.read(address, size), "little")
    memory.write(address, _pack(_ATOMIC[word >> 12 & 0xF](before, operand, size), size))
    _set(vm, word & 31, before)


def _swap_atomically(vm: Processor, memory: Memory, word: int) -> None:
    """Execute CAS: size 31:30, Rs 20:16 (what is expected, then what was there), Rn 9:5, Rt 4:0 (what is stored)."""
    size, address = _accessed(vm, word)
    before = int.from_bytes(memory.read(address, size), "little")
    if before == _low(vm, word >> 16 & 31, size):
        memory.write(address, _pack(_low(vm, word & 31, size), size))
    _set(vm, word >> 16 & 31, before)


def _load_in_order(vm: Processor, memory: Memory, word: int) -> None:
    """Execute LDAR or LDAPR: size 31:30, Rn 9:5, Rt 4:0."""
    size, address = _accessed(vm, word)
    _set(vm, word & 31, int.from_bytes(memory.read(address, size), "little"))


def _store_in_order(vm: Processor, memory: Memory, word: int) -> None:
    """Execute STLR: size 31:30, Rn 9:5, Rt 4:0."""
    size, address = _accessed(vm, word)
    memory.write(address, _pack(_low(vm, word & 31, size), size))


def _accessed(vm: Processor, word: int) -> tuple[int, int]:
    """Return how many bytes are read or written, and where."""
    base = word >> 5 & 31
    return 1 << (word >> 30), vm.sp if base == _ZERO_REGISTER else vm.reg_read(f"x{base}")


def _low(vm: Processor, register: int, size: int) -> int:
    """Return so many low bytes of a register."""
    return 0 if register == _ZERO_REGISTER else vm.reg_read(f"x{register}") % (1 << 8 * size)


def _set(vm: Processor, register: int, value: int) -> None:
    if register != _ZERO_REGISTER:
        vm.reg_write(f"x{register}", value)


def _pack(value: int, size: int) -> bytes:
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def _signed(value: int, size: int) -> int:
    return value - (value >> (8 * size - 1) << 8 * size)


def _set_vector(vm: Processor, memory: Memory, number: int, value: int) -> None:
    """Set a whole vector register. icicle accepts 64 bits from Python and clears the rest, which code then sets."""
    vm.reg_write(f"q{number}", value & _ALL_ONES)
    if value > _ALL_ONES:
        pc, kept = vm.pc, vm.reg_read("x16")
        vm.reg_write("x16", value >> 64)
        vm.pc = memory.helpers + 4 * number
        vm.step()
        vm.reg_write("x16", kept)
        vm.pc = pc


_SECOND, _SIGNED, _VECTOR = 1 << 30, 2 << 30, 1 << 26
_LITERAL_KIND: Final = 3 << 30 | _VECTOR
# By opc and V: LDR Wt, Xt, LDRSW Xt; LDR St, Dt, Qt. PRFM, the one left, is a hint.
_LITERAL_SIZES: Final = {0: 4, _SECOND: 8, _SIGNED: 4, _VECTOR: 4, _VECTOR | _SECOND: 8, _VECTOR | _SIGNED: 16}
_ZERO_REGISTER: Final = 31
_ALL_ONES: Final = (1 << 64) - 1

# By o3 and opc; the functions of (what is in memory, the operand, how many bytes they have).
_ATOMIC: Final[dict[int, Callable[[int, int, int], int]]] = {
    0: lambda before, operand, _: before + operand,
    1: lambda before, operand, _: before & ~operand,
    2: lambda before, operand, _: before ^ operand,
    3: lambda before, operand, _: before | operand,
    4: lambda before, operand, size: max(before, operand, key=lambda value: _signed(value, size)),
    5: lambda before, operand, size: min(before, operand, key=lambda value: _signed(value, size)),
    6: lambda before, operand, _: max(before, operand),
    7: lambda before, operand, _: min(before, operand),
    8: lambda _, operand, __: operand,
}

_Instructions: TypeAlias = tuple[tuple[int, int, Callable[[Processor, Memory, int], None]], ...]
# Instructions by the bits that identify them (Arm ARM, C4.1.96 and C7.2). First those that the emulator does wrongly:
# it reads 32 bits of a literal, does twice what releases, compares more than bytes and halves and stores them as words,
# and loads too many or too few bytes.
_WRONG: Final[_Instructions] = (
    (0x3B00_0000, 0x1800_0000, _load_literal),
    (0x3F20_8C00, 0x3820_0000, _add_atomically),
    (0x3F20_FC00, 0x3820_8000, _add_atomically),
    (0x3FA0_7C00, 0x08A0_7C00, _swap_atomically),
    (0xFFFF_FC00, 0x88DF_FC00, _load_in_order),  # LDAR Wt
    (0x3FFF_FC00, 0x38BF_C000, _load_in_order),  # LDAPR
    (0xBFFF_FC00, 0x089F_FC00, _store_in_order),  # STLRB, STLRH
)
_WRONG_TOPS: Final = frozenset(top for top in range(256) for mask, bits, _ in _WRONG if top & mask >> 24 == bits >> 24)
_MISSING: Final[_Instructions] = (
    (0x9FF8_FC00, 0x0F00_F400, _move_float),
    (0xFFBF_FC00, 0x7E21_D800, _convert),
    (0xFFFF_F01F, 0xD503_201F, _do_nothing),
    (0xFFFF_F0FF, 0xD503_305F, _do_nothing),  # CLREX
    (0xFFFF_F0FF, 0xD503_309F, _do_nothing),  # DSB
)


def _load(register: int, value: int) -> list[int]:
    """Return ``movz`` and three ``movk``, which icicle executes by itself."""
    first, *remainder = (value >> 16 * part & 0xFFFF for part in range(4))
    return [
        0xD2800000 | first << 5 | register,
        *(0xF2800000 | part << 21 | word << 5 | register for part, word in enumerate(remainder, 1)),
    ]
