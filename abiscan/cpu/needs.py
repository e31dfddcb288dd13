"""What code needs of the processor, as facts about files."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from abiscan.binary.machines import Machine
from abiscan.cpu.processors import Cpu, level_of


class CpuUse(Struct, frozen=True, kw_only=True):
    """The first place where code that runs at load uses a feature without checking that the CPU has it.

    Addresses are in the file's own space.

    :ivar address: that of the instruction
    :ivar symbol: the function that it is in
    :ivar initialiser: the address of the function which the loader, or the import of the module, called
    :ivar source: the file and line that the initialiser names
    :ivar in_module: whether only the import of a Python module runs it
    :ivar library: the name of the library that has the instruction, where that is not the file itself
    """

    feature: str
    address: int
    symbol: str | None
    initialiser: int
    source: str | None
    in_module: bool
    library: str | None = None

    @property
    def place(self) -> str:
        """Where the instruction is."""
        place = f" of {self.symbol}" if self.symbol else ""
        return f"instruction at {self.address:#x}{place}" + (f" in {self.library}" if self.library else "")

    def __str__(self) -> str:
        kind = "module initialisation" if self.in_module else "initialiser"
        source = f" ({self.source})" if self.source else ""
        return f"{kind} at {self.initialiser:#x}{source}: {self.place}"


class CpuReach(Struct, frozen=True, kw_only=True):
    """What some code may use of the processor.

    :ivar uses: the features that it uses without checking that the CPU has them
    :ivar behind: the features that it uses only after such a check
    :ivar is_whole: whether all of the code was read
    """

    uses: tuple[CpuUse, ...]
    behind: tuple[str, ...]
    is_whole: bool


class CpuGap(Struct, frozen=True, kw_only=True):
    """Where code stopped, and the features that the rest of it may use; None if those are not known."""

    place: str
    features: tuple[str, ...] | None = None


class CpuAtLoad(Struct, frozen=True, kw_only=True):
    """The features that one file uses while it is loaded.

    :ivar unread: where code stopped that may use more
    """

    uses: tuple[CpuUse, ...] = ()
    unread: tuple[CpuGap, ...] = ()


class CpuNeeds(Struct, frozen=True, kw_only=True):
    """What a load needs of the processor.

    :ivar machine: the machine that the files are for
    :ivar files: by the base name of each file, in the order in which they are initialised
    :ivar operators: what each operator may use when it is called; None if that was not read
    """

    machine: Machine
    files: dict[str, CpuAtLoad]
    operators: dict[str, CpuReach] | None = None

    def first_uses(self) -> dict[str, tuple[str, CpuUse]]:
        """Return the features, each with the file and the place that use it first."""
        by_name: dict[str, tuple[str, CpuUse]] = {}
        for in_module in (False, True):
            for name, file in self.files.items():
                for use in file.uses:
                    if use.in_module is in_module:
                        by_name.setdefault(use.feature, (name, use))
        return by_name

    @property
    def features(self) -> tuple[str, ...]:
        """The features, in alphabetical order."""
        return tuple(sorted(self.first_uses()))

    @property
    def level(self) -> str | None:
        """The level of the x86-64 psABI that has most of them; None for other architectures."""
        return level_of(self.features)[0] if self.machine is Machine.X86_64 else None

    @property
    def summary(self) -> str:
        """What a processor must have: ``x86-64-v3``, ``x86-64-v4 and avx512vnni``, ``lse``; empty for the baseline."""
        return summary(self.machine, self.features)

    def lacking(self, cpu: Cpu) -> dict[str, list[CpuUse]]:
        """Return what a processor lacks, by the file that needs it."""
        lacking: dict[str, list[CpuUse]] = {}
        for name, use in self.first_uses().values():
            if cpu.machine is self.machine and cpu.lacks((use.feature,)):
                lacking.setdefault(name, []).append(use)
        return lacking

    def unread(self, cpu: Cpu) -> Iterator[str]:
        """Yield where code stopped that may need more than a processor has."""
        if cpu.machine is self.machine and not cpu.is_complete:
            for name, file in self.files.items():
                for gap in file.unread:
                    if gap.features is None or cpu.lacks(gap.features):
                        yield f"{name}: {gap.place}"

    def failing_operators(self, cpu: Cpu) -> dict[str, list[CpuUse]]:
        """Return the operators that use what a processor lacks without asking, and where they do."""
        if cpu.machine is not self.machine:
            return {}
        lacking = {
            name: [use for use in reach.uses if cpu.lacks((use.feature,))]
            for name, reach in (self.operators or {}).items()
        }
        return {name: uses for name, uses in lacking.items() if uses}


def summary(machine: Machine, features: tuple[str, ...]) -> str:
    """Return what a processor must have for some features, in words: see ``CpuNeeds.summary``."""
    if machine is not Machine.X86_64:
        return " and ".join(features)
    level, beyond = level_of(features)
    baseline, _ = level_of(())
    return " and ".join((*([] if level == baseline else [level]), *beyond))
