"""Replay the registrations of extensions on the operators of a torch, to see how torch reacts.

This module needs the emulator and the model of the dispatcher. Importing these takes longer than checking a small
extension, so import this module only for an extension that registers something.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec.structs
from msgspec import Struct, field

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import is_torch_library
from abiscan.binary.registration_api import registers_anything
from abiscan.dispatch.adapters import state_of
from abiscan.dispatch.dispatcher import replay_events
from abiscan.dispatch.inference import classes_in
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.operators import Operators
from abiscan.dispatch.outcomes import Outcome, OutcomeKind
from abiscan.dispatch.registries import entry_key
from abiscan.dispatch.state import State
from abiscan.extension.backend import brought_backend
from abiscan.extension.examined import ExaminedExtension, is_own_code
from abiscan.inputs.files import DiskFile, ElfSource, Files
from abiscan.inputs.interpreter import PythonTag
from abiscan.inputs.sources import Target
from abiscan.inputs.version import MinorVersion, TorchVersion
from abiscan.linkage.model import Absence, Resolution
from abiscan.linkage.registering import Backend, Reaction, Registering
from abiscan.linkage.resolve import relocation_order
from abiscan.registrations import (
    CustomClass,
    Library,
    LibraryKind,
    Phase,
    ProcessEnd,
    RegisteredFallback,
    RegisteredOperator,
    Registration,
    Registrations,
    Registry,
)
from abiscan.torches import embedded, embedded_registries
from abiscan.torches.model import TorchRelease
from abiscan.torches.torch import LinuxTorch

_log = logging.getLogger("abiscan.dispatch")

_EMULATION = "emulation"  # the stage of the gaps that may hide a registration
_LOADED = (Phase.STATIC_INIT, Phase.MODULE_INIT)
# A module made with pybind11 imports these to turn any exception in PyInit_* into an ImportError.
_CATCHING = frozenset({"__cxa_begin_catch", "PyExc_ImportError"})


class Registrant(Struct, frozen=True, kw_only=True):
    """One object of a process.

    :ivar name: its base name
    :ivar identity: what tells files apart as ``ld.so`` does, regardless of their names
    :ivar registrations: what it registers
    :ivar phases: when it does, in order
    :ivar catches: whether its module turns exceptions into an ImportError
    """

    name: str
    identity: object
    registrations: Registrations
    phases: tuple[Phase, ...]
    catches: bool

    @property
    def calls(self) -> Iterator[Registration]:
        """What it registers, as the torch comes to it."""
        for phase in self.phases:
            yield from self.registrations.dispatched_in(phase)

    @property
    def registers(self) -> bool:
        """Whether it registers anything."""
        return any(not isinstance(record, ProcessEnd) for record in self.registrations.in_order)

    def doubts(self, record: Registration) -> bool:
        """Whether a registration may be another one in a real process."""
        first = self.registrations.doubtful_from
        return first is not None and record.order >= first

    @property
    def operators_without_schema(self) -> set[str]:
        """The operators that it defines with a schema that could not be read."""
        return {operator.name for operator in self.registrations.operators if operator.schema is None}

    @property
    def is_unread(self) -> bool:
        """Whether it may register more than what could be read."""
        return any(gap.stage == _EMULATION for gap in self.registrations.gaps)

    @property
    def lookups(self) -> set[str]:
        """The operators that its code looks up by name."""
        return {lookup.operator for lookup in self.registrations.lookups}

    @property
    def operators(self) -> set[str]:
        """The operators that it defines or implements."""
        registered = self.registrations
        return {operator.name for operator in registered.operators} | {kernel.operator for kernel in registered.kernels}

    def conflicts_in(self, outcome: Outcome, keys: DispatchKeys) -> bool:
        """Tell whether it made the registration that ``outcome`` conflicts with."""
        registered, subject = self.registrations, outcome.subject
        match outcome.event:
            case RegisteredFallback():
                fallbacks = registered.fallbacks
                return any(subject == keys.registered_name(fallback.dispatch_key) for fallback in fallbacks)
            case Library():
                definitions = (block for block in registered.libraries if block.kind is LibraryKind.DEF)
                return any(subject == block.namespace for block in definitions)
            case CustomClass():
                return any(subject == custom_class.name for custom_class in registered.classes)
            case Registry(names_backend=True):
                return any(outcome.old == entry.key for entry in registered.registries)
            case Registry() as event:
                entries = ((entry.what, entry_key(entry.what, entry.key)) for entry in registered.registries)
                return (event.what, entry_key(event.what, event.key)) in entries
        if outcome.kind is OutcomeKind.RAISES and (outcome.message is None or outcome.message.id != "K1"):
            return any(subject == operator.name for operator in registered.operators)
        # The model does not say for which key; of two objects with kernels of one operator it is most likely the same.
        return any(subject == kernel.operator for kernel in registered.kernels)


class _Kept(Struct, frozen=True, kw_only=True):
    """An object that is in the process already.

    :ivar package: the package it comes from
    :ivar python: the Python that it is for; None for any
    """

    registrant: Registrant
    package: str
    machine: Machine
    python: PythonTag | None

    def may_share_process(self, examined: ExaminedExtension) -> bool:
        """Whether a process can have both: no processor or Python runs what is for another one."""
        python = _python_of(examined)
        return self.machine is examined.facts.machine and (None in (self.python, python) or self.python == python)


class Replayer(Struct, kw_only=True):
    """Replays what extensions register on one torch.

    Each extension is loaded into a process of its own, after the extensions that were kept: ``keep`` keeps one for the
    extensions that follow. Other builds of the same package are not among them, unless ``together`` says that what is
    kept is what the package itself loads.
    """

    torch: LinuxTorch
    files: Files
    together: bool = False
    _kept: list[_Kept] = field(default_factory=list)
    _operators: dict[object, Operators] = field(default_factory=dict)
    _reactions: dict[object, tuple[object, tuple[Reaction, ...]]] = field(default_factory=dict)
    _backends: dict[object, tuple[object, Backend | None]] = field(default_factory=dict)

    def copy(self, *, together: bool | None = None) -> Replayer:
        """Return a replayer that has the same loaded, to which more can be added; what torches answered is shared."""
        together = self.together if together is None else together
        return msgspec.structs.replace(self, _kept=list(self._kept), together=together)

    @property
    def has_any(self) -> bool:
        """Whether any extension was kept."""
        return bool(self._kept)

    def replay(self, examined: ExaminedExtension, resolution: Resolution, release: TorchRelease) -> Registering:
        """Replay one extension and the libraries that it brings along; return how the torch reacts."""
        inventory = examined.inventory
        objects = self._objects_of(examined, resolution)
        before = self._loaded_before(examined)
        loaded = {registrant.identity for registrant in before}
        new = [registrant for registrant in objects if registrant.identity not in loaded]
        # Only the operators that are concerned are looked up: a torch has thousands.
        names = {name for registrant in (*before, *new) for name in (*registrant.operators, *registrant.lookups)}
        registers_any = any(registrant.registers for registrant in objects)
        has_entries = any(registrant.registrations.registries for registrant in new)
        operators = self._operators_of(release, frozenset(names), has_entries=has_entries) if registers_any else None
        version = release.torch_version or embedded.versions()[-1]
        minor = version.minor_version
        keys = DispatchKeys(minor=minor, names=operators.keys) if operators and operators.keys else keys_of(version)
        unread = (Absence.EXTERNAL, Absence.WITH_TORCH)
        # A class that a schema names may be registered by a library that was not found: then it is assumed to be.
        is_absent = any(library.absence in unread for library in resolution.closure.missing)
        is_unknown = is_absent or any(registrant.is_unread for registrant in (*before, *new))
        assumed = _assumed_classes(before, new, operators, minor) if is_unknown else frozenset()
        of_release = msgspec.structs.replace(keys, minor=minor)  # which may be newer than the table of its keys
        every_reaction = self._reactions_to(before, new, operators, of_release, assumed)
        for reaction in every_reaction:
            _log.debug("%s: %s: %s", reaction.object, reaction.outcome.kind.value, _in_words(reaction))
        return Registering(
            own=inventory.registrations,
            bundled={registrant.name: registrant.registrations for registrant in objects[:-1]},
            built_for=inventory.built_for,
            keys_built_for=inventory.keys,
            doubts=inventory.doubts,
            keys=keys,
            operators=operators,
            reactions=tuple(reaction for reaction in every_reaction if not _is_defined_by_sibling(examined, reaction)),
            assumed_classes=tuple(sorted(assumed)),
            # The package that has the device has the kernels.
            backend=None
            if (metadata := examined.target.metadata) and metadata.brings_device
            else self._backend_of(objects, inventory.built_for, version, release),
        )

    def _operators_of(self, release: TorchRelease, names: frozenset[str], *, has_entries: bool) -> Operators:
        """Return the torch's operators: the same object to all that ask for the same ones.

        :param has_entries: whether those of torch's other registries matter
        """
        key = release, names, has_entries
        if key not in self._operators:
            operators = self.torch.operators(release).look_up(names)
            if has_entries and operators.entries is None:
                entries = embedded_registries.entries(operators.build or "", release.machine)
                operators = msgspec.structs.replace(operators, entries=entries)
            self._operators[key] = operators
        return self._operators[key]

    def _reactions_to(
        self,
        before: Sequence[Registrant],
        new: Sequence[Registrant],
        operators: Operators | None,
        keys: DispatchKeys,
        assumed: frozenset[str],
    ) -> tuple[Reaction, ...]:
        """Return how torch reacts to objects: once for all extensions that are loaded with what registers the same."""
        before, new = _registering(before), _registering(new)
        key = (*map(_key_of, before), None, *map(_key_of, new), id(operators), keys.minor, assumed)
        if key not in self._reactions:
            reactions = tuple(find_reactions(before, new, operators, keys, assumed))
            self._reactions[key] = (before, new, operators), reactions  # which keeps their ids unique
        return self._reactions[key][1]

    def _backend_of(
        self,
        objects: Sequence[Registrant],
        built_for: tuple[TorchVersion, ...],
        version: TorchVersion,
        release: TorchRelease,
    ) -> Backend | None:
        """Return the backend that objects provide: one for all extensions that are loaded with what registers it."""
        registered = [registrant.registrations for registrant in _registering(objects)]
        key = *map(id, registered), built_for, version, release.machine
        if key not in self._backends:
            look_up = self.torch.operators(release).look_up
            backend = brought_backend(registered, built_for, version, release.machine, look_up)
            self._backends[key] = registered, backend  # which keeps their ids unique
        return self._backends[key][1]

    def namespaces(self, examined: ExaminedExtension, resolution: Resolution) -> set[str]:
        """Return the namespaces in which an extension, and the libraries that it brings along, define operators."""
        registered = (registrant.registrations for registrant in self._objects_of(examined, resolution))
        return {
            operator.name.partition("::")[0] for registrations in registered for operator in registrations.operators
        }

    def keep(self, examined: ExaminedExtension, resolution: Resolution, registering: Registering) -> None:
        """Keep an extension that loads in the process, for the extensions of other targets.

        Files of one wheel may be alternatives, of which only one is loaded. Those that cannot be loaded together with
        what is already loaded are left out.
        """
        before = [kept.registrant for kept in self._kept if kept.may_share_process(examined)]
        loaded = {registrant.identity for registrant in before}
        new = [registrant for registrant in self._objects_of(examined, resolution) if registrant.identity not in loaded]
        assumed = frozenset(registering.assumed_classes)
        new_reactions = self._reactions_to(before, new, registering.operators, registering.keys, assumed)
        if self.together or not any(reaction.fails and reaction.in_load for reaction in new_reactions):
            package, machine, python = _package_of(examined.target), examined.facts.machine, _python_of(examined)
            self._kept += (
                _Kept(registrant=registrant, package=package, machine=machine, python=python) for registrant in new
            )

    def _loaded_before(self, examined: ExaminedExtension) -> list[Registrant]:
        """Return the objects loaded before an extension: no other build of the same package."""
        package = None if self.together else _package_of(examined.target)
        return [kept.registrant for kept in self._kept if kept.package != package and kept.may_share_process(examined)]

    def _objects_of(self, examined: ExaminedExtension, resolution: Resolution) -> list[Registrant]:
        """Return the libraries with registrations that an extension brings along, as they are initialised, then
        itself.
        """
        own = Registrant(
            name=examined.name,
            identity=_identity_of(examined.extension.source, examined.extension.location),
            registrations=examined.inventory.registrations,
            phases=(*_LOADED, Phase.ON_CALL),
            catches=examined.facts.imports >= _CATCHING,
        )
        return [*self._libraries_of(examined, resolution), own]

    def _libraries_of(self, examined: ExaminedExtension, resolution: Resolution) -> Iterator[Registrant]:
        """Yield the libraries with registrations that an extension brings along, in initialisation order."""
        built_for = examined.inventory.built_for
        # Initialisers run in the order of relocation: dependencies first (_dl_init).
        for module in relocation_order(resolution.closure):
            if module is resolution.closure.modules[0] or module.facts is None or is_torch_library(module.name):
                continue
            source = self.files.find_source(module.path)
            registers = registers_anything(module.facts.imports)
            if source is None or not (registers or is_own_code(examined.target, module)):
                continue
            identity = _identity_of(source, module.path)
            registrations = examined.owner.registrations_of_library(identity, source, module.facts, built_for)
            if not registers and not registrations.may_end_load:
                continue
            yield Registrant(
                name=module.name,
                identity=identity,
                registrations=registrations,
                phases=(Phase.STATIC_INIT,),
                catches=False,
            )


def _registering(registrants: Sequence[Registrant]) -> list[Registrant]:
    """Return the objects to which torch may react."""
    return [registrant for registrant in registrants if registrant.registrations.in_order]


def _key_of(registrant: Registrant) -> object:
    return registrant.name, id(registrant.registrations), registrant.phases, registrant.catches


def _in_words(reaction: Reaction) -> str:
    """Word a reaction for a trace."""
    message = reaction.outcome.message
    return f"{reaction.outcome.subject}{f': {message.text}' if message else ''} ({reaction.outcome.event})"


def _is_defined_by_sibling(examined: ExaminedExtension, reaction: Reaction) -> bool:
    """Tell whether another extension of the target defines the operator of a kernel that is otherwise dead."""
    if reaction.outcome.kind is not OutcomeKind.DEAD:
        return False
    machine = examined.facts.machine
    siblings = (sibling for sibling in examined.owner.extensions if sibling is not examined)
    sibling_extensions = (
        sibling
        for sibling in siblings
        if sibling.facts.machine is machine and registers_anything(sibling.facts.imports)
    )
    return any(
        reaction.outcome.subject == operator.name
        for sibling in sibling_extensions
        for operator in sibling.inventory.registrations.operators
    )


def _package_of(target: Target) -> str:
    """Return the package that a target is a build of: the name of an archive's; other targets stand for themselves."""
    return Path(target.name).name.partition("-")[0].lower() if target.kind.is_archive else target.name


def _python_of(examined: ExaminedExtension) -> PythonTag | None:
    """Return the Python that an extension is for, by its name or that of its wheel; None for any."""
    return PythonTag.of_file(examined.name) or PythonTag.of_wheel(examined.target.name)


def _identity_of(source: ElfSource, path: str) -> object:
    """Return the identity of a file for ``ld.so``, which does not go by names."""
    if isinstance(source, DiskFile):
        status = source.path.stat()
        return status.st_dev, status.st_ino
    return path, source.identify_version()


def _assumed_classes(
    before: Sequence[Registrant], objects: Sequence[Registrant], operators: Operators | None, release: MinorVersion
) -> frozenset[str]:
    """Return the custom classes that schemas of ``objects`` name and that nothing at hand registers."""
    texts = (
        record.text for registrant in objects for record in registrant.calls if isinstance(record, RegisteredOperator)
    )
    # Assumed rather than missed: a class that is wrongly taken as absent would be a false alarm.
    named = frozenset[str]().union(*(classes_in(text, release) for text in texts))
    registered = {cls.name for registrant in (*before, *objects) for cls in registrant.registrations.classes}
    return named - registered - (operators.classes if operators else frozenset())


def find_reactions(
    before: Sequence[Registrant],
    objects: Sequence[Registrant],
    operators: Operators | None,
    keys: DispatchKeys,
    assumed_classes: frozenset[str] = frozenset(),
) -> Iterator[Reaction]:
    """Yield how torch reacts to ``objects``, loaded after ``before``.

    :param keys: those of the torch, which reads the numbers in the code with its own table
    :param assumed_classes: custom classes that a library registers which could not be read
    """
    release = keys.minor
    names = {name for registrant in (*before, *objects) for name in registrant.operators}
    state = state_of(operators, release, names) if operators else State()
    if state.classes is not None:
        state = msgspec.structs.replace(state, classes=state.classes | assumed_classes)
    # What was loaded before is assumed to be accepted: its own conflicts were reported with it.
    kept = [event for registrant in before for event in registrant.calls if event.phase in _LOADED]
    events = [(event, registrant) for registrant in objects for event in registrant.calls]
    # Two objects may register what is equal.
    sources = {id(event): registrant for event, registrant in events}
    # Invariant: events are in the order in which the process would reach them; calls come after the load.
    in_load = [event for event, _ in events if event.phase in _LOADED]
    on_call = [event for event, _ in events if event.phase not in _LOADED]
    loading = replay_events(_state_after(state, kept, keys), in_load, keys)
    # Definitions with a schema that torch infers and that could not be read: they are no events.
    registrants = (*before, *objects)
    unread = {name for registrant in registrants for name in registrant.operators_without_schema}
    outcomes = [(outcome, False) for outcome in loading.outcomes] + [
        (outcome, True) for outcome in loading.after_failure
    ]
    if on_call and loading.failure is None:
        # The state after the load; each of the remaining functions is called by itself, or not at all.
        outcomes += ((outcome, False) for outcome in replay_events(loading.state, on_call, keys).outcomes)
    for outcome, behind in outcomes:
        is_dead, event = outcome.kind is OutcomeKind.DEAD, outcome.event
        if id(event) not in sources or (is_dead and (operators is None or outcome.subject in unread)):
            continue
        source, phase = sources[id(event)], event.phase
        other_objects = (other_object for other_object in (*before, *objects) if other_object is not source)
        yield Reaction(
            outcome=_in_words_of(outcome, operators),
            object=source.name,
            phase=phase,
            conflicts_with=next(
                (other_object.name for other_object in other_objects if other_object.conflicts_in(outcome, keys)),
                None,
            ),
            aborts=_ends_process(outcome, source, phase),
            after_failure=behind,
            is_doubtful=source.doubts(event),
        )


def _in_words_of(outcome: Outcome, operators: Operators | None) -> Outcome:
    """Return an outcome with its message as the torch words it."""
    if operators is None or outcome.message is None:
        return outcome
    from abiscan.dispatch.wordings import reword

    message = reword(outcome.message, operators.reworded, operators.unworded)
    return outcome if message is outcome.message else msgspec.structs.replace(outcome, message=message)


def _state_after(state: State, events: Sequence[Registration], keys: DispatchKeys) -> State:
    """Return what is registered after events that torch has accepted, whoever registered the classes that they name."""
    after = replay_events(msgspec.structs.replace(state, classes=None), events, keys).state
    if state.classes is None:
        return after
    registered = {event.name for event in events if isinstance(event, CustomClass)}
    return msgspec.structs.replace(after, classes=state.classes | registered)


def _ends_process(outcome: Outcome, source: Registrant, phase: Phase) -> bool:
    """Tell whether the process ends: torch ends it, or nobody catches what torch throws."""
    if phase is Phase.MODULE_INIT and not source.catches:
        return True
    return phase is Phase.STATIC_INIT or outcome.kind in (OutcomeKind.EXITS, OutcomeKind.CRASHES)
