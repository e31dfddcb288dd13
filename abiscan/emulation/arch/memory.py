"""Memory, as instructions see it that are done in Python."""

from __future__ import annotations

from typing import Protocol

from icicle import Icicle, MemoryException  # type: ignore[import-untyped]


class Memory(Protocol):
    """The memory of the emulated process; what is not mapped yet is mapped by asking for it.

    ``upper_halves`` are bits 128 to 255 of the sixteen vector registers of x86-64, sixteen bytes each; ``helpers`` is
    where the architecture's own code lies.
    """

    upper_halves: list[bytes]
    helpers: int

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes at ``address``."""

    def write(self, address: int, data: bytes) -> None:
        """Store ``data`` at ``address``."""


def is_mapped(vm: Icicle, address: int) -> bool:
    """Whether anything can be read at ``address``."""
    try:
        vm.mem_read(address, 1)
    except (MemoryException, OverflowError):
        return False
    return True
