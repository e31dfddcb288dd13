"""The import of a module, run once for each way past what could not be decided."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from abiscan.python.library import PythonCode
from abiscan.python.machine import Decision, Spot
from abiscan.python.model import Answer, ImportOutcome, Load, Raised
from abiscan.python.runs import Run, Runs
from abiscan.python.values import Why

MOST_RUNS = 12


class Explored(Struct, frozen=True, kw_only=True):
    """The import of a module in all runs, the most likely first."""

    outcome: ImportOutcome
    runs: tuple[Run, ...]


def explore(runs: Runs, module: str) -> Explored:
    """Import a module in each way that matters."""
    found = [runs.run(module)]
    # Those of the target first: none of them must go unnoticed if there are too many.
    decisions = sorted(found[0].trace.decisions.values(), key=lambda one: one.why is not Why.TARGET)
    waiting = [{one.spot: not one.condition.taken} for one in decisions]
    seen = [dict[Spot, bool]()]
    while waiting and len(found) < MOST_RUNS:
        choices = waiting.pop(0)
        if choices in seen:
            continue
        seen.append(choices)
        one = runs.run(module, choices)
        found.append(one)
        new = (spot for spot in one.trace.decisions if spot not in choices and spot not in found[0].trace.decisions)
        waiting.extend({**choices, spot: not one.trace.decisions[spot].condition.taken} for spot in new)
    if found[0].trace.optional and _more_at_stake(runs.library, found[0]):
        found.append(runs.run(module, with_optional=True))
    outcome = _summary(module, found)
    if outcome.raised is Answer.UNKNOWN and all(isinstance(one.raised, Raised) for one in found):
        # It fails whatever is not known: users see what it says on this machine.
        here = runs.run(module, as_it_is_here=True) if found[0].trace.lacking else found[0]
        outcome = replace(outcome, raised=here.raised)
    return Explored(outcome=outcome, runs=tuple(found))


def _more_at_stake(library: PythonCode, first: Run) -> bool:
    """Whether the code registers something, or has a library that it has not loaded."""
    loaded = {one.path for one in first.trace.attempts}
    return bool(first.trace.registrations) or not loaded.issuperset(library.files.libraries)


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
