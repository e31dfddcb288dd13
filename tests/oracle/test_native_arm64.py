"""The native processor of AArch64 against icicle: ``test_native.py`` has it against a processor."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from abiscan import native
from abiscan.cpu.instructions import AARCH64_TOPS
from abiscan.emulation.arch.aarch64 import Aarch64
from abiscan.emulation.by_icicle import IcicleProcessor
from abiscan.emulation.processor import ACCESSES, EXECUTE, READ, WRITE, AccessError, Processor, Stopped

pytestmark = pytest.mark.skipif(not native.is_compiled(), reason="needs the native processor")

FORMS: Final = Path(__file__).parent / "native" / "arm64_forms.h"
CODE, DATA, HELPERS, PAGE = 0x10_0000, 0x20_0000, 0x30_0000, 0x1000
REGISTERS: Final = (*Aarch64.registers, "sp")
FLAGS: Final = ("NG", "ZR", "CY", "OV")
ARCH: Final = Aarch64()


class Form(NamedTuple):
    """What the instructions of a form have in common."""

    mask: int
    bits: int
    has_memory: bool
    has_offset: bool


def read_forms() -> list[Form]:
    text = FORMS.read_text("utf-8")
    found = re.findall(r"\{(0x\w+), (0x\w+), (true|false), (true|false)\}", text)
    return [Form(int(mask, 16), int(bits, 16), base == "true", offset == "true") for mask, bits, base, offset in found]


# What icicle does wrongly, as QEMU shows, beside what ``Aarch64.suspects`` keeps from it: it extends signs to 64 bits
# for registers of 32, and not in pairs; leaves the upper half of a register as it was, and adds no register to the base
# of structures; stores exclusively without having loaded; rounds what it should not; compares numbers when it should
# not.
WRONG: Final = (
    *((0xBEC0_0000, 0x38C0_0000), (0xFE40_0000, 0x6840_0000), (0xBE00_0000, 0x0C00_0000), (0x3FC0_0000, 0x0800_0000)),
    *((0xFF24_7C00, 0x1E24_4000), (0x7F20_FC00, 0x1E20_0000), (0xFF20_0C00, 0x1E20_0400), (0x9F3E_0C00, 0x0E30_0800)),
    (0xBF20_FC00, 0x2E20_8C00),
)


class Start(NamedTuple):
    """What an instruction finds."""

    word: int
    registers: dict[str, int]
    vectors: list[int]
    memory: bytes


class Memory:
    """The memory of a processor, for the instructions that are executed in Python."""

    helpers = HELPERS
    floats: Any = None

    def __init__(self, vm: Processor) -> None:
        self.vectors, self.masks = vm.vectors, vm.masks
        self.read, self.write = vm.mem_read, vm.mem_write

    def unknown_answer(self, name: str, address: int, registers: Any) -> int:  # noqa: ARG002 - as the protocol has it
        return 0


def make_start(random: Random, form: Form) -> Start:
    word = random.getrandbits(32) & ~form.mask | form.bits
    special = (0, 1, 0x7F, 0x80, 0x7FFF_FFFF, 0x8000_0000, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
    registers = {name: random.choice((random.choice(special), random.getrandbits(64))) for name in REGISTERS}
    if form.has_offset:
        registers[REGISTERS[word >> 16 & 31]] = random.randrange(-63, 64) % (1 << 64)
    if form.has_memory:
        registers[REGISTERS[word >> 5 & 31]] = DATA + random.choice((0x800, 0x808, 0x801, PAGE - 16, PAGE - 9))
    registers |= {name: random.getrandbits(1) for name in FLAGS}
    vectors = [struct.unpack("<Q", struct.pack("<d", random.uniform(-1e5, 1e5)))[0] for _ in range(32)]
    return Start(word, registers, vectors, random.randbytes(PAGE))


def prepare(vm: Processor, start: Start) -> None:
    for address, content, permissions in (
        (CODE, start.word.to_bytes(4, "little") + start.memory[4:], READ | EXECUTE),
        (DATA, start.memory, READ | WRITE),
        (HELPERS, Aarch64.helpers, READ | EXECUTE),
    ):
        vm.mem_map(address, PAGE, permissions)
        vm.mem_write(address, content)
    for number, value in enumerate(start.vectors):
        vm.reg_write(f"q{number}", value)
    for name, value in start.registers.items():
        vm.reg_write(name, value)
    vm.pc = CODE
    vm.icount_limit = vm.icount + 100


def finish(vm: Processor, stopped: int, before: int) -> tuple[object, ...]:
    """Return what is left behind; of vectors, what icicle tells Python. icicle may do half of what faults."""
    if stopped in ACCESSES:
        return stopped, vm.icount - before, vm.pc, vm.address
    registers = [vm.reg_read(name) for name in (*REGISTERS, *FLAGS, *Aarch64.vectors)]
    return stopped, vm.icount - before, vm.pc, registers, vm.mem_read(DATA, PAGE)


def natively(start: Start) -> tuple[object, ...]:
    """The instruction on the core alone, without what helps it."""
    from abiscan.emulation.by_native import NativeProcessor
    from abiscan.native._core import Core

    vm = NativeProcessor("aarch64", 10)
    prepare(vm, start)
    before = vm.icount
    result = finish(vm, Core.step(vm), before)
    code = start.word.to_bytes(4, "little")
    assert bool(vm.extensions(0)) == bool(ARCH.extensions(code)), code.hex()
    return result


def otherwise(vm: IcicleProcessor, start: Start) -> tuple[object, ...] | None:
    """The instruction on icicle, or in Python where that is what the emulator does with it.

    None where the emulator maps a page, and tries again.
    """
    vm.forget_code()
    prepare(vm, start)
    before, code = vm.icount, start.word.to_bytes(4, "little")
    stopped = Stopped.UNKNOWN if ARCH.suspects(code) else vm.step()
    if stopped == Stopped.UNKNOWN:
        try:
            stopped = Stopped.UNKNOWN if ARCH.step_over(vm, Memory(vm), code) else Stopped.NOT
        except AccessError:
            return None
    return finish(vm, stopped, before)


def test_what_icicle_does() -> None:
    """The core knows only what icicle or Python knows; where that is right, it does the same, and counts the same."""
    random, icicle, compared = Random(1), IcicleProcessor("aarch64", 100), 0
    try:
        for form in read_forms() * 3:
            start = make_start(random, form)
            ours = natively(start)
            theirs = None if ours[0] == Stopped.UNKNOWN else otherwise(icicle, start)
            if theirs is None:
                continue
            assert theirs[0] not in (Stopped.UNKNOWN, Stopped.OTHER), f"{start.word:08x}"
            if not any(start.word & mask == bits for mask, bits in WRONG):
                compared += 1
                assert ours == theirs, f"{start.word:08x}"
    finally:
        icicle.close()
    assert compared > 60


def test_which_instructions_not_every_processor_has() -> None:
    from abiscan.emulation.by_native import NativeProcessor

    random, vm = Random(2), NativeProcessor("aarch64", 10)
    words = [random.getrandbits(24) | random.choice(sorted(AARCH64_TOPS)) << 24 for _ in range(1 << 10)]
    code = struct.pack("<1024I", *words)
    vm.mem_map(CODE, PAGE, READ | EXECUTE)
    vm.mem_write(CODE, code)
    vm.icount_limit = 1 << 20
    for vm.pc in range(CODE, CODE + PAGE, 4):
        super(NativeProcessor, vm).step()
    assert vm.extensions(0) == [CODE + offset for offset in ARCH.extensions(code)]
    assert len(vm.extensions(0)) > 100
