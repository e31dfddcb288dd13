"""Loads from literal pools, which icicle answers with zero. Encodings: Arm ARM, C6.2 and C7.2, "LDR (literal)"."""

from __future__ import annotations

import struct

import pytest

from abiscan.emulation.arch.aarch64 import Aarch64
from abiscan.emulation.machine import Machine, Stop

CODE = 0x10_0000
LITERAL = 0xFEDC_BA98_8765_4321
RET = 0xD65F03C0


def run(*words: int, literal_at: int = 0x100) -> int:
    """What code gives back in x0; the literal lies at this offset from its start."""
    page = bytearray(0x1000)
    struct.pack_into(f"<{len(words)}I", page, 0x80, *words)
    struct.pack_into("<Q", page, 0x80 + literal_at, LITERAL)
    machine = Machine(Aarch64(), pager=lambda _: False, call_out=lambda _: None)
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


def test_a_quadword_is_said_to_be_unknown() -> None:
    with pytest.raises(Stop, match="unknown instruction: instruction 9c000800"):
        run(0x9C000800, RET)  # ldr q0, .+0x100
