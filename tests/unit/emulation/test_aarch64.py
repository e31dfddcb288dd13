"""Instructions of AArch64 that icicle lacks, or does wrongly. Encodings: Arm ARM, C6.2 and C7.2."""

from __future__ import annotations

import struct

import pytest

from abiscan.emulation.arch.aarch64 import Aarch64
from abiscan.emulation.emulator import Emulator, Stop

CODE = 0x10_0000
LITERAL = 0xFEDC_BA98_8765_4321
RET = 0xD65F03C0


def run(*words: int, literal_at: int = 0x100, literal: bytes = struct.pack("<Q", LITERAL)) -> int:
    """What code gives back in x0; the literal lies at this offset from its start."""
    page = bytearray(0x1000)
    struct.pack_into(f"<{len(words)}I", page, 0x80, *words)
    page[0x80 + literal_at : 0x80 + literal_at + len(literal)] = literal
    machine = Emulator(Aarch64(), pager=lambda _: False, call_out=lambda _: None)
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


def test_a_literal_before_the_code() -> None:
    assert run(0x58FFFE00, RET, literal_at=-0x40) == LITERAL  # ldr x0, .-0x40


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


STORE = (0x910003E1, 0xD100_4021, 0xD28000E2, 0xF9000022)  # mov x1, sp; sub x1, x1, #16; mov x2, #7; str x2, [x1]


# Each finds 7 in memory, and has -3 (or what is said) as its operand in x3.
@pytest.mark.parametrize(
    ("word", "before", "after"),
    [
        (0xF8E30024, 7, 4),  # ldaddal x3, x4, [x1]
        (0xB8230024, 7, 4),  # ldadd w3, w4, [x1]
        (0xF8231024, 7, 2),  # ldclr: 7 & ~-3
        (0xF8232024, 7, 0xFFFF_FFFF_FFFF_FFFA),  # ldeor: 7 ^ -3
        (0xF8233024, 7, 0xFFFF_FFFF_FFFF_FFFF),  # ldset: 7 | -3
        (0xF8234024, 7, 7),  # ldsmax
        (0xF8235024, 7, 0xFFFF_FFFF_FFFF_FFFD),  # ldsmin
        (0xF8236024, 7, 0xFFFF_FFFF_FFFF_FFFD),  # ldumax
        (0xF8237024, 7, 7),  # ldumin
        (0xF8238024, 7, 0xFFFF_FFFF_FFFF_FFFD),  # swp x3, x4, [x1]
    ],
    ids=["ldaddal", "ldadd w", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin", "swp"],
)
def test_atomic_instructions(word: int, before: int, after: int) -> None:
    code = (*STORE, 0x92800043, word)  # mov x3, #-3
    assert run(*code, 0xAA0403E0, RET) == before  # mov x0, x4
    assert run(*code, 0xF9400020, RET) == after  # ldr x0, [x1]


@pytest.mark.parametrize(("expected", "after"), [(7, 9), (8, 7)])
def test_compare_and_swap(expected: int, after: int) -> None:
    # mov x3, #expected; mov x4, #9; casal x3, x4, [x1]
    code = (*STORE, 0xD2800003 | expected << 5, 0xD2800124, 0xC8E3FC24)
    assert run(*code, 0xF9400020, RET) == after  # ldr x0, [x1]
    assert run(*code, 0xAA0303E0, RET) == 7  # mov x0, x3


def test_a_hint_is_passed_over() -> None:
    assert run(0xD2800020, 0xD50320BF, RET) == 1  # mov x0, #1; sevl


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(Stop, match="unknown instruction: instruction 4e284800"):
        run(0x4E284800, RET)  # aese v0.16b, v0.16b
