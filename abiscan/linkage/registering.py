"""What an extension registers with torch while loading, and how torch reacts."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.operators import Operators
from abiscan.dispatch.outcomes import FATAL, Outcome, OutcomeKind
from abiscan.dispatch.table import DispatchTable, EntrySource
from abiscan.inputs.version import MinorVersion, TorchVersion

if TYPE_CHECKING:
    from abiscan.dispatch.coverage import MissingKernel
    from abiscan.gaps import Gap
    from abiscan.registrations import Phase, Registrations

_GENERIC: Final = (EntrySource.CATCH_ALL, EntrySource.MATH, EntrySource.DEFAULT_BACKEND)


class Reaction(Struct, frozen=True, kw_only=True):
    """How torch reacts to one registration that it does not simply accept.

    :ivar outcome: the reaction itself
    :ivar object: the base name of the object that registers
    :ivar phase: when it registers
    :ivar conflicts_with: the base name of the object whose registration it conflicts with; None if that is torch or the
        object itself
    :ivar aborts: whether the process ends: torch ends it, or nobody catches torch's exception
    :ivar after_failure: whether the load only gets this far once something that torch rejects earlier is fixed
    :ivar is_doubtful: whether something unknown was decided before it: in a real process, the registration may be
        another one, or none
    """

    outcome: Outcome
    object: str
    phase: Phase
    conflicts_with: str | None = None
    aborts: bool = False
    after_failure: bool = False
    is_doubtful: bool = False

    @property
    def fails(self) -> bool:
        """Whether torch throws an exception or ends the process, for certain."""
        return self.may_fail and not self.is_doubtful

    @property
    def may_fail(self) -> bool:
        """Whether torch throws an exception or ends the process, if the registration is what it seems."""
        return self.outcome.kind in FATAL

    @property
    def exits(self) -> bool:
        """Whether torch ends the process by itself."""
        return self.outcome.kind is OutcomeKind.EXITS

    @property
    def crashes(self) -> bool:
        """Whether the process ends with SIGSEGV, and no text."""
        return self.outcome.kind is OutcomeKind.CRASHES

    @property
    def is_static(self) -> bool:
        """Whether a static initialiser registers it, so this happens inside ``dlopen``."""
        return self.phase.value == "static-init"

    @property
    def in_load(self) -> bool:
        """Whether this happens while the extension is loaded or imported, not in a later call of a function."""
        return self.phase.value != "on-call"


class Backend(Struct, frozen=True, kw_only=True, dict=True):
    """A backend that an extension provides for a torch without kernels for it.

    :ivar key: its dispatch key in that torch
    :ivar table: the dispatch table of all operators with the extension loaded
    :ivar before: that of the release it was built for, None if unknown
    :ivar before_key: its dispatch key in that release
    :ivar before_version: that release, None if unknown
    :ivar core: torch's core set of operators
    """

    key: str
    table: DispatchTable
    before: DispatchTable | None
    before_key: str
    before_version: TorchVersion | None
    core: frozenset[str]

    @functools.cached_property
    def lost(self) -> tuple[MissingKernel, ...]:
        """The operators that had a generic kernel in the release it was built for, and have no kernel for it now.

        Not worded: a message for each of thousands of operators would take seconds.
        """
        # Few extensions bring a backend.
        from abiscan.dispatch.calls import find_delegates
        from abiscan.dispatch.coverage import measure_coverage

        old = self.before
        if old is None:
            return ()
        # computeDispatchTableEntryWithDebug (OperatorEntry.cpp) decides which generic kernel an operator has; the table
        # of the old release is computed the same way, with the same extension.
        had_generic = {
            name: None
            for name in self.table.operators.operators
            if name in old.operators.operators and old.source(name, self.before_key) in _GENERIC
        }
        delegating = find_delegates(old, self.before_key, had_generic)  # these had no kernel either
        missing = measure_coverage(self.table, self.key, self.core, had_generic, worded=False).missing
        return tuple(
            kernel for kernel in missing if kernel.operator in had_generic and kernel.operator not in delegating
        )


class Registering(Struct, frozen=True, kw_only=True):
    """The registrations of one load.

    :ivar own: those of the extension
    :ivar bundled: those of the libraries that it brings along, by base name, in initialisation order
    :ivar built_for: the releases that the extension may have been built for, oldest first
    :ivar keys_built_for: the numbers of dispatch keys, as the newest of these releases names them
    :ivar keys: the same, as the target names them
    :ivar operators: the target's own operators, None if they are not available
    :ivar reactions: those of the target, in order, up to the one that stops the load; then those that would follow,
        which are marked ``after_failure``
    :ivar doubts: where the releases it may be built for name numbers of dispatch keys differently
    :ivar assumed_classes: custom classes that schemas name and nothing readable registers, where something was not
        readable
    :ivar backend: None if the extension provides none, or not all operators of the target are available
    """

    own: Registrations
    bundled: Mapping[str, Registrations] = field(default_factory=dict)
    built_for: tuple[TorchVersion, ...]
    keys_built_for: DispatchKeys
    keys: DispatchKeys
    operators: Operators | None
    reactions: tuple[Reaction, ...]
    doubts: tuple[Gap, ...] = ()
    assumed_classes: tuple[str, ...] = ()
    backend: Backend | None = None

    @property
    def release(self) -> MinorVersion:
        """The release whose rules and messages apply."""
        return self.keys.minor

    @property
    def filled(self) -> tuple[str, ...]:
        """The registries that torch also fills, and to which the extension adds entries."""
        registered = (self.own, *self.bundled.values())
        entries = (entry for registrations in registered for entry in registrations.registries)
        return tuple(sorted({entry.what for entry in entries if entry.is_shared}))

    @property
    def failure(self) -> Reaction | None:
        """The reaction that stops the load: the first exception of torch."""
        return next((reaction for reaction in self.reactions if reaction.fails and reaction.in_load), None)
