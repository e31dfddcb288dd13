"""The end of a process at an instruction that its processor does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from abiscan.cpu.needs import CpuNeeds, CpuUse
from abiscan.cpu.processors import Cpu
from abiscan.linkage.model import LoadError

MESSAGE: Final = "Illegal instruction"
SIGNAL: Final = 4  # SIGILL on Linux, of all architectures


class IllegalInstruction(Struct, frozen=True, kw_only=True):
    """The end of a load at an instruction that a processor does not have.

    :ivar cpu: the processor
    :ivar object: the base name of the file with the instruction
    :ivar uses: the places of that file where the processor would stop; the load ends at the first
    """

    cpu: Cpu
    object: str
    uses: tuple[CpuUse, ...]

    @property
    def in_module(self) -> bool:
        """Whether that only happens when the Python module is imported."""
        return all(use.in_module for use in self.uses)

    @property
    def error(self) -> LoadError:
        """The error as a shell or a parent process sees it: a signal."""
        return LoadError(object=None, message=MESSAGE, aborts=True, signal=SIGNAL)


def illegal_instructions(needs: CpuNeeds | None, cpus: Sequence[Cpu]) -> tuple[IllegalInstruction, ...]:
    """Find where the load ends on processors that lack what it needs: one place for each processor and file."""
    return tuple(
        IllegalInstruction(cpu=cpu, object=name, uses=tuple(uses))
        for cpu in cpus
        for name, uses in (needs.lacking(cpu) if needs else {}).items()
    )
