"""What one extension registers, with its numbers named as in the torch that it was built for."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from abiscan import emulation
from abiscan.binary.elf import Machine, SharedObject
from abiscan.cache.answers import by_content
from abiscan.cpu.needs import CpuAtLoad
from abiscan.dispatch.agreement import drop_contradictions
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.schema import find_syntax_error
from abiscan.dispatch.tags import Tags, tags_of
from abiscan.emulation import EmulationGap, Registrations, recover
from abiscan.extension.built_for import BuiltFor, span, with_keys
from abiscan.inputs.files import ElfSource
from abiscan.inputs.sources import Extension
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded
from abiscan.torches.layouts import layout

_log = logging.getLogger("abiscan.extension")


class Inventory(Struct, frozen=True, kw_only=True):
    """What one extension registers.

    ``origin`` is what it was built for; ``keys`` and ``tags`` name the numbers of dispatch keys and tags as in the
    newest of those releases. ``doubts`` is the gap that this leaves if those releases read the numbers differently.
    """

    path: str
    machine: Machine
    origin: BuiltFor
    keys: DispatchKeys
    tags: Tags
    registrations: Registrations
    doubts: tuple[EmulationGap, ...]

    @property
    def gaps(self) -> tuple[EmulationGap, ...]:
        """What could not be read, or not for certain."""
        return (*self.registrations.gaps, *self.doubts)

    @property
    def built_for(self) -> tuple[TorchVersion, ...]:
        """The releases it may have been built for, oldest first."""
        return self.origin.releases


def recover_inventory(
    extension: Extension, known: BuiltFor, folder: Path | None = None, recovered: Registrations | None = None
) -> Inventory:
    """Recover what an extension registers.

    :param known: what it was built for, as far as can be inferred without emulating it
    :param folder: where registrations are kept between runs; None to keep none
    :param recovered: the result of ``registrations``, if it is there
    """
    facts = extension.facts
    if recovered is None:
        recovered = registrations(extension.source, facts, known.releases, folder)
    used = _used_keys(recovered)
    origin = with_keys(known, used, facts.machine)
    for clue in origin.clues:
        _log.debug("%s: %s: %s", extension.path, clue.seen, span(clue.releases))
    _log.debug("%s: built for %s", extension.path, span(origin.releases))
    assumed = (origin.releases or embedded.versions())[-1]
    return Inventory(
        machine=facts.machine,
        path=extension.path,
        origin=origin,
        keys=keys_of(assumed),
        tags=tags_of(assumed),
        registrations=recovered,
        doubts=tuple(_doubts(used, origin.releases, assumed)),
    )


def registrations(
    source: ElfSource, facts: SharedObject, built_for: Sequence[TorchVersion], folder: Path | None = None
) -> Registrations:
    """What an object registers. Types of kernels that cannot be right are gaps, and left out.

    :param folder: where it is kept between runs; None to recover it in any case
    """
    tail = argument_tail(built_for, facts.machine)

    def find() -> Registrations:
        _log.debug("recovers what %s registers", source.name)
        return drop_contradictions(recover(source.open(), facts, tail, find_syntax_error))

    return find() if folder is None else by_content(folder, source.sha256(), ["registrations", tail], find)


def cpu_at_load(source: ElfSource, facts: SharedObject, folder: Path | None = None) -> CpuAtLoad:
    """What an object needs of the processor while it is loaded.

    :param folder: where it is kept between runs; None to find it in any case
    """

    def find() -> CpuAtLoad:
        _log.debug("finds what %s needs of the processor", source.name)
        return emulation.cpu_at_load(source.open(), facts)

    return find() if folder is None else by_content(folder, source.sha256(), ["cpu"], find)


def called_at_start(source: ElfSource, facts: SharedObject, folder: Path | None = None) -> tuple[str, ...]:
    """The imported functions that the static initialisers of an object call for certain, in order.

    :param folder: where it is kept between runs; None to find it in any case
    """

    def find() -> tuple[str, ...]:
        _log.debug("finds what the initialisers of %s call", source.name)
        return emulation.called_at_start(source.open(), facts)

    return find() if folder is None else by_content(folder, source.sha256(), ["called at start"], find)


def argument_tail(built_for: Sequence[TorchVersion], machine: Machine) -> int | None:
    """``sizeof(c10::Argument)`` without its name, a string of either ABI; None unless all releases have the same."""
    layouts = {layout("c10::Argument", str(version), machine) for version in built_for}
    tails = {argument.size - argument.fields[1].offset if argument else None for argument in layouts}
    return tails.pop() if len(tails) == 1 else None


def _used_keys(registrations: Registrations) -> list[int]:
    keys = [
        *(library.dispatch_key for library in registrations.libraries),
        *(kernel.dispatch_key for kernel in registrations.kernels),
        *(fallback.dispatch_key for fallback in registrations.fallbacks),
    ]
    return sorted({key for key in keys if isinstance(key, int)})


def _doubts(used: list[int], built_for: tuple[TorchVersion, ...], assumed: TorchVersion) -> Iterator[EmulationGap]:
    """A gap if the releases in question have different names for the keys that are used, or none."""
    nameless = [number for number in used if not keys_of(assumed).can_register(number)]
    if nameless:
        numbers = ", ".join(map(str, nameless))
        reason = f"registers for dispatch key {numbers}, which torch {assumed} does not have"
        yield EmulationGap(stage="keys", reason=reason, address=None, symbol=None)
    readings = {tuple(map(keys_of(version).name, used)) for version in built_for}
    if used and len(readings) != 1:
        if built_for:
            doubt = f"may be built for torch {built_for[0]}-{built_for[-1]}, which number dispatch keys differently"
        else:
            doubt = "built for an unknown torch"
        reason = f"{doubt}; dispatch keys are named as in torch {assumed}"
        yield EmulationGap(stage="keys", reason=reason, address=None, symbol=None)
