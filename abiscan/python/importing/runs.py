"""Runs of a package's code: each is made once for all targets that answer its questions alike."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from abiscan.python.interpreter.cost import counted_by
from abiscan.python.interpreter.imports import PythonInterpreter
from abiscan.python.interpreter.machine import (
    STEPS_WITH_LARGE_BODIES,
    AllLoaded,
    Choices,
    Exhausted,
    Limits,
    ProcessEnded,
    PythonMachine,
    Spot,
    Trace,
    Turn,
    Unreadable,
)
from abiscan.python.interpreter.questions import Answered, AskedWorld, KeptAnswers, sign_of
from abiscan.python.interpreter.special import text
from abiscan.python.interpreter.values import Class, PythonError, TextOfError, TextWithHoles, Thrown
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, Raised, World, in_words
from abiscan.python.package.systems import strip_folders

_log = logging.getLogger("abiscan.python")
_Result = TypeVar("_Result")
UNFINISHED: Final = "was not followed"
"""What a gap says of an import that has taken as many steps as it may, or of one that none were left for."""
_DEEPEST: Final = 4_000


class Run(Struct, frozen=True, kw_only=True):
    """One run of an import: what it raises, and what happened on the way."""

    raised: Raised | Answer | None
    trace: Trace
    choices: Choices
    optional: bool = False
    """Whether packages that are not required are assumed to be there."""

    def outcome(self) -> tuple[object, ...]:
        """Return what users can tell one run from another by."""
        loads = tuple((attempt.path, attempt.raised) for attempt in self.trace.attempts)
        return (self.raised, loads, tuple(self.trace.registrations))


def load_everything(library: PythonCode, runs: Iterable[Run]) -> bool:
    """Whether some runs load all libraries of the package, if only because others need them."""
    return library.files.has_all(
        {attempt.path for run in runs for attempt in run.trace.attempts if attempt.path is not None}
    )


class WorldKind(Struct, frozen=True, kw_only=True):
    """A kind of world to run code in, and how.

    :ivar world: what makes such a world of the target's, which gives other answers
    :ivar decides: returns what decides all answers in such a world of the target's; None if only asking it tells
    :ivar goes_on: whether other tasks go on where the import of a module has ended
    :ivar large_bodies: for how many steps large bodies are run, too, that seem to do nothing which matters
    """

    world: Callable[[World], World]
    decides: Callable[[World], Hashable] | None = None
    goes_on: bool = False
    large_bodies: int = 0


AS_IT_IS: Final = WorldKind(world=lambda world: world)
WITH_LARGE_BODIES: Final = WorldKind(world=AS_IT_IS.world, large_bodies=STEPS_WITH_LARGE_BODIES)
WITH_ALL_BODIES: Final = WorldKind(world=AS_IT_IS.world, large_bodies=sys.maxsize)


class RunCache(Struct, kw_only=True):
    """What has been done for any target: the results of each task, how many steps it took, and which calls that are
    kept, with the steps of each.
    """

    tasks: dict[Hashable, Answered[tuple[Any, int, Mapping[Hashable, int]]]] = field(default_factory=dict)


class Runs:
    """Runs a package's code for one target, unless that was done for another one which answers alike.

    :param fresh: gives a world of the target in which nothing is loaded yet
    :param cache: what has been done for targets with the same surroundings, whose Pythons find the same files
    """

    def __init__(
        self,
        library: PythonCode,
        fresh: Callable[[], World],
        limits: Limits,
        cache: RunCache,
        kind: WorldKind = AS_IT_IS,
    ) -> None:
        self.library, self._fresh, self._limits, self._cache, self._kind = library, fresh, limits, cache, kind
        self._decided = None if kind.decides is None else kind.decides(fresh())
        """What all answers follow from, so that none has to be asked for."""
        self._steps = [0]
        self._counted: set[Hashable] = set()
        """The calls whose steps are among these."""
        self._told: KeptAnswers = {}
        """What the target has told."""
        self.idle: set[tuple[Spot | Turn, bool]] = set()
        """The ways past conditions that made no difference to some import: see ``explore``."""
        self._ended: dict[str, PythonInterpreter] = {}
        """Where the last import has ended that something may go on from, by the module."""

    def of(self, kind: WorldKind) -> Runs:
        """Return the runs in another kind of world, as part of the same reading."""
        related = Runs(self.library, self._fresh, self._limits, self._cache, kind)
        related._steps, related._counted, related._told = self._steps, self._counted, self._told
        related._ended, related.idle = self._ended, self.idle
        return related

    def begin_after(self, modules: Iterable[str]) -> None:
        """Count no step of the calls that the imports of some modules make: a reading before this one has done so."""
        for module in modules if self.library.kept_calls.calls else ():
            self.run(module)
        self._steps[0] = 0

    @property
    def steps(self) -> int:
        """How many steps the reading has taken."""
        return self._steps[0]

    @property
    def is_spent(self) -> bool:
        """Whether the reading has taken all of its steps."""
        return self._steps[0] > self._limits.total

    def world(self) -> AskedWorld:
        """Return a world in which nothing is loaded yet."""
        return AskedWorld(self._kind.world(self._fresh()))

    def _find(self, task: Hashable, world: AskedWorld) -> tuple[Answered[Any], Any]:
        """Return what has been done of a task for any target, and what it results in for this one, if it was done."""
        # All else that kinds of worlds differ in are answers.
        key = task, self._kind.large_bodies, self._decided
        answered = self._cache.tasks.setdefault(key, Answered())
        return answered, answered.find(world, self._told)

    def _is_all(self, task: Hashable, module: str) -> bool:
        """Whether a run has been done of the import of a package which is all that the import of a module in it does:
        it ends in an exception that is raised in the package, or has imported that module.
        """
        kept = self._find(task, self.world())[1]
        run: Run | None = None if kept is None else kept[0]
        if run is None or isinstance(run.raised, Answer):
            return False
        if run.raised is not None:
            return run.raised.at is not None and run.raised.at.file is not None
        located = self.library.locate(module)
        return located is not None and located.file in run.trace.imported and located.file not in run.trace.unfinished

    def run_cached(
        self,
        task: Hashable,
        work: Callable[[PythonInterpreter], _Result],
        choices: Choices | None = None,
        spell_out: Callable[[_Result, AskedWorld], _Result] | None = None,
        after: str = "",
    ) -> _Result:
        """Return what work with a new interpreter results in; ``task`` names it, with all that it depends on.

        :param spell_out: puts the target's texts of errors into a result
        :param after: the module whose import is what the work begins with: it may have been imported already
        :raises Exhausted: the reading has taken all of its steps before
        """
        if self.is_spent:
            raise Exhausted(f"after {self._limits.total:,} steps in all, the limit of a package")
        # A world keeps what was loaded in it. The walk through the answers may load, so a run after it needs a new one.
        world = self.world()
        answered, kept = self._find(task, world)
        _log.debug("%s %s", "runs" if kept is None else "has run, for another target that answers alike:", task)
        if kept is None:
            machine = self._ended.pop(after, None)
            if machine is None:
                machine = PythonInterpreter(self.library, self.world(), choices or {}, self._limits)
                machine.most_steps_with_large_bodies = machine.large_bodies_until = self._kind.large_bodies
            world, before = machine.world, machine.steps
            machine.calls.used, machine.calls.steps = {}, 0
            with counted_by(machine.count_steps), deep_calls():
                made = work(machine)
            # What would have taken more steps than are left was not done.
            kept = made, min(machine.steps, machine.most_steps) - before, machine.calls.used
            answered.keep(world.asked if self._decided is None else [], kept)
        result, steps, calls = kept
        # The first task of the reading that uses a call counts its steps, whoever made it.
        self._steps[0] += steps + sum(steps for call, steps in calls.items() if call not in self._counted)
        self._counted.update(calls)
        return spell_out(result, world) if spell_out else result

    def run(
        self,
        module: str,
        choices: Choices | None = None,
        *,
        with_optional: bool = False,
        with_module: str | None = None,
        as_it_is_here: bool = False,
        until_loaded: bool = False,
    ) -> Run:
        """Import a module once.

        :param with_optional: whether all packages are there that are not required
        :param with_module: the one of these that is there
        :param until_loaded: whether the run may end once all libraries of the package are loaded, its end unknown
        """
        choices = choices or {}
        goes_on = self._kind.goes_on and not (choices or with_optional or with_module or as_it_is_here or until_loaded)

        def work(machine: PythonInterpreter) -> Run:
            machine.with_optional, machine.with_module = with_optional, with_module
            machine.as_it_is_here, machine.ends_once_loaded = as_it_is_here, until_loaded
            run = _import_once(machine, module, choices)
            if goes_on and run.raised is None:
                machine.trace = machine.trace.copy()
                self._ended.clear()
                self._ended[module] = machine
            return run

        # Everything that the run depends on, other than by the answers of its target; what others go on from is made.
        how = tuple(sorted(choices.items(), key=repr)), with_optional, with_module, as_it_is_here, goes_on
        ends = until_loaded and self._find(("import", module, *how, False), self.world())[1] is None
        ways = (*how, ends)
        packages = accumulate(module.split(".")[:-1], "{}.{}".format)
        reached = next((name for name in packages if self._is_all(("import", name, *ways), module)), module)
        try:
            return self.run_cached(("import", reached, *ways), work, choices, _spelled_out)
        except Exhausted as end:
            gap = f"import {module}: {UNFINISHED}: the reading ended {end}"
            return Run(raised=Answer.UNKNOWN, trace=Trace(gaps=[gap]), choices=choices, optional=with_optional)


@contextmanager
def deep_calls() -> Iterator[None]:
    """Let calls of the code that is read be as deep as they may: each of them is many calls here."""
    # What is parsed may be nested three times as deep as this says (COMPILER_STACK_FRAME_SCALE in Python/symtable.c and
    # Python/ast.c), on the stack of the process: a higher number would not be safe on 8 MB.
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _spelled_out(run: Run, world: AskedWorld) -> Run:
    raised = world.spelled_out(run.raised) if isinstance(run.raised, Raised) else run.raised
    attempts = [
        replace(attempt, raised=world.spelled_out(attempt.raised)) if isinstance(attempt.raised, Raised) else attempt
        for attempt in run.trace.attempts
    ]
    return replace(run, raised=raised, trace=replace(run.trace, attempts=attempts))


def _import_once(machine: PythonInterpreter, module: str, choices: Choices) -> Run:
    _log.debug("imports %s%s", module, f" with the other way of {len(choices)} conditions" if choices else "")
    raised: Raised | Answer | None = None
    try:
        machine.import_module(module)
    except Thrown as error:
        raised = as_raised(machine, error.failure)
    except ProcessEnded as end:
        raised = end.raised
    except (Unreadable, AllLoaded):
        raised = Answer.UNKNOWN
    except Exhausted as end:
        machine.gap(f"{UNFINISHED} to its end: {end}")
        raised = Answer.UNKNOWN
    except RecursionError:
        machine.gap("is nested too deeply to be followed")
        raised = Answer.UNKNOWN
    if machine.trace.is_doubtful or (raised is None and machine.trace.may_end_earlier):
        raised = Answer.UNKNOWN
    _log.debug("the import of %s: %s", module, in_words(raised))
    return Run(raised=raised, trace=machine.trace, choices=choices, optional=machine.with_optional)


def as_raised(machine: PythonMachine, failure: PythonError, depth: int = 0) -> Raised:
    """Return an exception as users see it."""
    # A text of a load that no code has looked at stays a sign: it is put in later, for each target its own.
    try:
        unread = failure.args[0] if len(failure.args) == 1 and not isinstance(failure.cls, Class) else None
        message = sign_of(unread.number) if isinstance(unread, TextOfError) else text(machine, failure)
    except (Thrown, Exhausted, RecursionError):
        message = None
    exact = not isinstance(message, TextWithHoles)
    message = message.shown() if isinstance(message, TextWithHoles) else message
    if isinstance(message, str) and (shown := machine.without_patch(message)) != message:
        message, exact = shown, False
    # As a traceback shows it (language reference, 7.8): the cause, or else the context, unless ``raise … from``
    # suppresses it.
    behind = failure.cause
    if behind is None and not failure.attributes.get("__suppress_context__"):
        behind = failure.context
    return Raised(
        exception=failure.name(),
        message=strip_folders(message) if isinstance(message, str) else None,
        at=failure.at,
        of_torch=failure.of_torch,
        of_other=failure.of_other,
        exact=exact,
        cause=None if behind is None or behind is failure or depth > 10 else as_raised(machine, behind, depth + 1),
    )
