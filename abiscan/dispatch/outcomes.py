"""The outcomes of registrations: how torch reacts to each one that it does not simply accept."""

from __future__ import annotations

import enum
from typing import Final

import msgspec.structs
from msgspec import Struct

from abiscan.dispatch.messages import Message
from abiscan.dispatch.state import State
from abiscan.registrations import TEXT_OF_TORCH, Registration


class OutcomeKind(enum.Enum):
    """How torch reacts to a registration that it does not simply accept."""

    RAISES = "raises"
    """It throws ``message``, and nothing after it happens."""

    EXITS = "exits"
    """It prints ``message`` and ends the process with ``exit(1)``, which nobody can catch."""

    CRASHES = "crashes"
    """It fails without a word where nobody looks, and the process ends with SIGSEGV."""

    OVERRIDES = "overrides"
    """It replaces the existing registration and warns with ``message``, or silently if that is None."""

    SKIPS = "skips"
    """It keeps the existing registration and prints ``message``."""

    DEAD = "dead"
    """It silently stores a kernel for an operator that nobody defines."""


FATAL: Final = (OutcomeKind.RAISES, OutcomeKind.EXITS, OutcomeKind.CRASHES)


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of one registration.

    :ivar event: the registration
    :ivar kind: how torch reacts
    :ivar message: what it prints, None if nothing
    :ivar subject: the operator, namespace, dispatch key or class concerned
    :ivar new: what conflicts with ``old``: a schema (D1, D2, K2, R7, R8), a C++ type (K1), or where it was registered;
        None if there is no conflict
    :ivar old: the same of what is there already
    :ivar problem: what is wrong with a schema that cannot be parsed, in brief
    """

    event: Registration
    kind: OutcomeKind
    message: Message | None
    subject: str
    new: str | None = None
    old: str | None = None
    problem: str | None = None


class Replay(Struct, frozen=True, kw_only=True):
    """The outcomes of a sequence of events.

    :ivar outcomes: in event order, up to the first that throws
    :ivar state: the state after it
    :ivar after_failure: what torch would reject next if the registration that it rejects were left out, in event order
    """

    outcomes: tuple[Outcome, ...]
    state: State
    after_failure: tuple[Outcome, ...] = ()

    @property
    def failure(self) -> Outcome | None:
        """The event that throws, or ends the process."""
        return next((outcome for outcome in self.outcomes if outcome.kind in FATAL), None)


class RefusalError(Exception):
    """Torch throws, or ends the process: everything about that except the event."""

    def __init__(
        self,
        thrown: Message,
        subject: str,
        new: str | None = None,
        old: str | None = None,
        kind: OutcomeKind = OutcomeKind.RAISES,
        problem: str | None = None,
        ending: str = "",
    ) -> None:
        super().__init__(thrown.text)
        self._ending = ending
        self._thrown, self._subject, self._new, self._old = thrown, subject, new, old
        self._kind, self._problem = kind, problem

    def without_text(self) -> RefusalError:
        """Return the refusal of a call whose result nobody checks, so that the process crashes later."""
        silent = msgspec.structs.replace(self._thrown, text="")
        return RefusalError(silent, self._subject, self._new, self._old, OutcomeKind.CRASHES, self._problem)

    def said_by(self, call: str, failure: str | None, *, quotes: bool) -> RefusalError:
        """Return the refusal as the headers of the stable ABI word it after the failure of ``call``."""
        exact = self._thrown.exact and failure is not None
        if failure is None:
            place = f"{call} API call failed at ?/library.h, line ?"
            failure = f"{TEXT_OF_TORCH} (originally from {place})" if quotes else place
        text = failure.replace(TEXT_OF_TORCH, self._thrown.text + self._ending, 1)
        wording = msgspec.structs.replace(self._thrown, text=text, exact=exact)
        return RefusalError(wording, self._subject, self._new, self._old, self._kind, self._problem)

    def outcome_of(self, event: Registration) -> Outcome:
        """Return the outcome of the rejected event."""
        return Outcome(
            event=event,
            kind=self._kind,
            message=self._thrown,
            subject=self._subject,
            new=self._new,
            old=self._old,
            problem=self._problem,
        )
