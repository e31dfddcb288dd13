"""From an object's bytes to its registrations: the stages of the emulation in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from abiscan.elf import ElfFile, SharedObject
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.doubles.libstdcxx import LIBSTDCXX
from abiscan.emulation.doubles.torch_legacy import torch_legacy
from abiscan.emulation.doubles.torch_library import torch_library
from abiscan.emulation.doubles.torch_stable import torch_stable
from abiscan.emulation.doubles.torch_types import torch_types
from abiscan.emulation.loader import BASE
from abiscan.emulation.machine import Stop
from abiscan.emulation.model import Gap, Registrations
from abiscan.emulation.process import Double, Process
from abiscan.emulation.recorder import Recorder
from abiscan.emulation.torch_state import TorchState

_STAGE: Final = "emulation"
_INSTRUCTIONS_PER_FUNCTION: Final = 20_000_000
_INSTRUCTIONS_PER_OBJECT: Final = 200_000_000
_CALLS_PER_FUNCTION: Final = 400_000


def recover(file: ElfFile, facts: SharedObject) -> Registrations:
    """Recover everything that an object registers, without running it.

    :param file: the object; its bytes are read as they are needed
    :param facts: what ``file.facts()`` gave
    :returns: the registrations, and a ``Gap`` for everything that could not be read; nothing in the file raises
    """
    return _Recovery(file, facts).run()


class _Recovery:
    def __init__(self, file: ElfFile, facts: SharedObject) -> None:
        self.facts = facts
        self.recorder = Recorder()
        self.gaps: list[Gap] = []
        self.find: Callable[[str], Double | None] = lambda _: None
        self.process = Process(file, facts.machine, self._find_double)
        state = TorchState(self.process, facts.imports, self.recorder)
        self.find = finder(
            (torch_library(state), torch_stable(state), torch_legacy(state), torch_types(state), LIBC, LIBSTDCXX)
        )

    def _find_double(self, name: str) -> Double | None:
        return self.find(name)

    def run(self) -> Registrations:
        for address in self.process.image.initialisers():
            self.emulate(address)
        recorder = self.recorder
        return Registrations(
            libraries=tuple(recorder.libraries),
            operators=tuple(recorder.operators),
            kernels=tuple(recorder.kernels),
            fallbacks=tuple(recorder.fallbacks),
            classes=tuple(recorder.classes.values()),
            registries=tuple(recorder.registries),
            lookups=tuple(recorder.lookups),
            gaps=tuple(self.gaps),
            unknown_calls=tuple(self.process.unknown.most_common()),
        )

    def emulate(self, address: int, *arguments: int) -> None:
        """Run one function to its end, or to a gap."""
        process = self.process
        process.call_limit = process.calls + _CALLS_PER_FUNCTION
        try:
            process.machine.start(address, arguments, _INSTRUCTIONS_PER_FUNCTION)
        except Stop as stop:
            self.gaps.append(Gap(stage=_STAGE, reason=stop.reason, address=self.own(stop.address), symbol=None))

    def own(self, address: int) -> int | None:
        """An address of the emulated space in the file's own, None where it does not lie in the object."""
        return address - BASE if self.process.image.contains(address) else None
