"""What an extension registers with torch while loading, and how torch reacts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.operators import Operators
from abiscan.dispatch.outcomes import FATAL, Outcome, OutcomeKind
from abiscan.dispatch.table import DispatchTable
from abiscan.inputs.version import MinorVersion, TorchVersion

if TYPE_CHECKING:
    from abiscan.emulation.model import EmulationGap, Phase, Registrations


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """How torch reacts to one registration that it does not simply accept.

    ``object`` is the base name of the object that registers, ``phase`` when it does. ``met`` is the base name of the
    object with whose registration it meets, None if that is torch's or the object's own. ``aborts`` tells that the
    process ends: torch ends it, or what torch throws is caught by nobody. ``behind`` tells that nobody gets here unless
    something that torch refuses before is put right.
    """

    outcome: Outcome
    object: str
    phase: Phase
    met: str | None = None
    aborts: bool = False
    behind: bool = False

    @property
    def fails(self) -> bool:
        """Whether torch throws, or ends the process."""
        return self.outcome.kind in FATAL

    @property
    def exits(self) -> bool:
        """Whether torch ends the process by itself."""
        return self.outcome.kind is OutcomeKind.EXITS

    @property
    def is_static(self) -> bool:
        """Whether a static initialiser registers, so that it happens inside of ``dlopen``."""
        return self.phase.value == "static-init"

    @property
    def in_load(self) -> bool:
        """Whether this happens as the extension is loaded or imported, not when somebody calls a function of it."""
        return self.phase.value != "on-call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A backend that an extension brings to a torch that has none of it.

    ``key`` is its dispatch key there. ``table`` is the dispatch table of all operators with the extension loaded,
    ``before`` that of the release which it was built for, ``before_key`` its key there; None where they are not known.
    ``core`` is torch's core set of operators.
    """

    key: str
    table: DispatchTable
    before: DispatchTable | None
    before_key: str
    before_version: TorchVersion | None
    core: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registering:
    """The registrations of one load.

    ``own`` are those of the extension, ``brought`` those of the libraries that it brings along, by base name, in the
    order in which they are initialised. ``built_for`` are the releases that the extension can have been built for,
    oldest first, and ``meant`` names the numbers of dispatch keys as the newest of them does, with ``doubts`` where the
    others do not; ``keys`` names them as the target does. ``operators`` is what the target has registered itself, None
    where that is not at hand. ``reactions`` are what the target does, in the order in which it does it, up to what
    stops the load; then what it would refuse behind that, which each says of itself. ``assumed_classes`` are custom
    classes that schemas name and nothing that could be read registers, where something could not be read. ``backend``
    is None where the extension brings none, or where not all operators of the target are at hand.
    """

    own: Registrations
    brought: Mapping[str, Registrations] = field(default_factory=dict)
    built_for: tuple[TorchVersion, ...]
    meant: DispatchKeys
    keys: DispatchKeys
    operators: Operators | None
    reactions: tuple[Reaction, ...]
    doubts: tuple[EmulationGap, ...] = ()
    assumed_classes: tuple[str, ...] = ()
    backend: Backend | None = None

    @property
    def release(self) -> MinorVersion:
        """The release whose rules and words count."""
        return self.keys.minor

    @property
    def filled(self) -> tuple[str, ...]:
        """The registries in which the extension enters something beside what torch itself does."""
        registered = (self.own, *self.brought.values())
        entries = (each for registrations in registered for each in registrations.registries)
        return tuple(sorted({each.what for each in entries if each.is_shared}))

    @property
    def failure(self) -> Reaction | None:
        """What stops the load: the first registration for which torch throws."""
        return next((reaction for reaction in self.reactions if reaction.fails and reaction.in_load), None)
