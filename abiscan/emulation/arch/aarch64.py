"""AArch64: the calling convention of AAPCS64 (section 6, "The Base Procedure Call Standard")."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import ClassVar, Final

from icicle import Icicle  # type: ignore[import-untyped]

from abiscan.emulation.arch.memory import Memory


class Aarch64:
    """The AArch64 processor under AAPCS64."""

    name: ClassVar[str] = "aarch64"
    arguments: ClassVar[tuple[str, ...]] = ("x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7")
    registers: ClassVar[tuple[str, ...]] = tuple(f"x{number}" for number in range(31))
    vectors: ClassVar[tuple[str, ...]] = tuple(f"q{number}" for number in range(32))
    result: ClassVar[str] = "x0"
    # Variant I of thread-local storage: the variables follow the thread pointer and the two words that it points to.
    thread_pointer: ClassVar[str] = "tpidr_el0"
    thread_pointer_offset: ClassVar[int] = 16
    hidden_result: ClassVar[str | None] = "x8"  # AAPCS64 section 6.9, "Result return"

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
        """Code of a function that takes memory from where the word at ``top`` points, and moves it on.

        The word before it tells its size. More than 1 MiB at once is left to the function at ``otherwise``.
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
        """The resolver of thread-local variables, which preserves all other registers; the rest are doubles."""
        return {"__tlsdesc_resolve": struct.pack("<2I", 0xF9400400, 0xD65F03C0)}  # ldr x0, [x0, #8]; ret

    def enter(self, vm: Icicle, return_to: int) -> None:
        """Set the link register, and keep the stack aligned."""
        vm.sp &= ~0xF
        vm.reg_write("x30", return_to)

    def leave(self, vm: Icicle) -> int:
        """The link register."""
        return int(vm.reg_read("x30"))

    def return_address(self, vm: Icicle) -> int:
        """The link register."""
        return int(vm.reg_read("x30"))

    def return_object(self, vm: Icicle, address: int) -> None:
        """Nothing: ``x8`` need not be preserved, and nothing else is returned (AAPCS64, section 6.9)."""

    def suspects(self, code: bytes) -> list[int]:
        """The loads from literal pools, for which the emulator reads zero."""
        words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) & ~3])
        return [4 * number for number, word in enumerate(words) if word & _LITERAL_MASK == _LITERAL]

    def step_over(self, vm: Icicle, memory: Memory, code: bytes) -> str | None:
        """Execute an instruction that the emulator lacks; return the encoding if it is unknown here as well."""
        (word,) = struct.unpack_from("<I", code)
        for mask, bits, execute in _INSTRUCTIONS:
            if word & mask == bits:
                execute(vm, memory, word)
                vm.pc += 4
                return None
        return f"instruction {word:08x}"


def _load_literal(vm: Icicle, memory: Memory, word: int) -> None:
    """LDR (literal): opc 31:30, V 26, imm19 23:5, Rt 4:0."""
    offset = (word >> 5 & 0x7FFFF) << 2
    address = vm.pc + offset - (offset >> 20 << 21)
    kind, number = word >> 30 | word >> 24 & 4, word & 31
    if kind not in _LITERAL_SIZES or (number == _ZERO_REGISTER and not kind & _VECTOR):
        return
    value = int.from_bytes(memory.read(address, _LITERAL_SIZES[kind]), "little", signed=kind == _SIGNED)
    if kind & _VECTOR:
        _set_vector(vm, memory, number, value)
    else:
        vm.reg_write(f"x{number}", value & _ALL_ONES)


def _move_float(vm: Icicle, memory: Memory, word: int) -> None:
    """FMOV (vector, immediate): Q 30, op 29, abc 18:16, defgh 9:5, Rd 4:0; the number as VFPExpandImm says."""
    sign, exponent, fraction = word >> 18 & 1, (word >> 16 & 3) << 1 | word >> 9 & 1, word >> 5 & 0xF
    # Three bits of an exponent from -3 to 4, the highest of them inverted.
    value = (-1.0 if sign else 1.0) * (16 + fraction) / 16 * 2.0 ** ((exponent ^ 4) - 3)
    element = struct.pack("<d" if word >> 29 & 1 else "<f", value)
    size = 16 if word >> 30 & 1 else 8
    _set_vector(vm, memory, word & 31, int.from_bytes(element * (size // len(element)), "little"))


def _convert(vm: Icicle, memory: Memory, word: int) -> None:
    """SCVTF, UCVTF (vector, integer), of one number: U 29, sz 22, Rn 9:5, Rd 4:0."""
    double = word >> 22 & 1
    size = 8 if double else 4
    number = vm.reg_read(f"{'d' if double else 's'}{word >> 5 & 31}").to_bytes(size, "little")
    value = float(int.from_bytes(number, "little", signed=not word >> 29 & 1))
    _set_vector(vm, memory, word & 31, int.from_bytes(struct.pack("<d" if double else "<f", value), "little"))


def _do_nothing(vm: Icicle, memory: Memory, word: int) -> None:
    """HINT: there is no other thread and no debugger to wait for."""


def _add_atomically(vm: Icicle, memory: Memory, word: int) -> None:
    """LDADD and the like, SWP, in any ordering: size 31:30, Rs 20:16, o3 and opc 15:12, Rn 9:5, Rt 4:0."""
    size = 1 << (word >> 30)
    base, source, target = word >> 5 & 31, word >> 16 & 31, word & 31
    address = vm.sp if base == _ZERO_REGISTER else vm.reg_read(f"x{base}")
    mask = (1 << 8 * size) - 1
    operand = 0 if source == _ZERO_REGISTER else vm.reg_read(f"x{source}") & mask
    before = int.from_bytes(memory.read(address, size), "little")
    memory.write(address, (_ATOMIC[word >> 12 & 0xF](before, operand, size) & mask).to_bytes(size, "little"))
    if target != _ZERO_REGISTER:
        vm.reg_write(f"x{target}", before)


def _swap_atomically(vm: Icicle, memory: Memory, word: int) -> None:
    """CAS: size 31:30, Rs 20:16 (what is expected, then what was there), Rn 9:5, Rt 4:0 (what is stored)."""
    size = 1 << (word >> 30)
    base, expected, source = word >> 5 & 31, word >> 16 & 31, word & 31
    address = vm.sp if base == _ZERO_REGISTER else vm.reg_read(f"x{base}")
    mask = (1 << 8 * size) - 1
    wanted, new = (
        0 if register == _ZERO_REGISTER else vm.reg_read(f"x{register}") & mask for register in (expected, source)
    )
    before = int.from_bytes(memory.read(address, size), "little")
    if before == wanted:
        memory.write(address, new.to_bytes(size, "little"))
    if expected != _ZERO_REGISTER:
        vm.reg_write(f"x{expected}", before)


def _signed(value: int, size: int) -> int:
    return value - (value >> (8 * size - 1) << 8 * size)


def _set_vector(vm: Icicle, memory: Memory, number: int, value: int) -> None:
    """Set a whole vector register. icicle accepts 64 bits from Python and clears the rest, which code then sets."""
    vm.reg_write(f"q{number}", value & _ALL_ONES)
    if value > _ALL_ONES:
        pc, kept = vm.pc, vm.reg_read("x16")
        vm.reg_write("x16", value >> 64)
        vm.pc = memory.helpers + 4 * number
        vm.step(1)
        vm.reg_write("x16", kept)
        vm.pc = pc


_LITERAL_MASK: Final = 0x3B00_0000
_LITERAL: Final = 0x1800_0000
_VECTOR: Final = 4
_SIGNED: Final = 2  # LDRSW
# By opc and V: LDR Wt, Xt, LDRSW Xt; LDR St, Dt, Qt. PRFM, the one left, is a hint.
_LITERAL_SIZES: Final = {0: 4, 1: 8, _SIGNED: 4, _VECTOR: 4, _VECTOR | 1: 8, _VECTOR | 2: 16}
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

# The instructions that the emulator lacks, by the bits that identify them (Arm ARM, C4.1.96 and C7.2).
_INSTRUCTIONS: Final[tuple[tuple[int, int, Callable[[Icicle, Memory, int], None]], ...]] = (
    (_LITERAL_MASK, _LITERAL, _load_literal),
    (0x9FF8_FC00, 0x0F00_F400, _move_float),
    (0xDFBF_FC00, 0x5E21_D800, _convert),
    (0xFFFF_F01F, 0xD503_201F, _do_nothing),
    (0x3F20_8C00, 0x3820_0000, _add_atomically),
    (0x3F20_FC00, 0x3820_8000, _add_atomically),
    (0x3FA0_7C00, 0x08A0_7C00, _swap_atomically),
)


def _load(register: int, value: int) -> list[int]:
    """``movz`` and three ``movk``; icicle reads zero for a load from a literal pool."""
    first, *rest = (value >> 16 * part & 0xFFFF for part in range(4))
    return [
        0xD2800000 | first << 5 | register,
        *(0xF2800000 | part << 21 | word << 5 | register for part, word in enumerate(rest, 1)),
    ]
