"""The machine and the edges of pages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from abiscan.emulation.arch.x86_64 import X8664
from abiscan.emulation.emulator import HEAP_BASE, IMPORT_BASE, IMPORT_SLOT, PAGE_SIZE, STACK_TOP, Emulator, Stop

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
