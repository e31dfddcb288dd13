"""What code needs of the processor, as facts about one file."""

from __future__ import annotations

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.cpu.processors import level_of


class CpuUse(Struct, frozen=True, kw_only=True):
    """The first place where code that runs at load uses a feature without asking whether the processor has it.

    Addresses are in the file's own space: ``address`` is that of the instruction, in the function ``symbol``, and
    ``initialiser`` that of the function which the loader, or the import of the module, called. ``source`` is where
    that comes from, as far as the file tells. ``in_module`` is true of what only the import of a Python module runs.
    """

    feature: str
    address: int
    symbol: str | None
    initialiser: int
    source: str | None
    in_module: bool

    def __str__(self) -> str:
        kind = "PyInit function" if self.in_module else "initialiser"
        place = f" in {self.symbol}" if self.symbol else ""
        return f"{kind} at {self.initialiser:#x}{f' ({self.source})' if self.source else ''}: {self.address:#x}{place}"


def summary(machine: Machine, features: tuple[str, ...]) -> str:
    """What a processor must have for some features: ``x86-64-v3``, ``x86-64-v4 and avx512vnni``, ``lse and sve``."""
    if machine is not Machine.X86_64:
        return " and ".join(features)
    level, beyond = level_of(features)
    words = (*([] if level == "x86-64" else [level]), *beyond)
    return " and ".join(words)
