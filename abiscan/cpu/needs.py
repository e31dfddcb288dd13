"""What code needs of the processor, as facts about files."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.cpu.processors import Cpu, level_of


class CpuUse(Struct, frozen=True, kw_only=True):
    """The first place where code that runs at load uses a feature without asking whether the processor has it.

    Addresses are in the file's own space: ``address`` is that of the instruction, in the function ``symbol``, and
    ``initialiser`` that of the function which the loader, or the import of the module, called. ``source`` is the file
    and line that the initialiser names. ``in_module`` is true of what only the import of a Python module runs.
    """

    feature: str
    address: int
    symbol: str | None
    initialiser: int
    source: str | None
    in_module: bool

    def __str__(self) -> str:
        kind = "module initialisation" if self.in_module else "initialiser"
        source, place = f" ({self.source})" if self.source else "", f" of {self.symbol}" if self.symbol else ""
        return f"{kind} at {self.initialiser:#x}{source}: instruction at {self.address:#x}{place}"


class CpuAtLoad(Struct, frozen=True, kw_only=True):
    """The features that one file uses while it is loaded. ``unread`` says where code stopped that may use more."""

    uses: tuple[CpuUse, ...] = ()
    unread: tuple[str, ...] = ()


class CpuNeeds(Struct, frozen=True, kw_only=True):
    """What a load needs of the processor: by the base name of each file, in the order in which they are initialised."""

    machine: Machine
    files: dict[str, CpuAtLoad]

    def first(self) -> dict[str, tuple[str, CpuUse]]:
        """The features, each with the file and the place that use it first."""
        found: dict[str, tuple[str, CpuUse]] = {}
        for in_module in (False, True):
            for name, file in self.files.items():
                for use in file.uses:
                    if use.in_module is in_module:
                        found.setdefault(use.feature, (name, use))
        return found

    @property
    def features(self) -> tuple[str, ...]:
        """The features, in alphabetical order."""
        return tuple(sorted(self.first()))

    @property
    def level(self) -> str | None:
        """The level of the x86-64 psABI that has most of them; None for other architectures."""
        return level_of(self.features)[0] if self.machine is Machine.X86_64 else None

    @property
    def summary(self) -> str:
        """What a processor must have: ``x86-64-v3``, ``x86-64-v4 and avx512vnni``, ``lse``; empty for the baseline."""
        return summary(self.machine, self.features)

    def lacking(self, cpu: Cpu) -> dict[str, list[CpuUse]]:
        """What a processor lacks, by the file that needs it."""
        lacking: dict[str, list[CpuUse]] = {}
        for name, use in self.first().values():
            if cpu.machine is self.machine and cpu.lacks((use.feature,)):
                lacking.setdefault(name, []).append(use)
        return lacking

    def unread(self, cpu: Cpu) -> Iterator[str]:
        """Where code stopped that may need more than a processor has."""
        if cpu.machine is self.machine and not cpu.is_complete:
            for name, file in self.files.items():
                yield from (f"{name}: {place}" for place in file.unread)


def summary(machine: Machine, features: tuple[str, ...]) -> str:
    """What a processor must have for some features, in words: see ``CpuNeeds.summary``."""
    if machine is not Machine.X86_64:
        return " and ".join(features)
    level, beyond = level_of(features)
    baseline, _ = level_of(())
    return " and ".join((*([] if level == baseline else [level]), *beyond))
