"""Which features of the processor the code of an object uses while it is loaded.

The emulated processor says of each feature that it does not have it (``cpuid``, ``getauxval``), so what runs
nevertheless is guarded by nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from abiscan.binary.elf import Machine
from abiscan.cpu.instructions import features_of
from abiscan.cpu.needs import CpuUse
from abiscan.emulation.loader import BASE
from abiscan.emulation.process import EmulatedProcess


class CpuUses:
    """The features used in one process, each where it is used first."""

    def __init__(self, process: EmulatedProcess, machine: Machine) -> None:
        self._process = process
        self._machine = machine
        self._seen = 0
        self.uses: dict[str, CpuUse] = {}

    def take(self, start: int, places: Iterable[str], *, in_module: bool) -> None:
        """Add what was executed since the last time, by the function at ``start``, in the file's own space.

        :param places: the files and lines of source that it names
        """
        machine, image = self._process.machine, self._process.image
        new = machine.vm.extensions(self._seen)
        self._seen += len(new)
        source = next(iter(places), None) if new else None
        for address in new:
            if not image.contains(address):
                continue
            for feature in features_of(self._machine, machine.code_at(address)):
                if feature not in self.uses:
                    self.uses[feature] = CpuUse(
                        feature=feature,
                        address=address - BASE,
                        symbol=image.symbol_around(address - BASE),
                        initialiser=start,
                        source=source,
                        in_module=in_module,
                    )
