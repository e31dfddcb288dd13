"""What a torch does about the registrations of extensions: they are recovered, then replayed on its operators.

Everything here takes the emulator and the model of the dispatcher, whose import alone takes longer than to check a
small extension: import this module where an extension registers something.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from packaging.version import Version

from abiscan.dispatch.adapters import events_of, state_of
from abiscan.dispatch.dispatcher import Event, OutcomeKind, State, replay
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.messages import Release
from abiscan.emulation import LibraryKind, Phase, Registrations, recover
from abiscan.files import DiskFile, ElfSource, Files
from abiscan.inventory import Inventory, candidates, recovered
from abiscan.linkage.model import Resolution
from abiscan.linkage.registering import Reaction, Registering
from abiscan.linkage.resolve import relocation_order
from abiscan.ownership import is_torch_library, registers
from abiscan.releases import embedded
from abiscan.releases.model import TorchRelease
from abiscan.releases.operators import Operators
from abiscan.sources import Extension, Target

OperatorsFor: TypeAlias = Callable[[TorchRelease, Collection[str]], Operators | None]
"""The operators of a torch, at least those that are named; None where they are not at hand."""

_LOADED = (Phase.STATIC_INIT, Phase.MODULE_INIT)
# What a module made with pybind11 imports to turn whatever is thrown in PyInit_* into an ImportError.
_CATCHING = frozenset({"__cxa_begin_catch", "PyExc_ImportError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """One object of a process. ``identity`` tells files apart as ``ld.so`` does, whatever they are called."""

    name: str
    identity: object
    registrations: Registrations
    phases: tuple[Phase, ...]
    catches: bool

    def events(self, keys: DispatchKeys) -> Iterator[tuple[Event, Phase]]:
        for phase in self.phases:
            for event in events_of(self.registrations, keys, phase):
                yield event, phase

    @property
    def registers(self) -> bool:
        """Whether it registers anything."""
        registered = self.registrations
        lists = (registered.libraries, registered.operators, registered.kernels, registered.fallbacks)
        return any((*lists, registered.classes))

    @property
    def operators(self) -> set[str]:
        """What it defines or implements."""
        registered = self.registrations
        return {each.name for each in registered.operators} | {each.operator for each in registered.kernels}

    def holds(self, subject: str) -> bool:
        """Whether it is this that registers an operator, a namespace or a class."""
        registered = self.registrations
        return (
            any(subject == each.name for each in registered.operators)
            or any(subject == each.name for each in registered.classes)
            or any(subject == each.operator for each in registered.kernels)
            or any(subject == each.namespace for each in registered.libraries if each.kind is LibraryKind.DEF)
        )


@dataclass(slots=True, kw_only=True)
class Replayer:
    """Replays what extensions register on one torch.

    Each extension is put into a process of its own, on top of what has been kept there: ``keep`` leaves one for those
    that follow.
    """

    files: Files
    operators_for: OperatorsFor
    _inventories: dict[str, Inventory] = field(default_factory=dict)
    _brought: dict[str, Registrations] = field(default_factory=dict)
    _candidates: dict[str, tuple[Version, ...]] = field(default_factory=dict)
    _kept: list[_Object] = field(default_factory=list)

    def replay(
        self, target: Target, extension: Extension, resolution: Resolution, release: TorchRelease
    ) -> Registering:
        """What the torch does about one extension and the libraries that it brings along."""
        inventory = self._inventory(target, extension)
        brought = dict(self._libraries(resolution))
        own = self._own(extension, inventory)
        objects = [*brought.values(), own]
        loaded = {kept.identity for kept in self._kept}
        new = [each for each in objects if each.identity not in loaded]
        names = {name for each in (*self._kept, *objects) for name in each.operators}
        operators = self.operators_for(release, names) if any(each.registers for each in new) else None
        version = Version(release.version) if release.version else embedded.versions()[-1]
        keys = (
            DispatchKeys(minor=f"{version.major}.{version.minor}", names=operators.keys)
            if operators
            else keys_of(version)
        )
        return Registering(
            own=inventory.registrations,
            brought={each.name: each.registrations for each in brought.values()},
            built_for=inventory.built_for,
            meant=inventory.keys,
            keys=keys,
            operators=operators,
            reactions=tuple(_reactions(self._kept, new, operators, keys, (version.major, version.minor))),
        )

    def _inventory(self, target: Target, extension: Extension) -> Inventory:
        if target.name not in self._candidates:
            self._candidates[target.name] = candidates(target)
        if extension.location not in self._inventories:
            self._inventories[extension.location] = recovered(extension, self._candidates[target.name])
        return self._inventories[extension.location]

    def _own(self, extension: Extension, inventory: Inventory) -> _Object:
        return _Object(
            name=posixpath.basename(extension.path),
            identity=_identity(extension.source, extension.location),
            registrations=inventory.registrations,
            phases=(*_LOADED, Phase.ON_CALL),
            catches=extension.facts.imports >= _CATCHING,
        )

    def _libraries(self, resolution: Resolution) -> Iterator[tuple[str, _Object]]:
        """The libraries that the extension brings along and that register, in the order of their initialisation."""
        for module in relocation_order(resolution.closure):
            if module is resolution.closure.modules[0] or module.facts is None or is_torch_library(module.name):
                continue
            source = self.files.source(module.path)
            if source is not None and registers(module.facts.imports):
                if module.path not in self._brought:
                    self._brought[module.path] = recover(source.open(), module.facts)
                yield (
                    module.path,
                    _Object(
                        name=module.name,
                        identity=_identity(source, module.path),
                        registrations=self._brought[module.path],
                        phases=(Phase.STATIC_INIT,),
                        catches=False,
                    ),
                )


def _identity(source: ElfSource, path: str) -> object:
    if isinstance(source, DiskFile):
        status = os.stat(source.path)  # noqa: PTH116
        return status.st_dev, status.st_ino
    return path


def _reactions(
    before: Sequence[_Object],
    objects: Sequence[_Object],
    operators: Operators | None,
    keys: DispatchKeys,
    release: Release,
) -> Iterator[Reaction]:
    """What torch does about ``objects``, after ``before``."""
    names = {name for each in (*before, *objects) for name in each.operators}
    state = state_of(operators, release, names) if operators else State()
    loaded = [(each, event, phase) for each in before for event, phase in each.events(keys) if phase in _LOADED]
    ours = [(each, event, phase) for each in objects for event, phase in each.events(keys)]
    in_load = [one for one in ours if one[2] in _LOADED]
    on_call = [one for one in ours if one[2] not in _LOADED]
    sources = {id(event): (each, phase) for each, event, phase in (*in_load, *on_call)}
    result = replay(state, (event for _, event, _ in (*loaded, *in_load)), release)
    outcomes = list(result.outcomes)
    if on_call and result.failure is None:
        # What is there once the extension is loaded; of the rest, each function is called by itself, or not at all.
        called = replay(result.state, (event for _, event, _ in on_call), release)
        outcomes += called.outcomes
    for outcome in outcomes:
        if id(outcome.event) not in sources or (operators is None and outcome.kind is OutcomeKind.DEAD):
            continue
        each, phase = sources[id(outcome.event)]
        others = (other for other in (*before, *objects) if other is not each and other.holds(outcome.subject))
        yield Reaction(
            outcome=outcome,
            object=each.name,
            phase=phase,
            met=next((other.name for other in others), None),
            aborts=phase is Phase.STATIC_INIT or (phase is Phase.MODULE_INIT and not each.catches),
        )
