"""The import of a module, run once for each way past what could not be decided."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from abiscan.python.imports import PythonInterpreter
from abiscan.python.library import PythonCode
from abiscan.python.machine import Decision, Exhausted, Limits, ProcessEnded, PythonMachine, Spot, Trace, Unreadable
from abiscan.python.model import Answer, ImportOutcome, Load, Raised, in_words
from abiscan.python.questions import AskedWorld
from abiscan.python.special import text
from abiscan.python.systems import stripped
from abiscan.python.values import PythonError, Thrown, Why

_log = logging.getLogger("abiscan.python")

MOST_RUNS = 12


class Run(Struct, frozen=True, kw_only=True):
    """One run of an import: what it raises, and what happened on the way."""

    raised: Raised | Answer | None
    trace: Trace
    choices: dict[Spot, bool]
    optional: bool = False
    """Whether packages are taken to be there that are not required."""

    def outcome(self) -> tuple[object, ...]:
        """What users can tell one run from another by."""
        loads = tuple((one.path, one.raised) for one in self.trace.attempts)
        return (self.raised, loads, tuple(self.trace.registrations))


class Explored(Struct, frozen=True, kw_only=True):
    """The import of a module in all runs, the most likely first."""

    outcome: ImportOutcome
    runs: tuple[Run, ...]


def explore(
    library: PythonCode, world: Callable[[], AskedWorld], module: str, limits: Limits, first: Run | None = None
) -> Explored:
    """Import a module in each way that matters.

    :param first: the most likely one, if it is known
    """
    runs = [first or run(library, world(), module, {}, limits)]
    # Those of the target first: none of them must go unnoticed if there are too many.
    decisions = sorted(runs[0].trace.decisions.values(), key=lambda one: one.why is not Why.TARGET)
    waiting = [{one.spot: not one.condition.taken} for one in decisions]
    seen = [dict[Spot, bool]()]
    while waiting and len(runs) < MOST_RUNS:
        choices = waiting.pop(0)
        if choices in seen:
            continue
        seen.append(choices)
        one = run(library, world(), module, choices, limits)
        runs.append(one)
        new = (spot for spot in one.trace.decisions if spot not in choices and spot not in runs[0].trace.decisions)
        waiting.extend({**choices, spot: not one.trace.decisions[spot].condition.taken} for spot in new)
    if runs[0].trace.optional and _more_at_stake(library, runs[0]):
        runs.append(run(library, world(), module, {}, limits, optional=True))
    outcome = _summary(module, runs)
    if outcome.raised is Answer.UNKNOWN and all(isinstance(one.raised, Raised) for one in runs):
        # It fails whatever is not known: users see what it says on this machine.
        here = run(library, world(), module, {}, limits, as_it_is_here=True) if runs[0].trace.lacking else runs[0]
        outcome = replace(outcome, raised=here.raised)
    return Explored(outcome=outcome, runs=tuple(runs))


def _more_at_stake(library: PythonCode, first: Run) -> bool:
    """Whether the code registers something, or has a library that it has not loaded."""
    loaded = {one.path for one in first.trace.attempts}
    return bool(first.trace.registrations) or not loaded.issuperset(library.files.libraries)


def run(
    library: PythonCode,
    world: AskedWorld,
    module: str,
    choices: dict[Spot, bool],
    limits: Limits,
    *,
    optional: bool = False,
    as_it_is_here: bool = False,
) -> Run:
    """Import a module once."""
    machine = PythonInterpreter(library, world, choices, limits)
    machine.with_optional = optional
    machine.as_it_is_here = as_it_is_here
    _log.debug("imports %s%s", module, f" with the other way of {len(choices)} conditions" if choices else "")
    raised: Raised | Answer | None = None
    try:
        machine.import_module(module)
    except Thrown as error:
        raised = as_raised(machine, error.failure)
    except ProcessEnded as end:
        raised = end.raised
    except Unreadable:
        raised = Answer.UNKNOWN
    except Exhausted as end:
        machine.gap(f"was not followed to its end: {end}")
        raised = Answer.UNKNOWN
    except RecursionError:
        machine.gap("is nested too deep to be followed")
        raised = Answer.UNKNOWN
    if machine.trace.is_doubtful:
        raised = Answer.UNKNOWN
    _log.debug("the import of %s: %s", module, in_words(raised))
    return Run(raised=raised, trace=machine.trace, choices=choices, optional=optional)


def as_raised(machine: PythonMachine, failure: PythonError, depth: int = 0) -> Raised:
    """An exception as users see it."""
    try:
        message = text(machine, failure)
    except (Thrown, Exhausted, RecursionError):
        message = None
    behind = failure.cause
    if behind is None and not failure.attributes.get("__suppress_context__"):
        behind = failure.context
    return Raised(
        exception=failure.name(),
        message=stripped(message) if isinstance(message, str) else None,
        at=failure.at,
        cause=None if behind is None or behind is failure or depth > 10 else as_raised(machine, behind, depth + 1),
    )


def _summary(module: str, runs: list[Run]) -> ImportOutcome:
    first = runs[0]
    usual = [one for one in runs if not one.optional]
    loads = tuple(
        Load(
            path=one.path,
            loader=one.loader,
            at=one.at,
            raised=one.raised,
            guarded=one.guarded,
            told=one.told,
            told_text=one.told_text,
        )
        for one in first.trace.attempts
    )
    everywhere = set(first.trace.registrations).intersection(*(one.trace.registrations for one in usual))
    registrations = dict.fromkeys(
        replace(registration, perhaps=registration not in everywhere)
        for one in runs
        for registration in one.trace.registrations
    )
    gaps = dict.fromkeys(gap for one in usual for gap in one.trace.gaps)
    deciding = _deciding(usual)
    for one in deciding:
        if one.why is Why.CALLBACK:
            gaps.setdefault(f"{one.condition.at}: whether {one.condition.text} is not known")
    return ImportOutcome(
        module=module,
        raised=first.raised if all(one.raised == first.raised for one in usual) else Answer.UNKNOWN,
        loads=loads,
        registrations=tuple(registrations),
        conditions=tuple(one.condition for one in deciding if one.why is not Why.CALLBACK),
        gaps=tuple(gaps),
    )


def _deciding(runs: list[Run]) -> list[Decision]:
    """The decisions whose other way ends differently."""
    first, *others = runs
    decisions: dict[Spot, Decision] = {}
    for one in others:
        if one.outcome() != first.outcome():
            decisions.update({spot: one.trace.decisions[spot] for spot in one.choices if spot in one.trace.decisions})
    return [first.trace.decisions.get(spot, one) for spot, one in decisions.items()]
