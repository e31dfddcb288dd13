"""The machine and the edges of pages."""

from __future__ import annotations

import pytest

from abiscan.emulation.arch.x86_64 import X8664
from abiscan.emulation.emulator import PAGE_SIZE, Emulator

CODE = 0x10_0000
# push 5; mov rax, rsp; mov edx, 3; lock xadd [rax], edx; pop rax; ret
BEFORE, ADD, AFTER = bytes.fromhex("6a054889e0ba03000000"), bytes.fromhex("f00fc110"), bytes.fromhex("58c3")


@pytest.mark.parametrize("inside", range(len(ADD) + 1))
def test_an_instruction_in_two_pages(inside: int) -> None:
    """Its first bytes alone may be no instruction: the page with the rest comes when it is needed."""
    start = PAGE_SIZE - len(BEFORE) - inside
    content = (bytes(start) + BEFORE + ADD + AFTER).ljust(2 * PAGE_SIZE, b"\0")

    def page_in(address: int) -> bool:
        at = address - CODE
        if not 0 <= at < len(content):
            return False
        machine.map_page(address, content[at : at + PAGE_SIZE], writable=False, executable=True)
        return True

    machine = Emulator(X8664(), pager=page_in, call_out=lambda _: None)
    assert machine.start(CODE + start, (), 1_000) == 8
