"""The native processor of AArch64: where it stops, what icicle and Python do for it."""

from __future__ import annotations

import struct

import pytest

from abiscan import native
from abiscan.emulation.arch.aarch64 import Aarch64
from abiscan.emulation.by_icicle import IcicleProcessor
from abiscan.emulation.emulator import HEAP_BASE, PAGE_SIZE, Emulator, ProcessTermination, Stop
from abiscan.emulation.processor import EXECUTE, READ, WRITE, Processor, Stopped

pytestmark = pytest.mark.skipif(not native.is_compiled(), reason="needs the native processor")

CODE, DATA = 0x10_0000, 0x20_0000
RET, SVC = 0xD65F_03C0, 0xD400_0001
FSQRT = 0x1E61_C020  # fsqrt d0, d1, which only icicle knows


def pack(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def made(kind: str) -> Processor:
    if kind == "icicle":
        return IcicleProcessor("aarch64", 100)
    from abiscan.emulation.by_native import NativeProcessor

    return NativeProcessor("aarch64", 100)


def with_code(kind: str, *words: int) -> Processor:
    vm = made(kind)
    vm.mem_map(CODE, PAGE_SIZE, READ | EXECUTE)
    vm.mem_write(CODE, pack(*words))
    vm.mem_map(DATA, PAGE_SIZE, READ | WRITE)
    vm.pc, vm.sp, vm.icount_limit = CODE, DATA + 0x800, vm.icount + 1_000
    return vm


def emulator(*words: int) -> Emulator:
    machine = Emulator(Aarch64(), pager=lambda _: False, call_out=lambda _: None)
    machine.map_page(CODE, pack(*words).ljust(PAGE_SIZE, b"\0"), writable=False, executable=True)
    return machine


NOP = 0xD503_201F
STOPS = {
    "a page that is not mapped": ((NOP, 0xF940_03E0), {"sp": 0x30_0008}, Stopped.READ_UNMAPPED, 0x30_0008, 2),
    "a write there": ((NOP, 0xF900_03E0), {"sp": 0x30_0008}, Stopped.WRITE_UNMAPPED, 0x30_0008, 2),
    "a pair over the end": ((0xA9BF_0BE1,), {"sp": DATA + PAGE_SIZE + 8}, Stopped.WRITE_UNMAPPED, DATA + PAGE_SIZE, 1),
    "a write into code": ((NOP, 0xF900_0020), {"x1": CODE + 0x100}, Stopped.WRITE_FORBIDDEN, CODE + 0x100, 2),
    "no code": ((NOP, RET), {"x30": 0x40_0000}, Stopped.NOT_CODE, None, 2),
    "a system call": ((NOP, SVC), {}, Stopped.SYSTEM_CALL, None, 2),
    "a trap": ((0xD420_0000,), {}, Stopped.UNKNOWN, None, 1),
}


@pytest.mark.parametrize("kind", ["native", "icicle"])
@pytest.mark.parametrize(("words", "registers", "stopped", "address", "executed"), STOPS.values(), ids=STOPS)
def test_why_it_stops(
    kind: str, words: tuple[int, ...], registers: dict[str, int], stopped: Stopped, address: int | None, executed: int
) -> None:
    vm = with_code(kind, *words)
    before = vm.icount
    for name, value in registers.items():
        vm.reg_write(name, value)
    assert vm.run() == stopped
    assert vm.icount - before == executed
    assert address in (None, vm.address)
    vm.close()


def test_the_names_of_registers() -> None:
    """Arm ARM, B1.2.1 and C1.2.5: what is written of a part clears the rest."""
    vm = made("native")
    vm.reg_write("q3", 0x1122_3344_5566_7788)
    names = ("d3", "s3", "h3", "b3")
    assert [vm.reg_read(name) for name in names] == [0x1122_3344_5566_7788, 0x5566_7788, 0x7788, 0x88]
    vm.reg_write("x3", (1 << 64) - 1)
    vm.reg_write("w3", 5)
    assert [vm.reg_read(name) for name in ("x3", "tpidr_el0", "sp", "NG")] == [5, 0, 0, 0]
    for name in ("x31", "w31", "q32", "x99", "q", "RAX", "x3x", ""):
        with pytest.raises(KeyError):
            vm.reg_read(name)


def test_what_it_does_not_know_icicle_does() -> None:
    """``fsqrt d0, d1`` beside vectors of 128 bits, flags, the stack and the thread pointer, which all stay."""
    vm = with_code("native", FSQRT, SVC)
    assert not isinstance(vm, IcicleProcessor)
    vectors = [bytes(range(number, number + 16)).ljust(64, b"\0") for number in range(32)]
    vectors[1] = struct.pack("<2d", 2.25, 9.0).ljust(64, b"\0")
    for number, value in enumerate(vectors):
        vm.set_vector(number, value)  # type: ignore[attr-defined]
    names = (*Aarch64.registers, "tpidr_el0")
    for number, name in enumerate(names):
        vm.reg_write(name, number + 1)
    vm.reg_write("CY", 1)
    assert vm.run() == Stopped.SYSTEM_CALL
    vectors[0] = struct.pack("<d", 1.5).ljust(64, b"\0")
    assert [vm.vector(number) for number in range(32)] == vectors  # type: ignore[attr-defined]
    assert [vm.reg_read(name) for name in names] == [*range(1, len(names) + 1)]
    assert (vm.sp, vm.reg_read("CY"), vm.reg_read("ZR"), vm.icount) == (DATA + 0x800, 1, 0, 2)
    vm.close()


def test_a_loop_of_what_it_does_not_know() -> None:
    """100 times ``fsqrt d0, d1; str d0, [x0], #8; subs x1, x1, #1; b.ne``."""
    machine = emulator(FSQRT, 0xFC00_8400, 0xF100_0421, 0x54FF_FFA1, RET)
    machine.vm.reg_write("q1", 0x4010_0000_0000_0000)
    before = machine.executed
    machine.start(CODE, (HEAP_BASE, 100), 10_000)
    assert machine.executed - before == 4 * 100 + 1
    assert machine.words(HEAP_BASE, 100) == (0x4000_0000_0000_0000,) * 100
    machine.close()


@pytest.mark.parametrize("is_native", [True, False])
def test_an_atomic_addition_that_is_not_aligned(monkeypatch: pytest.MonkeyPatch, *, is_native: bool) -> None:
    """``ldadd x1, x2, [x0]; add x0, x2, #0; ret``: in Python, and counted."""
    monkeypatch.setenv("ABISCAN_NATIVE", str(int(is_native)))
    machine = emulator(0xF821_0002, 0x9100_0040, RET)
    machine.set_word(HEAP_BASE + 1, 7)
    before = machine.executed
    assert machine.start(CODE, (HEAP_BASE + 1, 5), 100) == 7
    assert (machine.word(HEAP_BASE + 1), machine.executed - before) == (12, 3)
    machine.close()


# ldxr x2, [x0]; str x1, [x0] or nothing; stxr w3, x1, [x0]; mov x0, x3 (Arm ARM, B2.10)
EXCLUSIVE = {
    "after a load": ((0xC85F_7C02,), 0),
    "without one": ((NOP,), 1),
    "after clrex": ((0xC85F_7C02, 0xD503_3F5F), 1),
    "a second time": ((0xC85F_7C02, 0xC803_7C01), 1),
    "of another size": ((0x885F_7C02,), 1),
}


@pytest.mark.parametrize(("words", "status"), EXCLUSIVE.values(), ids=EXCLUSIVE)
def test_an_exclusive_store(words: tuple[int, ...], status: int) -> None:
    machine = emulator(*words, 0xC803_7C01, 0xAA03_03E0, RET)
    assert machine.start(CODE, (HEAP_BASE, 9), 100) == status
    machine.close()


def test_a_limit_a_breakpoint_and_a_guard() -> None:
    vm = with_code("native", NOP, NOP, 0xF940_0020, 0x1400_0000)  # nop; nop; ldr x0, [x1]; b .
    vm.reg_write("x1", DATA)
    vm.add_breakpoint(CODE + 4)
    assert (vm.run(), vm.pc) == (Stopped.BREAKPOINT, CODE + 4)
    vm.remove_breakpoint(CODE + 4)
    vm.guard(DATA + 7, 1, True)
    assert (vm.run(), vm.address) == (Stopped.READ_FORBIDDEN, DATA)
    vm.guard(DATA + 7, 1, False)
    assert (vm.run(), vm.icount) == (Stopped.LIMIT, 1_000)
    vm.close()


def test_what_ends_the_process() -> None:
    machine = emulator(0xD280_0BC8, SVC)  # mov x8, #94; svc #0
    with pytest.raises(ProcessTermination):
        machine.start(CODE, (), 100)
    machine.close()


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("offset", [1, 6, PAGE_SIZE - 2])
def test_code_that_is_not_aligned(monkeypatch: pytest.MonkeyPatch, offset: int, *, is_native: bool) -> None:
    monkeypatch.setenv("ABISCAN_NATIVE", str(int(is_native)))
    machine = emulator(*[NOP] * (PAGE_SIZE // 4))
    before = machine.executed
    with pytest.raises(Stop, match="ExecUnaligned"):
        machine.start(CODE + offset, (), 100)
    assert machine.executed == before
    machine.close()


def test_an_instruction_that_nobody_knows() -> None:
    machine = emulator(0x1F42_0C20)  # fmadd d0, d1, d2, d3
    with pytest.raises(Stop, match=r"^unknown instruction: instruction 1f420c20"):
        machine.start(CODE, (), 100)
    machine.close()
