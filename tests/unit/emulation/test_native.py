"""The native processor: what it does by itself, and with icicle's help."""

from __future__ import annotations

import operator
import struct

import pytest

from abiscan import native
from abiscan.emulation import processors
from abiscan.emulation.arch.x86_64 import X8664
from abiscan.emulation.by_icicle import IcicleProcessor
from abiscan.emulation.emulator import HEAP_BASE, PAGE_SIZE, STACK_TOP, Emulator, Stop
from abiscan.emulation.processor import EXECUTE, READ, WRITE, AccessError, Processor, Stopped

CODE, DATA = 0x10_0000, 0x20_0000
PROCESSORS = ("native", "icicle")
REASON = "needs the native processor"


def made(kind: str) -> Processor:
    if kind == "icicle":
        return IcicleProcessor("x86_64", 1_000)
    if not native.is_compiled():
        pytest.skip(REASON)
    from abiscan.emulation.by_native import NativeProcessor

    return NativeProcessor("x86_64", 1_000)


def with_code(kind: str, code: str) -> Processor:
    vm = made(kind)
    vm.mem_map(CODE, PAGE_SIZE, READ | EXECUTE)
    vm.mem_write(CODE, bytes.fromhex(code))
    vm.mem_map(DATA, PAGE_SIZE, READ | WRITE)
    vm.pc, vm.sp, vm.icount_limit = CODE, DATA + 0x800, vm.icount + 1_000
    return vm


def emulator(code: str) -> Emulator:
    machine = Emulator(X8664(), pager=lambda _: False, call_out=lambda _: None)
    machine.map_page(CODE, bytes.fromhex(code).ljust(PAGE_SIZE, b"\0"), writable=False, executable=True)
    return machine


@pytest.mark.parametrize("value", ["0", "1"])
def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    if not native.is_compiled():
        pytest.skip(REASON)
    monkeypatch.setenv("ABISCAN_NATIVE", value)
    for architecture in ("x86_64", "aarch64"):
        vm = processors.take(architecture, 10)
        assert isinstance(vm, IcicleProcessor) == (value == "0")
        vm.close()


STOPS = {
    "a page that is not mapped": ("90 488b05f9ff1f00", Stopped.READ_UNMAPPED, 0x30_0001, 2),  # nop; mov rax, [0x300001]
    "a write there": ("90 488905f9ff1f00", Stopped.WRITE_UNMAPPED, 0x30_0001, 2),
    "a write into code": ("90 4889050f000000", Stopped.WRITE_FORBIDDEN, 0x10_0017, 2),
    "no code": ("90 6a00 c3", Stopped.NOT_CODE, 0, 3),  # nop; push 0; ret
    "division by zero": ("31c9 f7f1", Stopped.DIVISION, None, 2),  # xor ecx, ecx; div ecx
    "a system call": ("90 0f05", Stopped.SYSTEM_CALL, None, 2),
}


@pytest.mark.parametrize("kind", PROCESSORS)
@pytest.mark.parametrize(("code", "stopped", "address", "executed"), STOPS.values(), ids=STOPS)
def test_why_it_stops(kind: str, code: str, stopped: Stopped, address: int | None, executed: int) -> None:
    vm = with_code(kind, code)
    before = vm.icount
    assert vm.run() == stopped
    assert vm.icount - before == executed
    assert address in (None, vm.address)
    vm.close()


@pytest.mark.parametrize("kind", PROCESSORS)
@pytest.mark.parametrize(("prefix", "repeated"), [("", 1), ("f3", 6)])
def test_each_repetition_counts(kind: str, prefix: str, repeated: int) -> None:
    """``rep movsb`` five times, and the test that ends it: Intel SDM 2B has it as a loop."""
    vm = with_code(kind, prefix + "a4 0f05")
    before = vm.icount
    for name, value in (("RSI", DATA), ("RDI", DATA + 0x100), ("RCX", 5)):
        vm.reg_write(name, value)
    vm.run()
    assert vm.icount - before == repeated + 1
    vm.close()


@pytest.mark.parametrize("kind", PROCESSORS)
def test_the_names_of_registers(kind: str) -> None:
    """Intel SDM 1, 3.4.1: what is written of 32 bits clears the rest, what is written of fewer does not."""
    vm = with_code(kind, "90")
    vm.reg_write("RBX", 0x1122_3344_5566_7788)
    names = ("EBX", "BX", "BL", "BH", "RIP")
    assert [vm.reg_read(name) for name in names] == [0x5566_7788, 0x7788, 0x88, 0x77, CODE]
    vm.reg_write("R9B", 0x99)
    assert [vm.reg_read(name) for name in ("R9", "R9D", "R9W")] == [0x99] * 3
    vm.close()


@pytest.mark.parametrize("kind", PROCESSORS)
def test_a_step_is_one_repetition(kind: str) -> None:
    vm = with_code(kind, "f3a4")
    for name, value in (("RSI", DATA), ("RDI", DATA + 0x100), ("RCX", 5)):
        vm.reg_write(name, value)
    assert (vm.step(), vm.reg_read("RCX"), vm.pc) == (Stopped.NOT, 4, CODE)
    vm.close()


@pytest.mark.parametrize("kind", PROCESSORS)
@pytest.mark.parametrize(
    ("code", "stopped"), [("8a07", Stopped.READ_FORBIDDEN), ("8807", Stopped.WRITE_FORBIDDEN)], ids=["read", "write"]
)
def test_a_byte_that_is_guarded(kind: str, code: str, stopped: Stopped) -> None:
    """``mov al, [rdi]``, ``mov [rdi], al``: the bytes beside it are free."""
    vm = with_code(kind, code * 2 + "0f05")
    vm.guard(DATA + 8, 1, True)
    vm.reg_write("RDI", DATA + 9)
    assert vm.step() == Stopped.NOT
    vm.reg_write("RDI", DATA + 8)
    assert (vm.step(), vm.address) == (stopped, DATA + 8)
    assert vm.mem_read(DATA + 8, 1) == b"\0"  # to whoever is not code
    vm.guard(DATA + 8, 1, False)
    assert vm.step() == Stopped.NOT
    with pytest.raises(AccessError):
        vm.guard(DATA + PAGE_SIZE, 1, True)
    vm.close()


@pytest.mark.parametrize("kind", PROCESSORS)
def test_bytes_that_are_guarded_at_once(kind: str) -> None:
    """``mov al, [rdi]``; behind them, nothing is mapped."""
    vm = with_code(kind, "8a07")
    vm.guard(DATA + 8, 4, True)
    for offset in range(6, 14):
        vm.pc = CODE
        vm.reg_write("RDI", DATA + offset)
        assert vm.step() == (Stopped.READ_FORBIDDEN if 8 <= offset < 12 else Stopped.NOT)
    with pytest.raises(AccessError):
        vm.guard(DATA + PAGE_SIZE - 2, 4, True)
    vm.pc = CODE
    vm.reg_write("RDI", DATA + PAGE_SIZE - 1)
    assert vm.step() == Stopped.READ_FORBIDDEN
    vm.close()


@pytest.mark.parametrize("kind", PROCESSORS)
def test_a_text_ends_at_a_zero(kind: str) -> None:
    vm = with_code(kind, "90")
    vm.mem_write(DATA, b"ab\0c" + b"d" * (PAGE_SIZE - 4))
    assert vm.mem_text(DATA, 4) == b"ab"
    assert vm.mem_text(DATA + 2, 1) == b""
    for address, most in ((DATA, 2), (DATA + 3, 100), (DATA + 3, PAGE_SIZE), ((1 << 64) - 2, 8)):
        with pytest.raises((AccessError, OverflowError)):
            vm.mem_text(address, most)
    vm.close()


def test_other_code_at_an_address_where_code_was_executed() -> None:
    """``inc eax``, then ``dec eax`` in a page that is mapped there anew, then nothing: icicle keeps what it decoded."""
    vm = with_code("native", "ffc0")
    assert (vm.step(), vm.reg_read("RAX")) == (Stopped.NOT, 1)
    vm.mem_unmap(CODE, PAGE_SIZE)
    vm.mem_map(CODE, PAGE_SIZE, READ | EXECUTE)
    vm.mem_write(CODE, bytes.fromhex("ffc8"))
    vm.pc = CODE
    assert (vm.step(), vm.reg_read("RAX")) == (Stopped.NOT, 0)
    vm.mem_unmap(CODE, PAGE_SIZE)
    vm.pc = CODE
    assert vm.step() == Stopped.NOT_CODE
    vm.close()


@pytest.mark.parametrize("kind", PROCESSORS)
def test_the_operand_of_an_instruction_that_is_executed_again(kind: str) -> None:
    """``mov al, [rdi + rcx * 2 + 1]; jmp`` back: its address is that of the registers at each time."""
    vm = with_code(kind, "8a444f01 ebfa")
    vm.mem_write(DATA, bytes(range(16)))
    vm.reg_write("RDI", DATA)
    for number in (0, 3, 5):
        vm.reg_write("RCX", number)
        assert (vm.step(), vm.reg_read("AL"), vm.step(), vm.pc) == (Stopped.NOT, 2 * number + 1, Stopped.NOT, CODE)
    vm.close()


@pytest.mark.parametrize("kind", PROCESSORS)
def test_words(kind: str) -> None:
    """In two pages, and where the second one is missing."""
    vm = made(kind)
    vm.mem_map(DATA, 2 * PAGE_SIZE, READ | WRITE)
    place = DATA + PAGE_SIZE - 12
    vm.mem_write(place, b"\1" + bytes(7) + b"\xff" * 8)
    assert (vm.mem_words(place, 2), vm.mem_words(place, 0)) == ((1, (1 << 64) - 1), ())
    with pytest.raises(AccessError, match=f"nothing is mapped at {place + PAGE_SIZE:#x}"):
        vm.mem_words(place + PAGE_SIZE, 2)
    vm.close()


def test_icicle_executes_unknown_instructions() -> None:
    """``fld1; fadd st(0), st(0); fstp qword [rdi]; mov rax, [rdi]; ret``: 2.0, wherever the numbers of the x87 are."""
    machine = emulator("d9e8 d8c0 dd1f 488b07 c3")
    before = machine.executed
    assert machine.start(CODE, (HEAP_BASE + 8,), 100) == 0x4000_0000_0000_0000
    assert machine.executed - before == 5
    machine.close()


PREDICATES = {0: operator.eq, 1: operator.lt, 2: operator.le, 4: operator.ne, 5: operator.ge, 6: operator.gt}


@pytest.mark.parametrize("kind", PROCESSORS)
@pytest.mark.parametrize("form", ["f2", "f3", "66"])  # one double, one float, two doubles; of floats, icicle is wrong
def test_comparisons_that_make_masks(kind: str, form: str) -> None:
    """``cmpsd xmm0, xmm1`` and the like; 3 asks whether one of two numbers is none, 7 whether both are numbers."""
    kind_of_number, size = ("d", 8) if form in ("f2", "66") else ("f", 4)
    lanes = 1 if form in ("f2", "f3") else 16 // size
    for first, second in ((1.5, 2.5), (2.5, 1.5), (0.0, -0.0)):
        numbers = [struct.pack(f"<{16 // size}{kind_of_number}", *[value] * (16 // size)) for value in (first, second)]
        for predicate in range(8):
            vm = with_code(kind, f"{form} 0fc2c1 {predicate:02x}")
            for number, content in enumerate(numbers):
                for half, at in (("a", 0), ("b", 8)):
                    vm.reg_write(f"XMM{number}_Q{half}", int.from_bytes(content[at : at + 8], "little"))
            assert vm.step() == Stopped.NOT
            holds = PREDICATES[predicate](first, second) if predicate in PREDICATES else predicate == 7
            expected = (b"\xff" if holds else b"\0") * size * lanes + numbers[0][size * lanes :]
            assert vm.reg_read("XMM0_Qa") == int.from_bytes(expected[:8], "little")
            assert vm.reg_read("XMM0_Qb") == int.from_bytes(expected[8:], "little")
            vm.close()


@pytest.mark.parametrize("kind", PROCESSORS)
def test_a_frame_with_those_around_it(kind: str) -> None:
    """``enter 32, 3`` (SDM 2A): the old base, two words below it, the new base; then 32 bytes."""
    vm = with_code(kind, "c8 200003")
    stack, base = vm.sp, DATA + 0xA00
    vm.reg_write("RBP", base)
    vm.mem_write(base - 16, struct.pack("<2Q", 2, 1))
    assert vm.step() == Stopped.NOT
    assert (vm.pc, vm.sp, vm.reg_read("RBP")) == (CODE + 4, stack - 64, stack - 8)
    assert vm.mem_words(stack - 32, 4) == (stack - 8, 2, 1, base)
    vm.close()


@pytest.mark.slow
def test_a_loop_of_unknown_instructions() -> None:
    """3,000 times ``fld1; fstp qword [rdi]; add rdi, 8``: icicle goes on as long as it is needed, over pages."""
    machine = emulator("d9e8 dd1f 4883c708 ffce 75f4 c3")
    before = machine.executed
    machine.start(CODE, (HEAP_BASE, 3_000), 30_000)
    assert machine.executed - before == 5 * 3_000 + 1
    assert machine.words(HEAP_BASE, 3_000) == (0x3FF0_0000_0000_0000,) * 3_000
    machine.close()


@pytest.mark.parametrize("most", [1, 2, 3, 7, 100])
def test_the_limit_holds_for_both(most: int) -> None:
    machine = emulator("d9e8 dd1f ebfa")  # fld1; fstp qword [rdi]; jmp to the first
    before = machine.executed
    with pytest.raises(Stop, match="instruction budget exhausted"):
        machine.start(CODE, (HEAP_BASE,), most)
    assert machine.executed - before == most
    machine.close()


def test_what_icicle_needs_is_mapped() -> None:
    """``fstp`` into a page that is mapped when it is touched."""
    pages = list[int]()

    def page_in(address: int) -> bool:
        pages.append(address)
        machine.map_page(address, bytes(PAGE_SIZE), writable=True, executable=False)
        return True

    machine = Emulator(X8664(), pager=page_in, call_out=lambda _: None)
    machine.map_page(CODE, bytes.fromhex("d9e8 dd1f c3").ljust(PAGE_SIZE, b"\0"), writable=False, executable=True)
    before = machine.executed
    machine.start(CODE, (DATA,), 100)
    assert (pages, machine.executed - before) == ([DATA], 3)
    assert machine.word(DATA) == 0x3FF0_0000_0000_0000
    machine.close()


def test_an_instruction_that_nobody_knows() -> None:
    machine = emulator("0f0b")
    with pytest.raises(Stop, match=r"^unknown instruction: ud2"):
        machine.start(CODE, (), 100)
    machine.close()


def test_a_breakpoint_where_icicle_runs() -> None:
    """``fld1; fstp qword [rdi]`` again and again, until ``jmp`` is watched."""
    machine = emulator("d9e8 dd1f ffce 75f8 c3")
    machine.watch(CODE + 8)
    machine.watch(CODE + 2)
    machine.start(CODE, (HEAP_BASE, 50), 1_000)
    assert machine.reached == {CODE + 2, CODE + 8}
    machine.close()


def test_memory_of_the_whole_stack_is_only_taken_where_it_is_used() -> None:
    if not native.is_compiled():
        pytest.skip(REASON)
    from abiscan.emulation.by_native import NativeProcessor

    vm = NativeProcessor("x86_64", 2)
    vm.mem_map(STACK_TOP - 0x80_0000, 0x80_0000, READ | WRITE)
    assert vm.mem_read(STACK_TOP - 0x80_0000, 0x80_0000) == bytes(0x80_0000)
    vm.mem_write(STACK_TOP - 8, b"12345678")
    vm.mem_write(STACK_TOP - 0x40_0000, b"x")
    with pytest.raises(AccessError):
        vm.mem_write(STACK_TOP - 0x80_0000, b"x")
    vm.mem_unmap(STACK_TOP - 0x1000, 0x1000)
    assert vm.permissions(STACK_TOP - 8) == 0
    assert vm.mem_read(STACK_TOP - 0x40_0000, 1) == b"x"


@pytest.mark.parametrize(("address", "size"), [(1, 0x1000), (0x1000, 1), (0x1000, 0), ((1 << 64) - 0x1000, 0x2000)])
def test_only_pages_are_mapped(address: int, size: int) -> None:
    if not native.is_compiled():
        pytest.skip(REASON)
    from abiscan.emulation.by_native import NativeProcessor

    with pytest.raises(ValueError, match="pages"):
        NativeProcessor("x86_64", 2).mem_map(address, size, READ)
