"""What the emulation asks of a processor with its memory; ``by_icicle`` and ``native`` are the two that there are.

A processor is started with ``run``, and stops for a reason: at an import slot, at a page that is not mapped yet, at an
instruction that it does not know. Whoever runs it deals with that, and runs it again.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol

READ, WRITE, EXECUTE = 1, 2, 4  # what code may do with a page


class AccessError(Exception):
    """Nothing is mapped there, or it cannot be written."""


class Stopped(IntEnum):
    """Why a processor stopped. The program counter is at the instruction; those of an access say where that was."""

    NOT = 0
    LIMIT = 1
    BREAKPOINT = 2
    NOT_CODE = 3
    READ_UNMAPPED = 4
    WRITE_UNMAPPED = 5
    WRITE_FORBIDDEN = 6
    CODE_CHANGED = 7
    NO_MEMORY = 8
    DIVISION = 9
    SYSTEM_CALL = 10
    UNKNOWN = 11  # the instruction
    OTHER = 12
    READ_FORBIDDEN = 13


ACCESSES: Final = (Stopped.READ_UNMAPPED, Stopped.WRITE_UNMAPPED)
FORBIDDEN: Final = (Stopped.READ_FORBIDDEN, Stopped.WRITE_FORBIDDEN)


class Vectors(Protocol):
    """The 32 vector registers of x86-64, 64 bytes each."""

    def __getitem__(self, number: int, /) -> bytes: ...

    def __setitem__(self, number: int, value: bytes, /) -> None: ...


class Processor(Protocol):
    """One processor, one address space. Registers have the names of the architecture's manual."""

    architecture: str
    misreads_vectors: bool  # whether it executes some vector instructions wrongly: ``Arch.suspects``
    remembers_code: bool  # whether it keeps what it made of code that ran, until it is told to forget it
    pc: int
    sp: int
    icount: int  # instructions executed, those whose access needed a page that was not mapped included
    icount_limit: int
    faults: int  # how many of them those are
    address: int  # of the access that stopped it
    other: str  # what it says of ``Stopped.OTHER``
    vectors: Vectors
    masks: list[int]  # its mask registers

    def mem_map(self, address: int, size: int, permissions: int, /) -> None:
        """Map zeros in the place of whatever is there; both numbers are multiples of the size of a page."""

    def mem_unmap(self, address: int, size: int, /) -> None:
        """Unmap whatever is there."""

    def mem_read(self, address: int, size: int, /) -> bytes:
        """Return ``size`` bytes at ``address``.

        :raises AccessError: they are not all mapped
        """

    def mem_text(self, address: int, most: int, /) -> bytes:
        """Return the bytes at ``address`` up to a zero byte, which is one of the first so many.

        :raises AccessError: there is none, or they are not all mapped
        """

    def mem_words(self, address: int, count: int, /) -> tuple[int, ...]:
        """Return words of eight bytes at ``address``, as unsigned numbers.

        :raises AccessError: they are not all mapped
        """

    def mem_write(self, address: int, content: bytes, /) -> None:
        """Store bytes, also where code cannot.

        :raises AccessError: not all of it is mapped, or code was executed there
        """

    def guard(self, address: int, size: int, guarded: bool, /) -> None:  # noqa: FBT001 - positional in C
        """Stop at accesses of code to some bytes (``FORBIDDEN``), or no longer.

        :raises AccessError: they are not all mapped; those that are, are guarded
        """

    def reg_read(self, name: str, /) -> int:
        """Return the value of a register."""

    def reg_write(self, name: str, value: int, /) -> None:
        """Set a register. To set 32 bits of a general register clears its upper half."""

    def add_breakpoint(self, address: int, /) -> object:
        """Stop before the instruction at ``address`` is executed."""

    def remove_breakpoint(self, address: int, /) -> object:
        """Do not stop there any more."""

    def run(self) -> int:
        """Run until something happens, and return what."""

    def step(self) -> int:
        """Execute one instruction, whether there is a breakpoint or not; return why it could not be done."""

    def note_extension(self, address: int, /) -> None:
        """Remember such a place, for ``extensions``: those that do not see it themselves are told."""

    def extensions(self, first: int, /) -> list[int]:
        """Return where instructions were executed that not every processor has, each place once, without the first so
        many.
        """

    def forget_code(self) -> None:
        """Forget memory, registers and code; the settings stay."""

    def close(self) -> None:
        """Leave it to the next that needs one: it cannot be used any more."""


def is_mapped(vm: Processor, address: int) -> bool:
    """Whether anything can be read at ``address``."""
    try:
        vm.mem_read(address, 1)
    except (AccessError, OverflowError):
        return False
    return True
