"""The room in the static block (glibc: elf/dl-tls.c, elf/dl-reloc.c)."""

from __future__ import annotations

from abiscan.linkage.model import Module
from abiscan.linkage.static_tls import StaticBlock
from tests.world import shared_object


def module(size: int) -> Module:
    return Module(path=f"lib{size}.so", facts=shared_object(static_tls=size))


def test_the_surplus_is_shared() -> None:
    block = StaticBlock([module(144)])  # as in a Python whose libc has 144 bytes: 1712 are left
    assert block.make_room(module(1600))
    assert not block.make_room(module(128))
    assert block.make_room(module(96))
    assert not block.make_room(module(32))


def test_a_module_has_its_place_once() -> None:
    block, large = StaticBlock([]), module(1600)
    assert all(block.make_room(large) for _ in range(3))


def test_what_the_program_started_with_has_room() -> None:
    large = module(100_000)
    assert StaticBlock([large]).make_room(large)


def test_a_library_that_was_not_found_may_need_nothing() -> None:
    assert StaticBlock([]).make_room(Module(path="libgone.so", facts=None))
