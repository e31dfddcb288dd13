"""The inventory of what one extension registers, with its numbers named as in the torch that it was built for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from abiscan import emulation
from abiscan.binary.elf import Machine, SharedObject
from abiscan.cache.result_cache import answer_by_content
from abiscan.cpu.needs import CpuAtLoad
from abiscan.dispatch.agreement import drop_contradictions
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.schema import find_syntax_error
from abiscan.dispatch.tags import Tags, tags_of
from abiscan.emulation import recover
from abiscan.extension.built_for import BuiltFor, span, with_keys
from abiscan.gaps import Gap
from abiscan.inputs.files import ElfSource, identify_content
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import Registrations
from abiscan.torches import embedded
from abiscan.torches.layouts import find_layout

if TYPE_CHECKING:
    from abiscan.inputs.sources import Extension

_Found = TypeVar("_Found")

_log = logging.getLogger("abiscan.extension")


class Inventory(Struct, frozen=True, kw_only=True):
    """What one extension registers.

    :ivar path: its path inside the target
    :ivar machine: the machine that it is for
    :ivar origin: what it was built for
    :ivar keys: the numbers of dispatch keys, as the newest of those releases names them
    :ivar tags: the numbers of tags, as the newest of those releases names them
    :ivar registrations: what it registers
    :ivar doubts: the gap that is left if those releases read the numbers differently
    """

    path: str
    machine: Machine
    origin: BuiltFor
    keys: DispatchKeys
    tags: Tags
    registrations: Registrations
    doubts: tuple[Gap, ...]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read, or not for certain."""
        return (*self.registrations.gaps, *self.doubts)

    @property
    def built_for(self) -> tuple[TorchVersion, ...]:
        """The releases it may have been built for, oldest first."""
        return self.origin.releases


def recover_inventory(
    extension: Extension, origin_before: BuiltFor, folder: Path | None = None, recovered: Registrations | None = None
) -> Inventory:
    """Recover what an extension registers.

    :param origin_before: what it was built for, as far as can be inferred without emulating it
    :param folder: where registrations are kept between runs; None to keep none
    :param recovered: what ``recover_registrations`` returned, if it ran already
    """
    facts = extension.facts
    if recovered is None:
        recovered = recover_registrations(extension.source, facts, origin_before.releases, folder)
    used = used_keys(recovered)
    origin = with_keys(origin_before, used, facts.machine)
    for clue in origin.clues:
        _log.debug("%s: %s: %s", extension.path, clue.seen, span(clue.releases))
    _log.debug("%s: built for %s", extension.path, span(origin.releases))
    # The newest release that fits is the likeliest.
    assumed = (origin.releases or embedded.versions())[-1]
    return Inventory(
        machine=facts.machine,
        path=extension.path,
        origin=origin,
        keys=keys_of(assumed),
        tags=tags_of(assumed),
        registrations=recovered,
        doubts=tuple(_doubts_about_keys(used, origin.releases, assumed)),
    )


def recover_registrations(
    source: ElfSource, facts: SharedObject, built_for: Sequence[TorchVersion], folder: Path | None = None
) -> Registrations:
    """Recover what an object registers. Types of kernels that cannot be right are gaps, and left out.

    :param folder: where it is kept between runs; None to recover it in any case
    """
    tail = argument_tail(built_for, facts.machine)

    def recover_anew() -> Registrations:
        _log.debug("recovers what %s registers", source.name)
        return drop_contradictions(recover(source.open_elf(), facts, tail, find_syntax_error))

    # The key has all that the result depends on: the bytes, and the size of c10::Argument.
    return _find_once(folder, source, ["registrations", tail], recover_anew)


def find_cpu_at_load(source: ElfSource, facts: SharedObject, folder: Path | None = None) -> CpuAtLoad:
    """Find what an object needs of the processor while it is loaded.

    :param folder: where it is kept between runs; None to find it in any case
    """

    def find_anew() -> CpuAtLoad:
        _log.debug("finds what %s needs of the processor", source.name)
        return emulation.cpu_at_load(source.open_elf(), facts)

    return _find_once(folder, source, ["cpu"], find_anew)


def find_called_at_start(source: ElfSource, facts: SharedObject, folder: Path | None = None) -> tuple[str, ...]:
    """Find the imported functions that the static initialisers of an object call for certain, in order.

    :param folder: where it is kept between runs; None to find it in any case
    """

    def find_anew() -> tuple[str, ...]:
        _log.debug("finds what the initialisers of %s call", source.name)
        return emulation.called_at_start(source.open_elf(), facts)

    return _find_once(folder, source, ["called at start"], find_anew)


def _find_once(folder: Path | None, source: ElfSource, question: list[object], find: Callable[[], _Found]) -> _Found:
    return find() if folder is None else answer_by_content(folder, identify_content(source), question, find)


def argument_tail(built_for: Sequence[TorchVersion], machine: Machine) -> int | None:
    """Return ``sizeof(c10::Argument)`` without its name, a string of either ABI.

    The result is None unless it is the same in all releases.
    """
    layouts = {find_layout("c10::Argument", str(version), machine) for version in built_for}
    tails = {argument.size - argument.fields[1].offset if argument else None for argument in layouts}
    return tails.pop() if len(tails) == 1 else None


def used_keys(registrations: Registrations) -> list[int]:
    """List the numbers of the dispatch keys that something is registered for."""
    keys = [
        *(library.dispatch_key for library in registrations.libraries),
        *(kernel.dispatch_key for kernel in registrations.kernels),
        *(fallback.dispatch_key for fallback in registrations.fallbacks),
    ]
    return sorted({key for key in keys if isinstance(key, int)})


def _doubts_about_keys(used: list[int], built_for: tuple[TorchVersion, ...], assumed: TorchVersion) -> Iterator[Gap]:
    """Yield a gap if the releases in question have different names for the keys that are used, or none."""
    nameless = [number for number in used if not keys_of(assumed).can_register(number)]
    if nameless:
        numbers = ", ".join(map(str, nameless))
        reason = f"registers for dispatch key {numbers}, which torch {assumed} does not have"
        yield Gap(stage="keys", reason=reason)
    # Different releases do no harm if they name the keys that are used alike.
    readings = {tuple(map(keys_of(version).name, used)) for version in built_for}
    if used and len(readings) != 1:
        if built_for:
            doubt = f"may be built for torch {built_for[0]}-{built_for[-1]}, which number dispatch keys differently"
        else:
            doubt = "built for an unknown torch"
        reason = f"{doubt}; dispatch keys are named as in torch {assumed}"
        yield Gap(stage="keys", reason=reason)
