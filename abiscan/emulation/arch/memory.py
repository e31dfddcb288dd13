"""Memory, for instructions that are executed in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from abiscan.emulation.processor import Vectors


class Memory(Protocol):
    """The memory of the emulated process; a page that is not mapped yet is mapped on access.

    :ivar vectors: the 32 vector registers of x86-64, 64 bytes each (the first 16 of the first 16 are the emulator's,
        and mean nothing here)
    :ivar masks: its mask registers
    :ivar helpers: where the architecture's own code lies
    :ivar floats: the unit for ``long double`` once there is one
    """

    vectors: Vectors
    masks: list[int]
    helpers: int
    floats: Any

    def unknown_answer(self, name: str, address: int, registers: Sequence[str]) -> int:
        """Return what an instruction puts into registers that tells what machine this is: nobody knows."""

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at ``address``."""

    def write(self, address: int, content: bytes) -> None:
        """Store ``content`` at ``address``."""
