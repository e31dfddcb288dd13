"""Instructions of AArch64 that icicle lacks, or does wrongly. Encodings: Arm ARM, C6.2 and C7.2."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping
from types import MappingProxyType

import capstone  # type: ignore[import-untyped]
import pytest

from abiscan.emulation.arch.aarch64 import Aarch64
from abiscan.emulation.emulator import IMPORT_BASE, IMPORT_SLOT, Emulator, Stop

CODE = 0x10_0000
LITERAL = 0xFEDC_BA98_8765_4321
RET = 0xD65F03C0


_DECODER = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)


def disassembled(word: int, at: int = 0) -> str:
    """An instruction as capstone prints it."""
    (instruction,) = _DECODER.disasm_lite(struct.pack("<I", word), at)
    return f"{instruction[2]} {instruction[3]}".strip()


def registers(*words: int, literals: Mapping[int, bytes] = MappingProxyType({}), **values: int) -> dict[str, int]:
    """The registers after code that begins with these values, with bytes at some offsets from its start."""
    machine = Emulator(Aarch64(), pager=lambda _: False, call_out=lambda _: None)
    with contextlib.closing(machine):
        pages = {0: bytearray(0x1000)}
        pages[0][: 4 * len(words)] = struct.pack(f"<{len(words)}I", *words)
        for offset, content in literals.items():
            page = pages.setdefault(offset & -0x1000, bytearray(0x1000))
            page[offset & 0xFFF : (offset & 0xFFF) + len(content)] = content
        for offset, page in sorted(pages.items()):
            machine.map_page(CODE + offset, bytes(page), writable=False, executable=True)
        for register, value in values.items():
            machine.vm.reg_write(register, value)
        machine.start(CODE, (), 1_000)
        names = [f"{kind}{number}" for kind in "xd" for number in range(31)]
        return {name: int(machine.vm.reg_read(name)) for name in (*names, "d31", "sp")}


def run(*words: int, literal_at: int = 0x100, literal: bytes = struct.pack("<Q", LITERAL)) -> int:
    """What code gives back in x0; the literal lies at this offset from its start."""
    page = bytearray(0x1000)
    struct.pack_into(f"<{len(words)}I", page, 0x80, *words)
    page[0x80 + literal_at : 0x80 + literal_at + len(literal)] = literal
    with contextlib.closing(Emulator(Aarch64(), pager=lambda _: False, call_out=lambda _: None)) as machine:
        machine.map_page(CODE, bytes(page), writable=False, executable=True)
        return machine.start(CODE + 0x80, (), 1_000)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((0x58000800, RET), LITERAL),  # ldr x0, .+0x100
        ((0x18000800, RET), LITERAL & 0xFFFF_FFFF),  # ldr w0, .+0x100
        ((0x98000800, RET), 0xFFFF_FFFF_8765_4321),  # ldrsw x0, .+0x100
        ((0x5C000800, 0x9E660000, RET), LITERAL),  # ldr d0, .+0x100; fmov x0, d0
        ((0x1C000800, 0x9E660000, RET), LITERAL & 0xFFFF_FFFF),  # ldr s0, .+0x100; fmov x0, d0
        ((0xD2800020, 0x5800080F + 0x10, RET), 1),  # mov x0, #1; ldr xzr, .+0x100
        ((0xD2800020, 0xD8000800, RET), 1),  # mov x0, #1; prfm pldl1keep, .+0x100
    ],
    ids=["x", "w", "signed word", "d", "s", "zero register", "prefetch"],
)
def test_a_literal_is_loaded(words: tuple[int, ...], expected: int) -> None:
    assert run(*words) == expected


def test_a_call_from_a_double_leaves_the_link_register() -> None:
    """AAPCS64, 6.1.1: a function that calls another one has to keep where it returns to; a double has, too."""
    inner = CODE + 0x100
    slots = []

    def call_out(slot: int) -> None:
        slots.append(slot)
        vm = machine.vm
        vm.reg_write("x0", machine.call(inner, 7))
        vm.pc = machine.arch.leave(vm)

    machine = Emulator(Aarch64(), pager=lambda _: False, call_out=call_out)
    # mov x9, x30; blr x0; add x0, x0, #1; mov x30, x9; ret; at 0x100: add x0, x0, #2; ret
    code = struct.pack("<5I", 0xAA1E03E9, 0xD63F0000, 0x91000400, 0xAA0903FE, RET)
    page = code.ljust(0x100, b"\0") + struct.pack("<2I", 0x91000800, RET)
    machine.map_page(CODE, page.ljust(0x1000, b"\0"), writable=False, executable=True)
    assert machine.start(CODE, (IMPORT_BASE + IMPORT_SLOT,), 100) == 7 + 2 + 1
    assert slots == [IMPORT_BASE + IMPORT_SLOT]
    machine.close()


def test_a_literal_before_the_code() -> None:
    assert run(0x58FFFE00, RET, literal_at=-0x40) == LITERAL  # ldr x0, .-0x40


@pytest.mark.parametrize("offset", [8, 0xFFC, 0xF_FFFC, -4, -0x8000, -0x10_0000])
def test_how_far_away_a_literal_may_be(offset: int) -> None:
    word = 0x18000005 | (offset >> 2 & 0x7FFFF) << 5
    assert disassembled(word, CODE) == f"ldr w5, #{CODE + offset:#x}".replace("0x0", "0")
    assert registers(word, RET, literals={offset: b"\x21\x43\x65\x87"})["x5"] == 0x8765_4321


@pytest.mark.parametrize(
    ("word", "text", "register", "expected"),
    [
        (0x5800081D, "ldr x29, #0x100100", "x29", LITERAL),
        (0x18000811, "ldr w17, #0x100100", "x17", LITERAL & 0xFFFF_FFFF),
        (0x98000809, "ldrsw x9, #0x100100", "x9", 0xFFFF_FFFF_8765_4321),
        (0x5C00081F, "ldr d31, #0x100100", "d31", LITERAL),
        (0x1C000810, "ldr s16, #0x100100", "d16", LITERAL & 0xFFFF_FFFF),
        (0x9C00081F, "ldr q31, #0x100100", "d31", LITERAL),
    ],
)
def test_the_register_of_a_literal(word: int, text: str, register: str, expected: int) -> None:
    assert disassembled(word, CODE) == text
    assert registers(word, RET, literals={0x100: LITERAL.to_bytes(8, "little")})[register] == expected


@pytest.mark.parametrize("pages", [(0, 1), (1, 0)], ids=["up", "down"])
def test_a_literal_is_loaded_whichever_page_is_known_first(pages: tuple[int, int]) -> None:
    content = bytearray(0x1000)
    struct.pack_into("<2I", content, 0x80, 0x58000800, RET)  # ldr x0, .+0x100
    struct.pack_into("<Q", content, 0x180, LITERAL)
    for place in pages:
        with contextlib.closing(Emulator(Aarch64(), pager=lambda _: False, call_out=lambda _: None)) as machine:
            for page in pages:
                machine.map_page(CODE + 0x1000 * page, bytes(content), writable=False, executable=True)
            assert machine.start(CODE + 0x1000 * place + 0x80, (), 10) == LITERAL


def test_a_quadword_fills_the_register() -> None:
    code = (0x9C000800, 0x4E183C00, RET)  # ldr q0, .+0x100; mov x0, v0.d[1]
    page = struct.pack("<QQ", 1, LITERAL)
    assert run(*code, literal=page) == LITERAL


# What each leaves in the first and in the second eight bytes of v1, as GNU as encodes it.
@pytest.mark.parametrize(
    ("words", "low", "high"),
    [
        ((0x4F03F601,), 0x3F80_0000_3F80_0000, 0x3F80_0000_3F80_0000),  # fmov v1.4s, #1.0
        ((0x6F03F601,), 0x3FF0_0000_0000_0000, 0x3FF0_0000_0000_0000),  # fmov v1.2d, #1.0
        ((0x0F06F681,), 0xBEA0_0000_BEA0_0000, 0),  # fmov v1.2s, #-0.3125
        ((0x6F00F401,), 0x4000_0000_0000_0000, 0x4000_0000_0000_0000),  # fmov v1.2d, #2.0
        ((0x92800040, 0x9E670000, 0x7E61D801), 0x43F0_0000_0000_0000, 0),  # mov x0, #-3; fmov d0, x0; ucvtf d1, d0
        ((0x92800040, 0x9E670000, 0x5E61D801), 0xC008_0000_0000_0000, 0),  # ...; scvtf d1, d0
        ((0x92800040, 0x9E670000, 0x5E21D801), 0xC040_0000, 0),  # ...; scvtf s1, s0
    ],
    ids=["fmov 4s", "fmov 2d", "fmov 2s", "fmov 2.0", "ucvtf d", "scvtf d", "scvtf s"],
)
def test_vector_instructions(words: tuple[int, ...], low: int, high: int) -> None:
    assert run(*words, 0x9E660020, RET) == low  # fmov x0, d1
    assert run(*words, 0x4E183C20, RET) == high  # mov x0, v1.d[1]


@pytest.mark.parametrize(
    ("start", "form", "high"),
    [(0x0F00F400, "2s", False), (0x4F00F400, "4s", True), (0x6F00F400, "2d", True)],
    ids=["2s", "4s", "2d"],
)
def test_every_number_that_an_instruction_can_hold(start: int, form: str, high: bool) -> None:
    """What the number is, capstone says."""
    for number in range(256):
        target = number % 32
        word = start | number >> 5 << 16 | (number & 31) << 5 | target
        name, value = disassembled(word).split(", #")
        assert name == f"fmov v{target}.{form}"
        expected = struct.pack("<d", float(value)) if form == "2d" else struct.pack("<2f", float(value), float(value))
        found = registers(word, 0x4E183C00 | target << 5, RET)  # mov x0, v<target>.d[1]
        assert found[f"d{target}"] == int.from_bytes(expected, "little")
        assert found["x0"] == (int.from_bytes(expected, "little") if high else 0)


@pytest.mark.parametrize(
    ("word", "text", "source", "number", "target", "expected"),
    [
        (0x7E61DBFD, "ucvtf d29, d31", "d31", 3 << 62, "d29", struct.pack("<d", 3 * 2.0**62)),
        (0x7E21D8A4, "ucvtf s4, s5", "d5", 0xFFFF_FFFF_8000_0000, "d4", struct.pack("<fI", 2.0**31, 0)),
        (0x5E61DBFD, "scvtf d29, d31", "d31", 3 << 62, "d29", struct.pack("<d", -(2.0**62))),
        (0x5E21D8A4, "scvtf s4, s5", "d5", 0xFFFF_FFFF_8000_0000, "d4", struct.pack("<fI", -(2.0**31), 0)),
    ],
)
def test_integers_become_numbers(word: int, text: str, source: str, number: int, target: str, expected: bytes) -> None:
    assert disassembled(word) == text
    assert registers(word, RET, literals={}, **{source: number})[target] == int.from_bytes(expected, "little")


# What is in memory and the operand, of which each size takes the low part; by operation, what it leaves in memory for
# 1, 2, 4 and 8 bytes. As signed numbers, memory is negative for 1 and 8 bytes, the operand for all but 1.
MEMORY, OPERAND = 0x8877_6655_4433_22F1, 0xFFFF_FFFF_FFFF_FF12
SIZES = {1: "b", 2: "h", 4: "", 8: ""}
ATOMIC = {
    "ldadd": (0x03, 0x2203, 0x4433_2203, 0x8877_6655_4433_2203),
    "ldclr": (0xE1, 0x00E1, 0x0000_00E1, 0x0000_0000_0000_00E1),
    "ldeor": (0xE3, 0xDDE3, 0xBBCC_DDE3, 0x7788_99AA_BBCC_DDE3),
    "ldset": (0xF3, 0xFFF3, 0xFFFF_FFF3, 0xFFFF_FFFF_FFFF_FFF3),
    "ldsmax": (0x12, 0x22F1, 0x4433_22F1, OPERAND),
    "ldsmin": (0xF1, 0xFF12, 0xFFFF_FF12, MEMORY),
    "ldumax": (0xF1, 0xFF12, 0xFFFF_FF12, OPERAND),
    "ldumin": (0x12, 0x22F1, 0x4433_22F1, MEMORY),
    "swp": (0x12, 0xFF12, 0xFFFF_FF12, OPERAND),
}
ORDERS = ("", "l", "a", "al")
PUSH, POP = 0xF81F_0FE2, 0xF841_07E5  # str x2, [sp, #-16]!; ldr x5, [sp], #16


def below(size: int) -> int:
    """The highest number of so many bytes."""
    return (1 << 8 * size) - 1


@pytest.mark.parametrize("order", range(4), ids=["plain", "release", "acquire", "both"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("number", "name"), list(enumerate(ATOMIC)), ids=ATOMIC)
def test_atomic_instructions(number: int, name: str, size: int, order: int) -> None:
    word = 0x3820_03E4 | (size.bit_length() - 1) << 30 | order << 22 | 3 << 16 | number << 12
    register = "x" if size == 8 else "w"
    assert disassembled(word) == f"{name}{ORDERS[order]}{SIZES[size]} {register}3, {register}4, [sp]"
    found = registers(PUSH, word, POP, RET, x2=MEMORY, x3=OPERAND, x4=1)
    assert found["x4"] == MEMORY & below(size)
    assert found["x5"] == MEMORY & ~below(size) | ATOMIC[name][size.bit_length() - 1]
    assert found["x3"] == OPERAND


@pytest.mark.parametrize(
    ("memory", "operand", "maximum", "minimum"),
    [
        (0x7F, 0x80, 0x7F, 0x80),  # 127 and -128
        (0x80, 0x81, 0x81, 0x80),
        (0x40, 0x7F, 0x7F, 0x40),
        (0xFF, 0, 0, 0xFF),
        (5, 5, 5, 5),
    ],
)
def test_numbers_with_a_sign_are_compared(memory: int, operand: int, maximum: int, minimum: int) -> None:
    greatest, least = (
        registers(PUSH, word, POP, RET, x2=memory, x3=operand)["x5"] for word in (0x38E343E4, 0x38E353E4)
    )
    assert (disassembled(0x38E343E4), disassembled(0x38E353E4)) == ("ldsmaxalb w3, w4, [sp]", "ldsminalb w3, w4, [sp]")
    assert (greatest, least) == (maximum, minimum)


def test_atomic_instructions_on_the_zero_register() -> None:
    without_result, without_operand, through_x1 = 0xF8A303FF, 0xF8BF83E4, 0xF8FE003D
    assert disassembled(without_result) == "ldadda x3, xzr, [sp]"
    assert disassembled(without_operand) == "swpa xzr, x4, [sp]"
    assert disassembled(through_x1) == "ldaddal x30, x29, [x1]"
    assert registers(PUSH, without_result, POP, RET, x2=7, x3=5)["x5"] == 12
    found = registers(PUSH, without_operand, POP, RET, x2=7, x4=5)
    assert (found["x4"], found["x5"]) == (7, 0)
    # mov x9, x30; mov x30, #5; mov x1, sp; ldaddal x30, x29, [x1]; mov x30, x9
    code = (PUSH, 0xAA1E03E9, 0xD28000BE, 0x910003E1, through_x1, 0xAA0903FE, POP, RET)
    found = registers(*code, x2=7)
    assert (found["x29"], found["x5"]) == (7, 12)


@pytest.mark.parametrize("order", range(4), ids=["plain", "release", "acquire", "both"])
@pytest.mark.parametrize("size", SIZES)
def test_compare_and_swap(size: int, order: int) -> None:
    word = 0x08A3_7FE4 | (size.bit_length() - 1) << 30 | (order & 1) << 15 | (order >> 1) << 22
    register = "x" if size == 8 else "w"
    assert disassembled(word) == f"cas{ORDERS[order]}{SIZES[size]} {register}3, {register}4, [sp]"
    above = 0 if size == 8 else 0x100 << 8 * size  # bits of the register that do not count
    found = registers(PUSH, word, POP, RET, x2=MEMORY, x3=MEMORY & below(size) | above, x4=OPERAND)
    assert found["x5"] == MEMORY & ~below(size) | OPERAND & below(size)
    assert found["x3"] == MEMORY & below(size)
    found = registers(PUSH, word, POP, RET, x2=MEMORY, x3=MEMORY ^ 1, x4=OPERAND)
    assert (found["x3"], found["x5"]) == (MEMORY & below(size), MEMORY)


@pytest.mark.parametrize(
    ("word", "text", "loaded"),
    [
        (0xC8DFFFE3, "ldar x3, [sp]", MEMORY),
        (0x88DFFFE3, "ldar w3, [sp]", 0x4433_22F1),
        (0x48DFFFE3, "ldarh w3, [sp]", 0x22F1),
        (0x08DFFFE3, "ldarb w3, [sp]", 0xF1),
        (0xF8BFC3E3, "ldapr x3, [sp]", MEMORY),
        (0xB8BFC3E3, "ldapr w3, [sp]", 0x4433_22F1),
        (0x78BFC3E3, "ldaprh w3, [sp]", 0x22F1),
        (0x38BFC3E3, "ldaprb w3, [sp]", 0xF1),
    ],
)
def test_loads_in_order(word: int, text: str, loaded: int) -> None:
    assert disassembled(word) == text
    assert registers(PUSH, word, POP, RET, x2=MEMORY, x3=OPERAND)["x3"] == loaded


@pytest.mark.parametrize(
    ("word", "text", "stored"),
    [
        (0xC89FFFE3, "stlr x3, [sp]", OPERAND),
        (0x889FFFE3, "stlr w3, [sp]", 0x8877_6655_FFFF_FF12),
        (0x489FFFE3, "stlrh w3, [sp]", 0x8877_6655_4433_FF12),
        (0x089FFFE3, "stlrb w3, [sp]", 0x8877_6655_4433_2212),
        (0x089FFFFF, "stlrb wzr, [sp]", 0x8877_6655_4433_2200),
    ],
)
def test_stores_in_order(word: int, text: str, stored: int) -> None:
    assert disassembled(word) == text
    assert registers(PUSH, word, POP, RET, x2=MEMORY, x3=OPERAND)["x5"] == stored


def test_compare_and_swap_with_the_zero_register() -> None:
    zero_stored, zero_expected, through_x1 = 0xC8A37FFF, 0xC8BF7FE4, 0xC8E3FC24
    assert disassembled(zero_stored) == "cas x3, xzr, [sp]"
    assert disassembled(zero_expected) == "cas xzr, x4, [sp]"
    assert disassembled(through_x1) == "casal x3, x4, [x1]"
    assert registers(PUSH, zero_stored, POP, RET, x2=7, x3=7)["x5"] == 0
    assert registers(PUSH, zero_expected, POP, RET, x2=0, x4=9)["x5"] == 9
    assert registers(PUSH, zero_expected, POP, RET, x2=1, x4=9)["x5"] == 1
    # mov x1, sp
    found = registers(PUSH, 0x910003E1, through_x1, POP, RET, x2=7, x3=7, x4=9)
    assert (found["x3"], found["x5"]) == (7, 9)


def test_what_the_emulator_is_not_left_to() -> None:
    # Behind ret: ldr (literal), ldsmaxal, swpa, casal; a load and a store of all 64 bits.
    words = (RET, 0x58000800, 0x38E343E4, 0xF8BF83E4, 0xC8E3FC24, 0xC8DFFFE3, 0xF9400020)
    code = struct.pack(f"<{len(words)}I", *words)
    assert Aarch64().suspects(code) == [4, 8, 12, 16]
    assert Aarch64().suspects(code[:11]) == [4]  # the last one is not there as a whole


def test_a_hint_is_passed_over() -> None:
    assert run(0xD2800020, 0xD50320BF, RET) == 1  # mov x0, #1; sevl


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(Stop, match="unknown instruction: instruction 4e284800"):
        run(0x4E284800, RET)  # aese v0.16b, v0.16b


@pytest.mark.parametrize("offset", range(17))
def test_a_call_begins_with_an_aligned_stack(offset: int) -> None:
    """AAPCS64, 6.4.5.1: 16 divides the stack pointer."""
    with contextlib.closing(Emulator(Aarch64(), pager=lambda _: False, call_out=lambda _: None)) as machine:
        machine.vm.sp = 0x1000 + offset
        Aarch64().enter(machine.vm, 0x1234)
        assert machine.vm.sp == 0x1000 + offset // 16 * 16
        assert Aarch64().return_address(machine.vm) == 0x1234
