"""The import of a module, run once for each way past what could not be decided."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from abiscan.python.importing.certainty import is_certain
from abiscan.python.importing.runs import WITH_ALL_BODIES, WITH_LARGE_BODIES, Run, Runs, load_everything
from abiscan.python.interpreter.machine import Choices, Decision, Spot, Turn
from abiscan.python.interpreter.values import Why
from abiscan.python.package.model import PROCESS_ENDS, Answer, ImportOutcome, Load, Raised, UsualEnd

MOST_RUNS = 12
MOST_TURN_RUNS = 10
"""How many runs tell the turns of loops apart, where all ways end in an exception."""
_CERTAIN = frozenset({"NameError", "SystemExit", PROCESS_ENDS})
"""What the body of a module raises, or does, that is certain whatever is installed."""
_LEAST_TOGETHER = 2
_MOST_MISTAKES = 4
"""How often an import that ends by mistake is run again."""


def _never(_runs: list[Run]) -> bool:
    return False


class Explored(Struct, frozen=True, kw_only=True):
    """The import of a module in all runs, the most likely first.

    :ivar with_large_bodies: whether large bodies were run that seem to do nothing which matters
    """

    outcome: ImportOutcome
    runs: tuple[Run, ...]
    with_large_bodies: bool = False


def explore_with_large_bodies(runs: Runs, module: str) -> Explored:
    """Import a module on each path that matters; large bodies are run at least once, however they seem."""
    with_large = runs.of(WITH_LARGE_BODIES)
    once = with_large.run(module)
    # Without any, or where nothing is unknown, it does what a run does that passes over them.
    if _is_known(once) or not once.trace.passed_over:
        return _explore_from(runs, module, once)
    with_all = _run_with_all(runs, module, once)
    if with_all is not None:
        return _explore_from(runs, module, with_all)
    # The other paths pass over them, unless one of them loads something, hands out a function that does, or raises what
    # is no mistake of the reading.
    explored = explore_import(runs, module)
    first = explored.runs[0]
    if explored.outcome.raised is None:
        once = _past_mistakes(with_large, module, once)
    new = once.trace.decisions.keys() - first.trace.decisions.keys()
    hands_out = any(once.trace.decisions[spot].why is Why.CALLBACK for spot in new)
    is_same = once.outcome() == first.outcome() and not hands_out
    if once.raised is Answer.UNKNOWN or is_same or _is_mistaken(with_large, once):
        return explored
    return replace(_explore_from(with_large, module, once), with_large_bodies=True)


def _run_with_all(runs: Runs, module: str, once: Run) -> Run | None:
    """Return a run of all large bodies in which nothing is unknown; None if there is none, or no need for it.

    :param once: the run of those that are run in few steps
    """
    # An import that takes long, and ends by mistake without them, may lack what they do.
    if once.raised is not Answer.UNKNOWN or not _is_mistaken(runs, runs.run(module)):
        return None
    with_all = runs.of(WITH_ALL_BODIES).run(module)
    return with_all if _is_known(with_all) else None


def _is_known(run: Run) -> bool:
    """Whether an import succeeds, and nothing on the way was unknown."""
    return run.raised is None and not (run.trace.decisions or run.trace.gaps or run.trace.needs)


def _past_mistakes(runs: Runs, module: str, run: Run) -> Run:
    """Return a run that goes on where one ends by mistake: it decides otherwise what was last unknown."""
    for _ in range(_MOST_MISTAKES):
        undecided = [decision for spot, decision in run.trace.decisions.items() if spot not in run.choices]
        if not undecided or not _is_mistaken(runs, run):
            break
        run = runs.run(module, {**run.choices, undecided[-1].spot: not undecided[-1].condition.taken})
    return run


def _is_mistaken(runs: Runs, run: Run) -> bool:
    """Whether the error that a run ends in may be a mistake of the reading."""
    raised = run.raised
    if not isinstance(raised, Raised) or raised.exception in _CERTAIN:
        return False
    return not is_certain(raised, runs.library.surroundings)


def explore_import(runs: Runs, module: str) -> Explored:
    """Import a module on each path that matters."""
    return _explore_from(runs, module, runs.run(module))


def explore_failure(
    runs: Runs, module: str, may_count: Callable[[ImportOutcome], bool], ways: Iterable[Choices]
) -> Explored:
    """Import a module on its usual path, and on others only to see whether it fails on all of them.

    :param may_count: whether it matters that it does, by what its usual path ends in
    :param ways: what others that failed were found to succeed with: tried first
    """
    first = runs.run(module)
    usual = _summarise(module, [first])
    # Where all paths fail, users see what fails on this machine, which the usual one may not tell.
    if first.raised is None or not (first.trace.lacking or may_count(usual)):
        return Explored(outcome=usual, runs=(first,))
    return _explore_from(runs, module, first, ways, only_failing=True)


def _explore_from(
    runs: Runs, module: str, first: Run, ways: Iterable[Choices] = (), *, only_failing: bool = False
) -> Explored:
    # So far, packages that are not required, and that the code can do without, were absent. In one more run, all of
    # them exist, to see what is loaded and registered for users who have them; how that run ends does not count.
    more = not only_failing and (bool(first.trace.registrations) or not load_everything(runs.library, [first]))
    decisions = [decision for spot, decision in first.trace.decisions.items() if spot not in first.choices]
    until = _may_succeed if only_failing else _never
    explored = _explore(runs, module, first, decisions, ways, more=more, until=until)
    runs_made, are_all = _confirm(runs, module, explored)
    outcome = _summarise(module, runs_made)
    if outcome.raised is Answer.UNKNOWN and are_all and all(isinstance(run.raised, Raised) for run in runs_made):
        # It fails whatever is unknown: users see the error that it raises on this machine.
        here = runs.run(module, as_it_is_here=True) if first.trace.lacking else first
        outcome = replace(outcome, raised=here.raised)
    return Explored(outcome=outcome, runs=tuple(runs_made))


def ends_unknown(runs: Runs, module: str) -> bool:
    """Whether it is not known how an import ends, by as few runs as show it."""
    once = runs.of(WITH_LARGE_BODIES).run(module)
    if _is_known(once) or _run_with_all(runs, module, once) is not None:
        return False
    first = runs.run(module)
    if first.raised is Answer.UNKNOWN:
        return True
    decisions = list(first.trace.decisions.values())
    explored = _explore(runs, module, first, decisions, more=False, until=_may_succeed)
    runs_made, are_all = _confirm(runs, module, explored)
    return _may_succeed(runs_made) or not (are_all or _end_alike(runs_made))


def explore_loads(runs: Runs, module: str) -> tuple[Run, ...]:
    """Return the runs of the import of a module that show what it loads."""
    first = runs.run(module)
    more = not load_everything(runs.library, [first])
    runs_made, _ = _explore(runs, module, first, _until_loaded(runs, first), more=more, until_loaded=True)
    return tuple(runs_made)


def _until_loaded(runs: Runs, run: Run) -> list[Decision]:
    """Return the decisions of a run before it had loaded all libraries: where it had, neither way loads more."""
    paths, files = [attempt.path for attempt in run.trace.attempts], runs.library.files
    return [
        decision
        for decision in run.trace.decisions.values()
        if not files.has_all({path for path in paths[: decision.loads] if path is not None})
    ]


def _explore(
    runs: Runs,
    module: str,
    first: Run,
    decisions: list[Decision],
    ways: Iterable[Choices] = (),
    *,
    more: bool,
    until: Callable[[list[Run]], bool] = _never,
    until_loaded: bool = False,
) -> tuple[list[Run], bool]:
    """Return runs that take some decisions the other way, and whether they are all that there are.

    :param ways: the paths to take first
    :param more: whether packages that are not required may make a difference
    :param until: tells of the runs so far whether they are enough
    :param until_loaded: whether these runs only matter until they have loaded all libraries
    """
    # Each path is a run with some decisions flipped, of those that an earlier run has met. All paths would be two to
    # the power of the decisions, so the queue begins with those that flip a single one: they show everything that
    # depends on one condition alone. Only what such a path newly meets is combined with it. Those of the target come
    # first: none of them must go unnoticed if there are too many.
    decisions.sort(key=lambda decision: decision.why is not Why.TARGET)
    waiting = [*ways, *({**first.choices, decision.spot: not decision.condition.taken} for decision in decisions)]
    runs_made, seen = [first], list[Choices]([{}])
    together = None if until_loaded else _followed_together(runs, module, first, decisions)
    if together is not None:
        runs_made.append(together)
        waiting = [choices for choices in waiting if not choices.items() <= together.choices.items()]
        inner = (made for made in together.trace.decisions.values() if made.spot not in first.trace.decisions)
        flips = ((made.spot, not made.condition.taken) for made in inner if made.spot not in together.choices)
        waiting += [{**together.choices, spot: taken} for spot, taken in flips if (spot, taken) not in runs.idle]
    while waiting and len(runs_made) < MOST_RUNS and not until(runs_made):
        choices = waiting.pop(0)
        if choices in seen:
            continue
        seen.append(choices)
        run = runs.run(module, choices, until_loaded=until_loaded)
        runs_made.append(run)
        met = _until_loaded(runs, run) if until_loaded else run.trace.decisions.values()
        new = (made for made in met if made.spot not in choices and made.spot not in first.trace.decisions)
        waiting.extend({**choices, made.spot: not made.condition.taken} for made in new)
    _note_idle(runs, first, runs_made)
    if more and first.trace.optional:
        runs_made.append(runs.run(module, first.choices, with_optional=True, until_loaded=until_loaded))
    return runs_made, not waiting


def _followed_together(runs: Runs, module: str, first: Run, decisions: list[Decision]) -> Run | None:
    """Return a run that takes all those ways at once that made no difference to other imports; None if it ends
    otherwise, or if there are few: then each of them is followed alone.

    What is imported together with one module is mostly imported together with the next.
    """
    ways = {decision.spot: not decision.condition.taken for decision in decisions}
    idle: Choices = {spot: taken for spot, taken in ways.items() if (spot, taken) in runs.idle}
    # An import that fails does so for certain only if it fails on each of its ways.
    if len(idle) < _LEAST_TOGETHER or first.raised is not None:
        return None
    run = runs.run(module, {**first.choices, **idle})
    return run if run.outcome() == first.outcome() else None


def _note_idle(runs: Runs, first: Run, runs_made: list[Run]) -> None:
    """Note the ways that made no difference to an import that succeeds, alone or after another one."""
    deciding = set[tuple[Spot | Turn, bool]]()
    for run in runs_made[1:] if first.raised is None else ():
        new = {(spot, taken) for spot, taken in run.choices.items() if spot not in first.choices}
        if run.outcome() == first.outcome():
            runs.idle |= new - deciding
        elif len(new) == 1:
            deciding |= new


def _confirm(runs: Runs, module: str, explored: tuple[list[Run], bool]) -> tuple[list[Run], bool]:
    """Return what ``_explore`` does, with runs that tell the turns of loops apart if the import fails without them."""
    runs_made, are_all = explored
    usual = [run for run in runs_made if not run.optional]
    if not (all(isinstance(run.raised, Raised) for run in usual) and (are_all or _end_alike(usual))):
        return runs_made, are_all
    # Each run leads to those that decide one more turn otherwise, the last turns first: they are next to the failure.
    waiting = deque((run, turn) for run in usual for turn in _other_turns(run))
    seen = {frozenset(run.trace.turns.items()) for run in usual}
    turned: list[Run] = []
    while waiting:
        before, turn = waiting.popleft()
        turns = frozenset({**before.trace.turns, turn: not before.trace.turns[turn]}.items())
        if turns in seen:
            continue
        if len(turned) == MOST_TURN_RUNS or runs.is_spent:
            # Where the turns made no difference so far, those that are left are taken to make none.
            ends = [run.raised for run in usual]
            return [*runs_made, *turned], are_all and all(run.raised in ends for run in turned)
        run = runs.run(module, {**before.choices, turn: not before.trace.turns[turn]})
        turned.append(run)
        if not isinstance(run.raised, Raised):
            return [*runs_made, *turned], False
        seen |= {turns, frozenset(run.trace.turns.items())}
        waiting.extend((run, other) for other in _other_turns(run))
    return [*runs_made, *turned], are_all


def _other_turns(run: Run) -> Iterator[Turn]:
    """Yield what a run has decided once and for all although it was about several things, the last one first."""
    trace = run.trace
    for turn in reversed(trace.turns):
        if turn not in run.choices and (turn[:3] in trace.passed or (*turn[:3], 1) in trace.turns):
            yield turn


def _end_alike(runs: list[Run]) -> bool:
    return all(run.raised == runs[0].raised for run in runs)


def _may_succeed(runs: list[Run]) -> bool:
    """Whether runs end differently, and not all of them in an exception."""
    return not (_end_alike(runs) or all(isinstance(run.raised, Raised) for run in runs))


def _summarise(module: str, runs: list[Run]) -> ImportOutcome:
    first = runs[0]
    usual = [run for run in runs if not run.optional]
    loads = tuple(
        Load(
            path=attempt.path,
            loader=attempt.loader,
            at=attempt.at,
            raised=attempt.raised,
            guarded=attempt.guarded,
            told=attempt.told,
            told_text=attempt.told_text,
            before_torch=attempt.before_torch,
        )
        for attempt in first.trace.attempts
    )
    # A registration is certain if every run makes it; others are listed as possible.
    everywhere = set(first.trace.registrations).intersection(*(run.trace.registrations for run in usual))
    registrations = dict.fromkeys(
        replace(registration, is_conditional=registration not in everywhere)
        for run in runs
        for registration in run.trace.registrations
    )
    gaps = dict.fromkeys(gap for run in usual for gap in run.trace.gaps)
    deciding = _deciding_runs(usual)
    for decision in deciding:
        if decision.why is Why.CALLBACK:
            gaps.setdefault(f"{decision.condition.at}: whether {decision.condition.text} is not known")
    return ImportOutcome(
        module=module,
        raised=first.raised if _end_alike(usual) else Answer.UNKNOWN,
        loads=loads,
        registrations=tuple(registrations),
        conditions=tuple(decision.condition for decision in deciding if decision.why is not Why.CALLBACK),
        gaps=tuple(gaps),
        needs=tuple(dict.fromkeys(need for run in usual for need in run.trace.needs)),
        imported=frozenset(first.trace.imported)
        .intersection(*(run.trace.imported for run in usual))
        .difference(*(run.trace.unfinished for run in usual)),
        usual_end=_usual_end(usual),
    )


def _usual_end(runs: list[Run]) -> UsualEnd | None:
    """Return what most runs end in; None if they all end alike, or if most of them succeed."""
    # Users tell errors by their words, not by the line that raises them. Of two ends with as many ways each, the error
    # is the one to know.
    by_error_first = sorted(runs, key=lambda run: not isinstance(run.raised, Raised))
    ends = [
        (run.raised.exception, run.raised.message) if isinstance(run.raised, Raised) else run.raised
        for run in by_error_first
    ]
    (end, ways), *others = Counter(ends).most_common()
    raised = by_error_first[ends.index(end)].raised
    return UsualEnd(raised=raised, ways=ways, of=len(runs)) if others and isinstance(raised, Raised) else None


def _deciding_runs(runs: list[Run]) -> list[Decision]:
    """Return the decisions whose other way ends differently."""
    first, *remaining = runs
    decisions: dict[Spot, Decision] = {}
    for run in remaining:
        if run.outcome() != first.outcome():
            spots = [key[:3] for key in run.choices if key not in first.choices and key[:3] in run.trace.decisions]
            for spot in spots:
                decision = first.trace.decisions.get(spot, run.trace.decisions[spot])
                decisions.setdefault(spot, _with_error(decision, first, run) if len(spots) == 1 else decision)
    return list(decisions.values())


def _with_error(decision: Decision, first: Run, other: Run) -> Decision:
    """Return a decision with the error that one of its ways ends in: the first run takes the one, another the other."""
    for run, value in ((other, not decision.condition.taken), (first, decision.condition.taken)):
        if isinstance(run.raised, Raised) and run.raised.exception != PROCESS_ENDS:
            return replace(decision, condition=replace(decision.condition, error=run.raised, fails_if=value))
    return decision
