"""The machine and the edges of pages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from abiscan.emulation.arch.x86_64 import X8664
from abiscan.emulation.emulator import (
    _IMPORT_SIZE,
    HEAP_BASE,
    HEAP_SIZE,
    IMPORT_BASE,
    IMPORT_SLOT,
    PAGE_SIZE,
    STACK_TOP,
    UNKNOWN_SIZE,
    Emulator,
    Stop,
    Unknown,
)
from abiscan.emulation.processor import is_mapped

CODE = 0x10_0000
# push 5; mov rax, rsp; mov edx, 3; lock xadd [rax], edx; pop rax; ret
BEFORE, ADD, AFTER = bytes.fromhex("6a054889e0ba03000000"), bytes.fromhex("f00fc110"), bytes.fromhex("58c3")


def paged(code: bytes) -> tuple[Emulator, Callable[[int], bool]]:
    """An emulator with two pages of code at ``CODE``, each mapped when it is touched, and what maps them."""
    content = code.ljust(2 * PAGE_SIZE, b"\0")

    def page_in(address: int) -> bool:
        at = address - CODE
        if not 0 <= at < len(content):
            return False
        machine.map_page(address, content[at : at + PAGE_SIZE], writable=False, executable=True)
        return True

    machine = Emulator(X8664(), pager=page_in, call_out=lambda _: None)
    return machine, page_in


@pytest.mark.parametrize("inside", range(len(ADD) + 1))
def test_an_instruction_in_two_pages(inside: int) -> None:
    """Its first bytes alone may be no instruction: the page with the rest comes when it is needed."""
    start = PAGE_SIZE - len(BEFORE) - inside
    machine, _ = paged(bytes(start) + BEFORE + ADD + AFTER)
    assert machine.start(CODE + start, (), 1_000) == 8


# vmovdqu ymm0, [rdi]; vmovdqa [rsi+0x40], ymm0, in the forms with a VEX prefix of two and of three bytes; ret
LOAD, RETURN = bytes.fromhex("c5fe6f07"), b"\xc3"
STORES = {"two bytes": bytes.fromhex("c5fd7f4640"), "three bytes": bytes.fromhex("c4e17d7f4640")}


@pytest.mark.parametrize(
    "mapped_first", ["the page where it begins", "the page where it ends", "each when it is needed"]
)
@pytest.mark.parametrize(
    ("store", "inside"),
    [(store, inside) for store in STORES.values() for inside in range(len(store) + 1)],
    ids=[f"{prefix}-{inside}" for prefix, store in STORES.items() for inside in range(len(store) + 1)],
)
def test_a_vector_instruction_in_two_pages_moves_all_bits(store: bytes, inside: int, mapped_first: str) -> None:
    """``vmovdqa`` stores 32 bytes wherever it lies: the processor of the emulator alone would store 16."""
    start = PAGE_SIZE - len(LOAD) - inside
    machine, page_in = paged(bytes(start) + LOAD + store + RETURN)
    pages = (CODE, CODE + PAGE_SIZE)
    if mapped_first == "the page where it ends":
        pages = pages[::-1]
    for page in () if mapped_first == "each when it is needed" else pages:
        page_in(page)
    value = bytes(range(32))
    machine.write(HEAP_BASE, value)
    machine.start(CODE + start, (HEAP_BASE, HEAP_BASE + 0x1000), 1_000)
    assert machine.read(HEAP_BASE + 0x1040, 32) == value


@pytest.mark.parametrize("inside", range(1, len(STORES["two bytes"])))
def test_a_processor_that_has_seen_half_of_a_vector_instruction(inside: int) -> None:
    """It keeps taking the place for no instruction, in the next emulator too: the store is whole nevertheless."""
    start = PAGE_SIZE - len(LOAD) - inside
    content = (bytes(start) + LOAD + STORES["two bytes"] + RETURN).ljust(2 * PAGE_SIZE, b"\0")
    value = bytes(range(32))
    for pages in (1, 2):
        emulator = Emulator(X8664(), pager=lambda _: False, call_out=lambda _: None)
        for page in range(pages):
            at = page * PAGE_SIZE
            emulator.map_page(CODE + at, content[at : at + PAGE_SIZE], writable=False, executable=True)
        emulator.write(HEAP_BASE, value)
        with contextlib.nullcontext() if pages == 2 else pytest.raises(Stop):
            emulator.start(CODE + start, (HEAP_BASE, HEAP_BASE + 0x1000), 1_000)
        stored = emulator.read(HEAP_BASE + 0x1040, 32)
        emulator.close()
    assert stored == value


# mov rax, [rdi]; inc rax; mov [rdi], rax; ret
COUNT = bytes.fromhex("488b07 48ffc0 488907 c3")


@pytest.mark.parametrize(
    ("address", "mapped"),
    [
        (CODE - 1, False),
        (CODE, True),
        (CODE + PAGE_SIZE - 1, True),  # the last byte of the page, with nothing behind it
        (CODE + PAGE_SIZE, False),
        (-1, False),
        (1 << 64, False),
    ],
)
def test_which_addresses_are_mapped(processor: Emulator, address: int, mapped: bool) -> None:
    processor.map_page(CODE, COUNT.ljust(PAGE_SIZE, b"\0"), writable=False, executable=True)
    assert is_mapped(processor.vm, address) == mapped


@pytest.mark.parametrize(
    ("inside", "called"), [(-1, False), (IMPORT_SLOT, True), (_IMPORT_SIZE - 1, True), (_IMPORT_SIZE, False)]
)
def test_a_jump_among_the_import_slots_is_a_call_out(inside: int, called: bool) -> None:
    """Anywhere else where no code is, it is the end."""
    slots: list[int] = []

    def answer(slot: int) -> None:
        slots.append(slot)
        raise Stop("called", slot)

    machine = Emulator(X8664(), pager=lambda _: False, call_out=answer)
    with pytest.raises(Stop):
        machine.start(IMPORT_BASE + inside, (), 100)
    machine.close()
    assert slots == ([IMPORT_BASE + inside] if called else [])


def test_the_stack_and_the_heap_end_where_they_are_mapped(processor: Emulator) -> None:
    def is_writable(address: int) -> bool:
        try:
            processor.write(address, b"x")
        except Stop:
            return False
        return True

    addresses = [HEAP_BASE - 1, HEAP_BASE, HEAP_BASE + HEAP_SIZE - 1, HEAP_BASE + HEAP_SIZE, STACK_TOP - 1, STACK_TOP]
    assert [processor.is_heap(address) for address in addresses] == [False, True, True, False, False, False]
    assert [processor.is_stack(address) for address in addresses] == [False, False, False, False, True, False]
    assert [is_writable(address) for address in addresses] == [False, True, True, False, True, False]


def test_memory_and_counts_survive_when_code_is_forgotten() -> None:
    machine, _ = paged(COUNT)
    heap_top = HEAP_BASE + 3 * PAGE_SIZE
    counter, datum = HEAP_BASE + 2 * PAGE_SIZE, IMPORT_BASE + IMPORT_SLOT
    machine.set_word(datum, 7)
    machine.set_word(STACK_TOP - PAGE_SIZE, 8)
    assert machine.start(CODE, (counter,), 100) == 1
    executed = machine.executed
    machine.forget_code(heap_top, datum + IMPORT_SLOT)
    assert (machine.word(counter), machine.word(datum), machine.word(STACK_TOP - PAGE_SIZE)) == (1, 7, 8)
    assert (machine.executed, machine.code_pages) == (executed, 0)
    assert machine.start(CODE, (counter,), 100) == 2
    assert machine.executed == executed + 4
    with pytest.raises(Stop, match="self-modifying code"):
        machine.start(CODE, (CODE,), 100)


def test_a_watched_address_stays_watched_when_code_is_forgotten() -> None:
    machine, _ = paged(COUNT)
    machine.start(CODE, (HEAP_BASE,), 100)
    machine.watch(CODE + 3)
    machine.forget_code(HEAP_BASE + PAGE_SIZE, IMPORT_BASE)
    machine.start(CODE, (HEAP_BASE,), 100)
    assert machine.reached == {CODE + 3}


@pytest.fixture
def processor() -> Iterator[Emulator]:
    """A processor whose code, a page at ``CODE``, the test maps itself."""
    made = Emulator(X8664(), pager=lambda _: False, call_out=lambda _: None)
    yield made
    made.close()


def mapped(processor: Emulator, code: bytes) -> Emulator:
    processor.map_page(CODE, code.ljust(PAGE_SIZE, b"\0"), writable=False, executable=True)
    return processor


@pytest.mark.parametrize("offset", range(17))
def test_a_call_begins_and_ends_as_the_abi_says(processor: Emulator, offset: int) -> None:
    """SysV psABI, 3.2.2: 16 divides the stack pointer before the call; 3.2.1: the direction flag is clear."""
    arch, vm, top = X8664(), processor.vm, HEAP_BASE + 0x1000 + offset
    processor.write(HEAP_BASE, b"\xcc" * 0x2000)
    vm.sp = top
    vm.reg_write("DF", 1)
    arch.enter(vm, 0x1234_5678)
    assert (vm.sp + 8) % 16 == 0
    assert top - 24 < vm.sp + 8 <= top
    assert processor.word(vm.sp) == arch.return_address(vm) == 0x1234_5678
    assert set(processor.read(vm.sp + 8, 0x100)) == {0xCC}  # what the caller has there
    assert set(processor.read(vm.sp - 0x100, 0x100)) == {0xCC}
    assert vm.reg_read("DF") == 0
    entered = vm.sp
    assert arch.leave(vm) == 0x1234_5678
    assert vm.sp == entered + 8
    arch.return_object(vm, 0x5678)
    assert vm.reg_read("RAX") == 0x5678  # 3.2.3: a function that returns in memory returns the address


def test_the_processor_has_no_optional_features(processor: Emulator) -> None:
    """Intel SDM 2A, CPUID: of a leaf that a processor does not have, all four registers are zero."""
    cpuid, registers = bytes.fromhex("0fa2"), ("RAX", "RBX", "RCX", "RDX")
    for register in registers:
        processor.vm.reg_write(register, 7)
    processor.vm.pc = CODE
    assert X8664().step_over(processor.vm, processor, cpuid + b"\xc3") is None
    assert [processor.vm.reg_read(register) for register in registers] == [0, 0, 0, 0]
    assert processor.vm.pc == CODE + len(cpuid)


def test_a_result_of_64_bits(processor: Emulator) -> None:
    mapped(processor, bytes.fromhex("4889f8 c3"))  # mov rax, rdi; ret
    for value in (0, 1, 2**63, 2**64 - 1):
        assert processor.start(CODE, (value,), 100) == value
    assert processor.start(CODE, (-1,), 100) == 2**64 - 1


@pytest.mark.parametrize(("most", "ends"), [(9, False), (10, False), (12, True)])
def test_the_instructions_are_counted(processor: Emulator, most: int, ends: bool) -> None:
    mapped(processor, b"\x90" * 10 + b"\xc3")  # ten nops and a ret
    before = processor.executed
    with contextlib.nullcontext() if ends else pytest.raises(Stop, match="instruction budget exhausted"):
        processor.start(CODE, (), most)
    assert processor.executed - before == (11 if ends else most)


def test_memory_is_read_up_to_a_zero_byte(processor: Emulator) -> None:
    at = HEAP_BASE + PAGE_SIZE - 3
    for size in (0, 1, 255, 256, 257, 5000):
        processor.write(at, b"x" * size + b"\0y")
        assert processor.text(at) == b"x" * size
    with pytest.raises(Stop, match="string of more than 256 bytes"):
        processor.text(at, 256)
    processor.write(HEAP_BASE, b"x" * 256 + b"\0")
    with pytest.raises(Stop, match="string of more than 256 bytes"):
        processor.text(HEAP_BASE, 256)
    processor.map_page(CODE, b"end\0".rjust(PAGE_SIZE), writable=False, executable=False)
    assert processor.text(CODE + PAGE_SIZE - 4) == b"end"  # behind it is nothing


def test_words_of_memory_are_unsigned(processor: Emulator) -> None:
    processor.set_word(HEAP_BASE, -2)
    processor.set_word(HEAP_BASE + 8, 2**64 + 5)
    assert processor.word(HEAP_BASE) == 2**64 - 2
    assert processor.words(HEAP_BASE, 3) == (2**64 - 2, 5, 0)
    assert processor.words(HEAP_BASE, 0) == ()
    assert processor.byte(HEAP_BASE + 8) == 5
    processor.write(HEAP_BASE, b"\xcc" * 24)
    processor.set_word(HEAP_BASE + 8, 5)
    assert processor.words(HEAP_BASE, 3) == (0xCCCC_CCCC_CCCC_CCCC, 5, 0xCCCC_CCCC_CCCC_CCCC)
    processor.clear(HEAP_BASE, PAGE_SIZE)
    assert processor.words(HEAP_BASE, 2) == (0, 0)


@pytest.mark.parametrize("size", [-1, 0x4000_0001])
def test_nonsense_is_not_read(processor: Emulator, size: int) -> None:
    with pytest.raises(Stop, match=f"read of {size} bytes"):
        processor.read(HEAP_BASE, size)


def test_where_the_heap_and_the_stack_end(processor: Emulator) -> None:
    assert processor.is_heap(HEAP_BASE)
    assert processor.is_heap(HEAP_BASE + 0x4000_0000 - 1)
    assert not processor.is_heap(HEAP_BASE - 1)
    assert not processor.is_heap(HEAP_BASE + 0x4000_0000)
    assert processor.is_stack(STACK_TOP - 1)
    assert processor.is_stack(STACK_TOP - 0x80_0000)
    assert not processor.is_stack(STACK_TOP)
    assert not processor.is_stack(STACK_TOP - 0x80_0000 - 1)


def test_nothing_is_where_nothing_was_mapped(processor: Emulator) -> None:
    for touch in (lambda: processor.read(0x1000, 8), lambda: processor.write(0x1000, b"x")):
        with pytest.raises(Stop, match="access to unmapped memory at 0x1000"):
            touch()
    end = HEAP_BASE + 0x4000_0000
    with pytest.raises(Stop, match=f"access to unmapped memory at {end:#x}"):
        processor.read(end - 4, 8)


WHAT_STOPS = {
    "division by zero": ("31c9 89c8 99 f7f9 c3", "division by zero"),  # xor ecx, ecx; mov eax, ecx; cdq; idiv ecx
    "a system call": ("0f05 c3", "a system call"),
    "unmapped memory": ("48c7c700100000 488b07 c3", "access to unmapped memory at 0x1000"),  # mov rax, [0x1000]
    "a jump to nowhere": ("48c7c000100000 ffe0", "jump to 0x1000, which is not code"),  # mov rax, 0x1000; jmp rax
}


@pytest.mark.parametrize(("code", "reason"), WHAT_STOPS.values(), ids=WHAT_STOPS)
def test_what_ends_a_function_early(processor: Emulator, code: str, reason: str) -> None:
    mapped(processor, bytes.fromhex(code))
    with pytest.raises(Stop, match=reason):
        processor.start(CODE, (), 1_000)


STORE_WORD = bytes.fromhex("488907 c3")  # mov [rdi], rax; ret


@pytest.mark.parametrize("executable", [False, True])
@pytest.mark.parametrize("writable", [False, True])
def test_what_may_be_done_with_a_page(processor: Emulator, writable: bool, executable: bool) -> None:
    page = CODE + PAGE_SIZE
    mapped(processor, STORE_WORD)
    processor.map_page(page, bytes.fromhex("90c3").ljust(PAGE_SIZE, b"\0"), writable=writable, executable=executable)
    with contextlib.nullcontext() if writable else pytest.raises(Stop, match="write to read-only memory"):
        processor.start(CODE, (page + 8,), 100)
    with contextlib.nullcontext() if executable else pytest.raises(Stop, match="which is not code"):
        processor.start(page, (), 100)


@pytest.mark.parametrize("store", ["f3aa c3", "4889 07 c3"], ids=["rep stosb", "mov [rdi], rax"])
def test_a_forbidden_store_ends_a_function_while_answers_are_followed(processor: Emulator, store: str) -> None:
    """An attempt that fails counts as none: otherwise it would be repeated until the budget is used up."""
    page = CODE + PAGE_SIZE
    mapped(processor, bytes.fromhex("b900010000" + store))  # mov ecx, 256
    processor.map_page(page, bytes(PAGE_SIZE), writable=False, executable=False)
    processor.taint.answer("unknown_function", CODE)
    assert processor.taint.is_used
    before = processor.executed
    with pytest.raises(Stop, match="write to read-only memory"):
        processor.start(CODE, (page,), 1_000)
    assert processor.executed - before == 1


def test_nothing_is_read_of_no_memory(processor: Emulator) -> None:
    assert processor.read(HEAP_BASE, 0) == b""
    for address in (0, 1 << 64, -1, (1 << 64) - 4):
        with pytest.raises(Stop, match=f"^access to unmapped memory at {address:#x}$"):
            processor.read(address, 8)
        with pytest.raises(Stop, match=f"^access to unmapped memory at {address:#x}$"):
            processor.write(address, b"x" * 8)


def test_what_is_partly_mapped_is_not_accessed(processor: Emulator) -> None:
    """The first address at which nothing is, says the reason."""
    processor.map_page(CODE, bytes(PAGE_SIZE), writable=True, executable=False)
    end = CODE + PAGE_SIZE
    for touch in (lambda: processor.read(end - 4, 8), lambda: processor.write(end - 4, b"x" * 8)):
        with pytest.raises(Stop, match=f"^access to unmapped memory at {end:#x}$"):
            touch()


def test_pages_of_code_are_counted(processor: Emulator) -> None:
    before = processor.code_pages
    for number, executable in enumerate((True, False, True)):
        processor.map_page(CODE + number * PAGE_SIZE, bytes(PAGE_SIZE), writable=False, executable=executable)
    assert processor.code_pages == before + 2


def test_a_page_that_code_needs_is_mapped_and_counts_once() -> None:
    """Also where an access begins in one page and ends in the next one."""
    pages = list[int]()

    def page_in(address: int) -> bool:
        pages.append(address)
        if not CODE <= address < CODE + 4 * PAGE_SIZE:
            return False
        content = STORE_WORD if address == CODE else b""
        machine.map_page(address, content.ljust(PAGE_SIZE, b"\0"), writable=address > CODE, executable=address == CODE)
        return True

    machine = Emulator(X8664(), pager=page_in, call_out=lambda _: None)
    before = machine.executed
    machine.start(CODE, (CODE + 2 * PAGE_SIZE - 4,), 100)
    assert machine.executed - before == 2
    assert pages == [CODE, CODE + PAGE_SIZE, CODE + 2 * PAGE_SIZE]
    assert machine.read(CODE + 3 * PAGE_SIZE, 4) == bytes(4)  # as it is when a double reads it
    assert pages[-1] == CODE + 3 * PAGE_SIZE
    machine.close()


# push -1 four times, take them back; mov eax, 5; ret
PUSHES = bytes.fromhex("6aff 6aff 6aff 6aff 4883c420 b805000000 c3")
# sub rsp, 0x208; call rdi; add rsp, 0x208; inc rax; ret
CALLS_OUT = bytes.fromhex("4881ec08020000 ffd7 4881c408020000 48ffc0 c3")


def test_what_a_double_calls_back_leaves_its_callers_alone() -> None:
    kept = list[bool]()

    def call_out(_: int) -> None:
        vm = machine.vm
        machine.write(vm.sp + 8, bytes(range(256)) * 2)
        before = vm.sp, vm.pc, machine.read(vm.sp, 0x208)
        answer = machine.call(CODE + PAGE_SIZE)
        kept.append((vm.sp, vm.pc, machine.read(vm.sp, 0x208)) == before)
        vm.reg_write("RAX", 10 * answer)
        vm.pc = machine.arch.leave(vm)

    machine = Emulator(X8664(), pager=lambda _: False, call_out=call_out)
    mapped(machine, CALLS_OUT)
    machine.map_page(CODE + PAGE_SIZE, PUSHES.ljust(PAGE_SIZE, b"\0"), writable=False, executable=True)
    assert machine.start(CODE, (IMPORT_BASE + IMPORT_SLOT,), 1_000) == 51
    assert kept == [True]
    machine.close()


@pytest.mark.parametrize(("times", "ends"), [(59, True), (60, False)])
def test_calls_that_call_back(times: int, ends: bool) -> None:
    """60 calls may be within each other."""
    left = [times]

    def call_out(_: int) -> None:
        left[0] -= 1
        if left[0] >= 0:
            machine.call(CODE, IMPORT_BASE + IMPORT_SLOT)
        machine.vm.pc = machine.arch.leave(machine.vm)

    machine = Emulator(X8664(), pager=lambda _: False, call_out=call_out)
    mapped(machine, CALLS_OUT)
    for _ in range(2):  # what has stopped once can be started anew
        left[0] = times
        with contextlib.nullcontext() if ends else pytest.raises(Stop, match="calls nested too deeply"):
            machine.start(CODE, (IMPORT_BASE + IMPORT_SLOT,), 10_000)
    machine.close()


def test_a_place_that_is_watched_is_reached(processor: Emulator) -> None:
    mapped(processor, bytes.fromhex("4885ff 7402 90 90 c3"))  # test rdi, rdi; je to ret; nop; nop; ret
    processor.watch(CODE + 6)
    assert processor.start(CODE, (0,), 100) == processor.vm.reg_read("RAX")
    assert processor.reached == set()
    processor.start(CODE, (1,), 100)
    assert processor.reached == {CODE + 6}


def in_frame(unknown: Unknown, number: int) -> int:
    """A word of the frame of whoever called, counted from the return address."""
    machine = Emulator(X8664(), pager=lambda _: False, call_out=lambda _: None)
    # mov rax, [rsp + 8 + 8 * number]; ret
    mapped(machine, bytes.fromhex("488b8424") + (8 + 8 * number).to_bytes(4, "little") + b"\xc3")
    machine.forget(unknown)
    found = machine.start(CODE, (), 100)
    machine.close()
    return found


def test_where_nothing_is_known_everything_points_to_itself(processor: Emulator) -> None:
    """Registers, and the words of the frame of whoever called; below, and beyond it, there are no pointers."""
    areas = HEAP_BASE + 0x10_0000
    unknown = processor.unknown(areas)
    processor.forget(unknown)
    pointers = {processor.vm.reg_read(name) for name in processor.arch.registers}
    pointers |= {in_frame(unknown, number) for number in range(96)}
    assert in_frame(unknown, 96) == 2**64 - 1
    assert len(pointers) == len(processor.arch.registers) + 96
    for pointer in pointers:
        assert areas <= pointer < areas + UNKNOWN_SIZE
        assert pointer & 0xFF >= 0x80  # no letter of a text
        assert processor.words(pointer - 0x80, 0x200 // 8) == (pointer,) * (0x200 // 8)
    assert processor.read(STACK_TOP - 0x4000 - 0x100 - 0x200, 0x200) == b"\xff" * 0x200
    assert processor.read(STACK_TOP - 8, 8) == b"\xff" * 8
    assert processor.read(IMPORT_BASE, IMPORT_SLOT) == b"\xff" * IMPORT_SLOT
    assert {processor.vm.reg_read(name) for name in processor.arch.vectors} == {2**64 - 1}
    assert [processor.vectors[number] for number in range(32)] == [b"\xff" * 64] * 32
    assert processor.masks == [0] * 8


def test_vector_registers_are_clear_at_first(processor: Emulator) -> None:
    assert [processor.vectors[number] for number in range(32)] == [bytes(64)] * 32
    assert processor.masks == [0] * 8


# sub rsp, 8; call rdi; add rsp, 8; ret; at 0x100: mov rax, rdi; sub rax, rsi; ret
CALLS, SUBTRACTS = bytes.fromhex("4883ec08 ffd7 4883c408 c3"), bytes.fromhex("4889f8 4829f0 c3")


def test_calls_from_a_double() -> None:
    """One after another there may be any number of them; one within another, not."""
    inner, slot = CODE + 0x100, IMPORT_BASE + IMPORT_SLOT
    found = list[int]()

    def call_out(_: int) -> None:
        found.extend(machine.call(inner, number, 1) for number in range(100))
        machine.vm.reg_write("RAX", machine.call_with_result(inner, 0x1234, 4))  # its place is the first argument
        machine.vm.pc = machine.arch.leave(machine.vm)

    machine = Emulator(X8664(), pager=lambda _: False, call_out=call_out)
    mapped(machine, CALLS.ljust(0x100, b"\0") + SUBTRACTS)
    assert machine.start(CODE, (slot,), 10_000) == 0x1230
    assert found == [2**64 - 1, *range(99)]
    machine.close()
    deep = Emulator(X8664(), pager=lambda _: False, call_out=lambda _: nested())

    def nested() -> None:
        deep.call(CODE, slot)

    mapped(deep, CALLS)
    with pytest.raises(Stop, match="calls nested too deeply"):
        deep.start(CODE, (slot,), 10_000)
    deep.close()
