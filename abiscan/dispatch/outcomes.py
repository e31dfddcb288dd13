"""What comes of registrations: what torch does about each that it does not simply accept."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from abiscan.dispatch.events import Event
from abiscan.dispatch.messages import Message
from abiscan.dispatch.state import State


class OutcomeKind(enum.Enum):
    """What torch does about a registration that is not simply accepted."""

    RAISES = "raises"
    """It throws ``message``, and nothing after it happens."""

    EXITS = "exits"
    """It prints ``message`` and ends the process by ``exit(1)``, which nobody can catch."""

    OVERRIDES = "overrides"
    """It replaces what is there, and warns with ``message``; None if it does so in silence."""

    SKIPS = "skips"
    """It keeps what is there instead, and prints ``message``."""

    DEAD = "dead"
    """It keeps a kernel for an operator that nobody defines, and says nothing."""


FATAL: Final = (OutcomeKind.RAISES, OutcomeKind.EXITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What comes of one event.

    ``subject`` is the operator, namespace, dispatch key or class concerned. ``new`` and ``old`` are what meets there:
    two schemas (D1, D2, K2, R7, R8), two C++ types (K1), or where the two were registered; None where nothing meets.
    ``problem`` is what is wrong with a schema that cannot be read, in short.
    """

    event: Event
    kind: OutcomeKind
    message: Message | None
    subject: str
    new: str | None = None
    old: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """All that is remarkable about a sequence of events, and what is registered after it.

    ``behind`` is what torch would refuse if what it does refuse were left out, in the order of the events.
    """

    outcomes: tuple[Outcome, ...]
    state: State
    behind: tuple[Outcome, ...] = ()

    @property
    def failure(self) -> Outcome | None:
        """The event that throws, or ends the process."""
        return next((outcome for outcome in self.outcomes if outcome.kind in FATAL), None)


class RefusalError(Exception):
    """torch throws, or ends the process: all that there is to say of it but the event."""

    def __init__(
        self,
        thrown: Message,
        subject: str,
        new: str | None = None,
        old: str | None = None,
        kind: OutcomeKind = OutcomeKind.RAISES,
        problem: str | None = None,
    ) -> None:
        super().__init__(thrown.text)
        self._thrown, self._subject, self._new, self._old = thrown, subject, new, old
        self._kind, self._problem = kind, problem

    def outcome_of(self, event: Event) -> Outcome:
        """What comes of the event that is refused."""
        return Outcome(
            event=event,
            kind=self._kind,
            message=self._thrown,
            subject=self._subject,
            new=self._new,
            old=self._old,
            problem=self._problem,
        )
