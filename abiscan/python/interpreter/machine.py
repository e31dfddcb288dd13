"""What the reading of one import works with: the package, the world, what has happened, and how much still may."""

from __future__ import annotations

import ast
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from abiscan.python.interpreter.questions import AskedWorld
from abiscan.python.interpreter.unknown_python import is_newer, is_older, names_patch, without_patch
from abiscan.python.interpreter.values import (
    Class,
    HasAttributes,
    NotKnown,
    PythonError,
    PythonFunction,
    PythonModule,
    Scope,
    Thrown,
    Why,
    thrown,
)
from abiscan.python.package import standard
from abiscan.python.package.call_records import Cache, CallRecord
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import (
    Answer,
    Channel,
    Condition,
    LoadedBy,
    Need,
    NoResult,
    PythonLine,
    PythonRegistration,
    Raised,
    Registers,
    UserMessage,
    World,
)
from abiscan.python.package.systems import strip_folders

_log = logging.getLogger("abiscan.python")
_MOST_MESSAGES = 100

STEPS_WITH_LARGE_BODIES = 300_000
"""For how long large bodies are run that seem to do nothing which matters."""

Spot = tuple[str | None, int, int]
"""A place in a source where something is decided: file, line, column."""
Turn = tuple[str | None, int, int, int]
"""One of the times that a place decides about something else, as in the turns of a loop: a spot, and the number."""
Choices = Mapping[Spot | Turn, bool]
"""What a run decides otherwise than by default: everywhere in a place, or in one turn alone."""
MOST_TURNS = 6
"""How many turns of a place are told apart; the later ones are decided alike."""


class Exhausted(Exception):  # noqa: N818 - it ends a run, it is no error
    """The run has taken as many steps as it may."""


class Unreadable(Exhausted):
    """A source file that cannot be followed: a run that comes to it ends."""


class AllLoaded(Exhausted):
    """The run has loaded all libraries of the package, and was made to see what it loads: see ``ends_once_loaded``."""


class ProcessEnded(Exception):  # noqa: N818 - the end of the process that is read, not of this one
    """Raised where a load ends the process."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.message)
        self.raised = raised


class Frame(Struct, kw_only=True):
    """A function or module that is being run, and the line that it is at."""

    file: str | None
    line: int = 0
    function: PythonFunction | None = None
    scope: Scope | None = None
    """The names that its code binds; None for code of the reading's own."""
    suspends: bool = False
    """Whether it is that of a generator, which is suspended where it yields."""
    for_names: bool = False
    """Whether what it returns is bound to several names at once, each of which may wait to be asked of the target."""
    sent: dict[ast.AST, object] = field(default_factory=dict)
    """What the ``yield`` expressions of the statement give that is being run."""


class Attempt(Struct, kw_only=True):
    """A load that the code tried.

    :ivar path: None if it could not be followed
    :ivar raised: what the load raised; None if it succeeded
    :ivar told: how users learned of the failure, once an exception that tells of it was caught for good; None before
    :ivar told_text: the words in which they did, None if those are not known
    :ivar guarded: whether the code would have survived a failure
    :ivar before_torch: whether nothing has imported torch before
    """

    path: str | None
    loader: LoadedBy
    at: PythonLine
    raised: Raised | Answer | None
    told: Channel | None = None
    told_text: str | None = None
    guarded: bool = False
    before_torch: bool = False


class Decision(Struct, kw_only=True):
    """A condition that this run decides one way, and that may hold or not.

    :ivar loads: how many loads were tried before it
    """

    spot: Spot
    condition: Condition
    why: Why
    loads: int


class Trace(Struct, kw_only=True):
    """What has happened so far."""

    attempts: list[Attempt] = field(default_factory=list)
    registrations: list[PythonRegistration] = field(default_factory=list)
    decisions: dict[Spot, Decision] = field(default_factory=dict)
    turns: dict[Turn, bool] = field(default_factory=dict)
    """What each place has decided, turn by turn."""
    passed: set[Spot] = field(default_factory=set)
    """Places that were taken one way since that seemed to matter to values alone, but change objects."""
    gaps: list[str] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    messages: list[UserMessage] = field(default_factory=list)
    """What users are told."""
    called: set[ast.AST] = field(default_factory=set)
    """The functions that have been called."""
    optional: bool = False
    """Whether the code asked for a package that is not required."""
    left_out: list[str] = field(default_factory=list)
    """The modules of others that it asked for, which were taken not to be there."""
    lacking: bool = False
    """Whether a library was loaded that needs another one, which is not on this machine."""
    is_doubtful: bool = False
    """Whether something that may matter was not followed: how the import ends is not known then."""
    may_end_earlier: bool = False
    """Whether a module was imported whose name is not known: what ends the import otherwise does so in any case."""
    imported: list[str] = field(default_factory=list)
    """The files of the modules that have been imported."""
    unfinished: set[str] = field(default_factory=set)
    """Those of them whose bodies have raised."""
    passed_over: bool = False
    """Whether a body was not run as its module was imported, or could have been passed over."""

    def copy(self) -> Trace:
        """Return a trace that goes on from here."""
        lists = {name: value.copy() for name in self.__struct_fields__ if hasattr(value := getattr(self, name), "copy")}
        return replace(self, **lists)


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A moment of a run: the modules that were imported, and how many registrations there had been."""

    modules: Mapping[str, object]
    registrations: int


class Limits(Struct, frozen=True, kw_only=True):
    """How many steps one run may take, how many all runs of a reading, and how deep calls may be.

    They are counted, so that every machine comes to the same end.
    """

    steps: int = 4_000_000
    total: int = 6_000_000
    depth: int = 200


def _brings(top: str, world: World) -> bool | None:
    return standard.has_module(top, world.python)


_PLUGINS: Final = tuple(
    f"{function}()"
    for function in (
        "importlib.metadata.entry_points", "importlib_metadata.entry_points", "pkg_resources.iter_entry_points"
    )
)  # fmt: skip
"""How the names of what packages find by their entry points begin."""


NO_KEYS: Final[tuple[dict[object, object], int, object]] = {}, 1, None
"""No dict that was looked through."""


class PythonMachine:
    """The state of a run. What runs the code is in the classes that derive from it."""

    def __init__(self, library: PythonCode, world: AskedWorld, choices: Choices, limits: Limits) -> None:
        self.library = library
        self.files = library.files
        self.world = world
        self.choices = choices
        self.limits = limits
        self.most_steps = limits.steps
        self.trace = Trace()
        self.frames: list[Frame] = []
        self.modules: dict[str, object] = {}
        self.speculative_imports: set[str] = set()
        """Those of the modules that only code has imported which may not run at all."""
        self.asked_for: str | None = None
        """The module that the user imports."""
        self.guards: list[tuple[object, ...]] = []
        """What the ``try`` statements around catch without raising again, innermost last."""
        self.listeners: list[list[UserMessage]] = []
        self.handling: list[PythonError] = []
        """The exceptions that are being handled, innermost last."""
        self.search_path: list[object] = [library.files.system.root]
        """``sys.path``: the folder that has the package, and what the code adds; the rest is not told."""
        self.meta_path: object = None
        """``sys.meta_path``, once the code has asked for it."""
        self.finders: list[object] = []
        """The finders that the code has put before Python's own, see ``models/meta_path``."""
        self.is_finding = False
        """Whether one of them is running."""
        self.defined: set[str] = set()
        """The operators that Python has defined."""
        self.unclear: set[str] = set()
        """The namespaces in which it has defined some whose names are not known."""
        self.builtins: dict[str, object] = {}
        """Python's built-in names."""
        self.models: Mapping[str, Callable[[PythonMachine], object]] = {}
        """The modules that are modelled."""
        self.dll_folders: set[str] = set()
        """The folders of the package in which Windows looks for libraries by their names alone."""
        self.made_places: dict[str, str] = {}
        """What the code has made outside of the package, ``"file"`` or ``"folder"``; ``""`` where other code may have.
        """
        self.made_texts: dict[str, object] = {}
        """What is in files that it has made, as far as that is known."""
        self.missing_in: dict[str | None, bool] = {}
        """Whether modules use, as they are imported, a name that this torch does not have: those that were asked."""
        self.unbound_in: dict[str | None, set[str]] = {}
        """The names that parts of modules which did not run would have bound."""
        self.perhaps_longer: dict[int, object] = {}
        """The containers, by identity, to which a branch that was not taken adds: an absent item may be there."""
        self.everyday_keys = NO_KEYS
        """The last dict that was seen to have only texts, numbers and the like as keys: how many, and the last one."""
        self.provided: dict[str, bool] = {}
        """Whether the operators of a namespace are assumed to be there."""
        self.most_steps_with_large_bodies = 0
        """How many steps it may take once a large body is run that seems to do nothing which matters; 0 for none."""
        self.large_bodies_until = STEPS_WITH_LARGE_BODIES
        """After how many steps none of these is run any more."""
        self.with_optional = False
        """Whether packages that are not required, and that the code can do without, are there."""
        self.with_module: str | None = None
        """The module of others that is there, besides what is required."""
        self.ends_once_loaded = False
        """Whether the run ends as soon as it has loaded all libraries of the package: what follows does not matter."""
        self.as_it_is_here = False
        """Whether libraries that need another one, which is not on this machine, fail to load."""
        self.warning_filters: list[tuple[object, object]] = []
        """What is done with warnings, by their classes: the first filter that fits counts."""
        self.is_speculative = False
        """Whether the code that is being run may not run at all, so that what it changes is not known."""
        self.extensions: dict[str, str] = {}
        """The extension modules of the package that are imported, and their files."""
        self.told_of_gaps = False
        """Whether the world knows that not everything could be followed."""
        self.called_for_names: object = None
        """The function that is about to be called, if what it returns is bound to several names at once."""
        self.noted_end: Exception | None = None
        """What has last ended a branch whose condition is noted for that."""
        self._taken: dict[object, bool] = {}
        """What was decided, by what it depends on."""
        self._turns: dict[Spot, dict[object, int]] = {}
        """What each place has decided about, and in which turn."""
        self.calls = CallRecord()
        self.outward = 0
        """How often the code has done more than compute from plain values and the files of the package: see
        ``kept_calls``.
        """
        self.is_traced = _log.isEnabledFor(logging.DEBUG)
        self.steps = 0

    # ---- where the code is

    def count_steps(self, steps: int = 1) -> None:
        """Count a step, or as many as work on something large takes."""
        self.steps += steps
        if self.steps > self.most_steps:
            raise Exhausted(f"after {self.limits.steps:,} steps, the limit of an import")

    def before(self, *version: int) -> bool:
        """Whether the interpreter is certainly older than this version."""
        answer = self.world.tells(f"whether Python is older than {version}", lambda world: is_older(world, version))
        return answer is True

    def since(self, *version: int) -> bool:
        """Whether the interpreter is certainly this version or a newer one."""
        answer = self.world.tells(f"whether Python is {version} or newer", lambda world: is_newer(world, version))
        return answer is True

    def brings(self, top: str) -> bool | None:
        """Whether the interpreter has a module of the standard library, by its name at the top; None if it is not
        known.
        """
        if not standard.is_of_some(top):
            return standard.has_module(top, Answer.UNKNOWN)
        ask = functools.partial(_brings, top)
        return self.world.tells(f"whether Python brings {top}", ask)  # type: ignore[return-value]

    def has_lost(self, module: str, name: str) -> bool:
        """Whether a module of the standard library certainly no longer has a name, and no code may have put it back."""
        below = standard.REMOVED_NAMES.get(f"{module}.{name}")
        return below is not None and self.since(*below) and not self.library.may_set(name)

    def lacking_in_python(self, module: str, error: type[Exception], text: str) -> Thrown:
        """Return what Python raises for a name that it no longer has: a fact where it is known which one runs this."""
        lacking = thrown(error, text)
        if self.library.surroundings.is_final:
            lacking.failure.of_other = module.partition(".")[0]
        return lacking

    def without_patch(self, text: str) -> str:
        """Return a text with ``?`` for the patch release of Python: see ``unknown_python``."""
        return without_patch(text, self.world.python) if names_patch(text) else text

    def note_cached(self, cache: Cache, name: str, value: object) -> None:
        """Put what a function has given into its cache."""
        cache.results[name] = value
        if self.calls.watched:
            self.calls.cached.append((cache, name, value))

    def call_operator(self, name: str) -> int | bool | str | NoResult | None:
        """Ask the world what an operator returns that is called without arguments."""
        if any(
            registration.operator.partition(".")[0] == name.partition(".")[0]
            for registration in self.trace.registrations
        ):
            return NoResult(reason="Python code registers something for it")
        return self.world.call(name)

    def place(self) -> PythonLine:
        """Return the innermost line of the package."""
        # Frames without a file are the user's own import, and recipes: the reading's own code for functions of the
        # standard library.
        for frame in reversed(self.frames):
            if frame.file is not None:
                return PythonLine(file=frame.file, line=frame.line)
        return PythonLine(file=None, line=0, module=self.asked_for)

    def gap(self, text: str) -> None:
        """Note what could not be followed."""
        self.outward += 1
        where = f"{self.place()}: {text}"
        if not self.is_speculative and where not in self.trace.gaps and len(self.trace.gaps) < 50:
            self.trace.gaps.append(where)

    def need(self, kind: str, name: str, why: str, *, is_there: bool | None = None) -> None:
        """Note what is assumed to be there, and why it is needed."""
        self.outward += 1
        need = Need(kind=kind, name=name, why=why, at=self.place(), is_there=is_there)
        if not self.is_speculative and need not in self.trace.needs:
            self.trace.needs.append(need)

    def imports_unknown(self, name: object) -> None:
        """Note the import of a module whose name is not known: whether it succeeds is not known, either."""
        self.outward += 1
        if self.catches(ImportError) or self.is_speculative:
            return
        text = name.name if isinstance(name, NotKnown) else repr(name)
        # Plugins are other distributions, which the package does not require.
        if text.startswith(_PLUGINS):
            return
        self.gap(f"the name of a module that is imported is not known: {text}")
        # A run that takes the other way of a condition does what the package is not expected to do here.
        self.trace.may_end_earlier = self.trace.may_end_earlier or not self.choices

    def tell(self, how: Channel, text: str | None) -> None:
        """Note that users are told something."""
        self.outward += 1
        if self.is_speculative:
            return
        shown = None if text is None else strip_folders(self.without_patch(text))
        notice = UserMessage(how=how, at=self.place(), text=shown)
        for listener in (self.trace.messages, *self.listeners):
            if len(listener) < _MOST_MESSAGES:
                listener.append(notice)

    def catches(self, error: type[BaseException]) -> bool:
        """Whether the code around would catch an exception, and not raise it again."""
        return any(cls in error.__mro__ for guard in self.guards for cls in guard if isinstance(cls, type))

    def is_optional_there(self, error: type[BaseException], module: str = "") -> bool:
        """Whether a package that is not required is there: only if the code cannot do without it.

        :param error: what tells the code that it is not
        :param module: the module that is imported
        """
        self.outward += 1
        if not self.catches(error):
            return True
        self.trace.optional = True
        top = module.partition(".")[0]
        if self.with_optional or (top and top == self.with_module):
            return True
        self.trace.left_out += [top] if top else []
        return False

    def decide(
        self, text: str, why: Why, spot: tuple[int, int], *, default: bool, about: NotKnown | None = None
    ) -> bool:
        """Choose a branch on an unknown condition: the default, or the one that this run was told to take.

        :param about: what it depends on; whatever else depends on the same is decided alike
        """
        self.outward += 1
        # One question has one answer in a run. Without that, runs would follow paths that no machine takes, with a GPU
        # here and none there.
        taken = None if about is None else self.taken(about)
        if taken is None:
            taken = self._decide_now(text, why, spot, about, default=default)
            if about is not None and not self.is_speculative:
                self.take(about, taken=taken)
        return taken

    @property
    def has_guessed(self) -> bool:
        """Whether the code so far ran on a guess, so that a name which is lacking may be bound all the same."""
        return self.is_speculative or bool(self.trace.decisions)

    def taken(self, unknown: NotKnown) -> bool | None:
        """Return which way was taken where this decided before, None if it did not."""
        self.outward += 1
        key, negated = unknown.question()
        was_taken = self._taken.get(key)
        return None if was_taken is None else was_taken is not negated

    def take(self, unknown: NotKnown, *, taken: bool) -> None:
        """Remember which way was taken."""
        self.outward += 1
        key, negated = unknown.question()
        self._taken[key] = taken is not negated

    def checkpoint(self) -> Checkpoint:
        """Return where the run has come to."""
        return Checkpoint(modules=dict(self.modules), registrations=len(self.trace.registrations))

    def go_back(self, checkpoint: Checkpoint, choices: Choices) -> None:
        """Forget what was imported and registered since, and decide otherwise from now on."""
        self.modules.clear()
        self.modules.update(checkpoint.modules)
        # What is imported again registers it again.
        del self.trace.registrations[checkpoint.registrations :]
        self.defined = {item.operator for item in self.trace.registrations if item.what is Registers.DEFINITION}
        self.forget_names()
        self._taken.clear()
        self._turns.clear()
        self.trace.turns.clear()
        self.choices = choices

    def is_chosen(self, spot: tuple[int, int]) -> bool:
        """Whether this run was told which way to take at a place of the innermost module."""
        if not self.choices:
            return False
        place = (self.place().file, *spot)
        return any(chosen[:3] == place for chosen in self.choices)

    def note_passed(self, unknown: NotKnown, spot: tuple[int, int], *, taken: bool, changes: bool) -> None:
        """Note a place that is taken one way in this run, which seems to matter to nothing but values.

        :param changes: whether either way may change an object that stays
        """
        if self.is_speculative:
            return
        key = (self.place().file, *spot)
        self._note_turn(key, unknown.question()[0], taken=taken)
        if changes:
            self.trace.passed.add(key)

    def _note_turn(self, spot: Spot, question: object, *, taken: bool) -> bool:
        """Return which way is taken at a place where something is asked; unless this turn is chosen, as given."""
        turns = self._turns.setdefault(spot, {})
        number = turns.get(question, len(turns))
        if number == MOST_TURNS:
            return taken
        turns[question] = number
        turn = (*spot, number)
        return self.trace.turns.setdefault(turn, self.choices.get(turn, taken))

    def _decide_now(self, text: str, why: Why, spot: tuple[int, int], about: NotKnown | None, *, default: bool) -> bool:
        # Code that may not run at all is not worth runs of its own.
        if self.is_speculative:
            return default
        place = self.place()
        # By the place, since ``choices`` come from an earlier run, whose values were other objects.
        key = (place.file, *spot)
        taken = self._note_turn(
            key, text if about is None else about.question()[0], taken=self.choices.get(key, default)
        )
        if key not in self.trace.decisions:
            condition = Condition(text=text, at=PythonLine(file=place.file, line=spot[0]), taken=taken)
            loads = len(self.trace.attempts)
            self.trace.decisions[key] = Decision(spot=key, condition=condition, why=why, loads=loads)
            _log.debug("%s: takes %s to be %s, which depends on what is %s", condition.at, text, taken, why.value)
        return taken

    def scope(self) -> Scope:
        """Return the scope of the innermost function or module of the package."""
        inner = (frame.scope for frame in reversed(self.frames) if frame.file is not None and frame.scope is not None)
        return next(inner, Scope({}, PythonModule("__main__")))

    # ---- what the parts of the interpreter offer each other

    def call(self, function: object, args: list[object], kwargs: dict[str, object]) -> object:
        """Call a value."""
        raise NotImplementedError

    def call_unsettled(self, function: object, args: list[object], kwargs: dict[str, object]) -> object:
        """Call a value; what it gives may be a question to the target."""
        raise NotImplementedError

    def bind_arguments(
        self, function: PythonFunction, args: list[object], kwargs: dict[str, object]
    ) -> dict[str, object]:
        """Return the parameters of a function by name; raises where Python certainly would."""
        raise NotImplementedError

    def error_of_attribute(self, module: str, name: str) -> Thrown | None:
        """Return what an attribute of a module of others raises; None if that is nothing, or not certain."""
        raise NotImplementedError

    def misses_names(self, file: str) -> bool:
        """Whether a module uses, as it is imported, a name that this torch does not have."""
        raise NotImplementedError

    def uses_missing(self, node: ast.stmt | ast.expr) -> bool:
        """Whether running this code may use a name that this torch does not have."""
        raise NotImplementedError

    def acts(self, node: ast.stmt | ast.expr) -> bool:
        """Whether it matters if this code runs: it loads, registers, or uses what torch does not have."""
        return self.library.acts(node) or self.uses_missing(node)

    def matters(self, node: ast.stmt | ast.expr) -> bool:
        """Whether it matters how often this code runs: it acts, or it raises or returns."""
        return self.library.matters(node) or self.uses_missing(node)

    def evaluate(self, node: ast.expr, scope: Scope) -> object:
        """Return the value of an expression."""
        raise NotImplementedError

    def execute_whole(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Run statements that no ``return``, ``break`` or ``continue`` may leave."""
        raise NotImplementedError

    def special(self, name: str, args: list[object], scope: Scope) -> object:
        """Call one of the built-in functions that look at their caller."""
        raise NotImplementedError

    def get_attribute(self, value: object, name: str) -> object:
        """Return an attribute of a value."""
        raise NotImplementedError

    def import_module(self, name: str) -> object:
        """Execute ``importlib.import_module``: return the module of that name."""
        raise NotImplementedError

    def forget_names(self) -> None:
        """Note that ``sys.modules`` has changed."""
        raise NotImplementedError

    def run_body(self, module: PythonModule) -> None:
        """Run the body of a module."""
        raise NotImplementedError

    def catch_up(self, module: PythonModule) -> None:
        """Run the body of a module that was deferred: one of its names is needed."""
        raise NotImplementedError

    def settle(self, value: object) -> object:
        """Return the value itself, where a name of a module that is not run yet stands for it."""
        raise NotImplementedError

    def items(self, value: object) -> list[object] | NotKnown:
        """Return what iterating over a value gives."""
        raise NotImplementedError

    def iterate(self, value: object) -> Iterator[object] | NotKnown:
        """Return the items of a value, one after the other."""
        raise NotImplementedError

    def bound(self, member: object, receiver: object, cls: Class | None) -> object:
        """Return what a name found in a class gives when it is taken from an object, or from the class (no
        receiver).
        """
        raise NotImplementedError

    def is_abstract(self, cls: Class) -> bool:
        """Whether a class derives from ``ABC``, or is made by ``ABCMeta``."""
        raise NotImplementedError

    def abstract_methods(self, cls: Class) -> set[str]:
        """Return the abstract methods of a class that no derived class has overridden."""
        raise NotImplementedError

    def members(self, cls: Class) -> list[object] | None:
        """Return the members of an enumeration, None if the class is none."""
        raise NotImplementedError

    def member_named(self, cls: Class, name: object) -> object:
        """Return the member that an enumeration has by a name; None if it has none, an unknown if that is not known."""
        raise NotImplementedError

    def create(self, cls: Class, args: list[object], kwargs: dict[str, object]) -> object:
        """Execute ``object.__new__``: return an object of a class, which is not initialised yet."""
        raise NotImplementedError

    def instantiate(self, cls: Class, args: list[object], kwargs: dict[str, object]) -> object:
        """Execute ``type.__call__``: return an object of a class, made and initialised."""
        raise NotImplementedError

    def fill_in(self, cls: Class, made: HasAttributes, args: list[object], kwargs: dict[str, object]) -> None:
        """Execute the ``__init__`` that a dataclass or a named tuple makes of its fields."""
        raise NotImplementedError

    def derive_class(self, args: list[object], kwargs: dict[str, object]) -> object:
        """Execute ``type(name, bases, names)``."""
        raise NotImplementedError

    def make_class(self, metaclass: Class | None, args: list[object], kwargs: dict[str, object]) -> object:
        """Execute ``type.__new__``: return a class, made of its name, bases and names."""
        raise NotImplementedError

    def note_possible_call(self, caller: NotKnown, function: object) -> None:
        """Note that code which is not read may call a function of the package."""
        raise NotImplementedError

    def note_possible_loads(self, caller: str, libraries: Iterable[str]) -> None:
        """Note that code which is not read may load libraries of the package."""
        raise NotImplementedError

    def note_possible_uses(self, caller: NotKnown, values: Iterable[object]) -> None:
        """Note that code which is not read gets values, and may call the functions among them."""
        raise NotImplementedError
