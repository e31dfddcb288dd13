"""Calls that do nothing but compute, from plain values and the files of the package: each is made once for all runs.

A package may list what its own sources define, as transformers does: more than a million steps, in each run of its
import. Such a call gives the same in each of them. What it gives is kept by all that it can see: its arguments, the
functions and values that its code names, and those that these name. Only what is plain counts, nothing of it may have
changed by the end of the call, and whatever is more than computing, a question to the target or a look at the machine,
is noted by the machine (``outward``): such a call is made each time.

Whether a call is made or its result taken, the run counts the same steps, so that it ends at the same place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from abiscan.python.interpreter.modelled import Native
from abiscan.python.interpreter.models.builtin import BUILTINS
from abiscan.python.interpreter.models.namespace import Namespace
from abiscan.python.interpreter.models.plain import Cached
from abiscan.python.interpreter.models.texts import Pattern
from abiscan.python.interpreter.plain_values import (
    CHARACTERS_PER_PART,
    CONTAINERS,
    SCALARS,
    NotPlainError,
    copied,
    parts_of,
)
from abiscan.python.interpreter.values import ABSENT, FunctionNode, PythonFunction, Scope
from abiscan.python.language.late_bodies import Unparsed
from abiscan.python.language.nodes import TemplateStr, child_nodes
from abiscan.python.language.targets import bound_in_body
from abiscan.python.package.call_records import Cache, KeptCall

if TYPE_CHECKING:
    from abiscan.python.interpreter.machine import PythonMachine

_LEAST_STEPS: Final = 2_000
"""How many steps a call takes that is worth keeping."""
_STEPS_PER_PART: Final = 8
"""How many it takes at least for each part of what it gives: so the steps of a run bound what is kept."""
_PARTS_PER_STEP: Final = 16
"""How many parts are copied in the time of a step."""
_MOST_TRIES: Final = 3
"""How many calls of a function are watched in a row, in a run, that turn out not to be worth it."""
_LOOKED_AT_PER_STEP: Final = 1
"""How many values are looked at for each step that the code takes: so its steps bound that, too."""
_LOOKED_AT_FREELY: Final = 100_000
_MOST_SEEN: Final = 1_000
"""How many values a call may see that is watched."""
_DEEPEST: Final = 20
_CHANGING: Final = frozenset({list, dict, set})
_LOOPS: Final = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_UNSEEN: Final = (
    ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith, ast.Await, ast.ClassDef, ast.Global, ast.Import, ast.ImportFrom,
    ast.Nonlocal, ast.Yield, ast.YieldFrom, TemplateStr, Unparsed,
)  # fmt: skip
"""What reaches further than the names that a function uses, or goes on after its call."""
_MODULES: Final = frozenset({"glob", "os", "os.path", "pathlib", "posixpath", "re"})
"""The modelled modules of which nothing is kept between calls, but what ``outward`` counts."""
_FUNCTIONS: Final = frozenset({
    "os.fspath", "os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob", "itertools.chain",
    "itertools.chain.from_iterable",
})  # fmt: skip
_PATH_FUNCTIONS: Final = "os.path."
_BUILTINS: Final = frozenset({
    "abs", "all", "any", "bin", "bool", "bytes", "chr", "dict", "divmod", "enumerate", "filter", "float", "frozenset",
    "hex", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "oct", "open", "ord",
    "range", "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
})  # fmt: skip
"""The built-in functions and types that compute from their arguments, or read files."""


def may_be_long(node: FunctionNode) -> bool:
    """Whether a function has a loop, or calls others."""
    return any(map(_is_long, _nodes_of(node)))


def may_keep(machine: PythonMachine, node: FunctionNode) -> bool:
    """Whether what a call of a function that may be long gives may be worth keeping."""
    record = machine.calls
    return (
        record.tries.get(node, 0) < _MOST_TRIES
        and record.looked_at <= _LOOKED_AT_FREELY + _LOOKED_AT_PER_STEP * (machine.steps + record.steps)
        and not (machine.is_speculative or machine.is_traced)
    )


def call_once(machine: PythonMachine, function: PythonFunction, scope: Scope, call: Callable[[], object]) -> object:
    """Return what a call gives; what it gave before, if it only computes.

    :param scope: that of the call, with its arguments
    :param call: makes it
    """
    sight = _Sight(machine)
    try:
        key = sight.of_call(function, scope)
    except NotPlainError:
        machine.calls.looked_at += sight.size
        machine.calls.tries[function.node] = machine.calls.tries.get(function.node, 0) + 1
        return call()
    machine.calls.looked_at += sight.size
    kept = machine.library.kept_calls.calls.get(key)
    if (
        kept is None
        or len(machine.frames) > kept.depth
        or machine.steps + kept.steps > _most_steps(machine)
        or any(name in sight.caches[number].results for number, name, _value in kept.cached)
    ):
        result, kept = _watch(machine, function, scope, key, call)
        if kept is None:
            return result
    else:
        machine.steps += kept.steps
        machine.calls.looked_at += kept.looked_at
        machine.trace.called |= kept.called
    machine.calls.tries[function.node] = 0
    # The reading counts the steps, once for each call; the run has as many again for these as for all others.
    if machine.calls.steps + kept.steps <= machine.limits.steps:
        machine.calls.used[key] = kept.steps
        machine.calls.steps += kept.steps
        machine.steps -= kept.steps - 1 - kept.parts // _PARTS_PER_STEP
    # What is made now is copied, too: nothing tells it from what is taken.
    copies: dict[int, object] = {}
    for number, name, value in kept.cached:
        machine.note_cached(sight.caches[number], name, copied(value, copies))
    return copied(kept.value, copies)


def _watch(
    machine: PythonMachine, function: PythonFunction, scope: Scope, key: Hashable, call: Callable[[], object]
) -> tuple[object, KeptCall | None]:
    """Make a call; return what it gives, also as one to keep if it has done nothing else."""
    record, trace = machine.calls, machine.trace
    used, steps_used, tries, cached = record.used.copy(), record.steps, record.tries.copy(), len(record.cached)
    looked_at = record.looked_at
    arguments, before, steps = scope.names.copy(), _state(machine), machine.steps
    called, trace.called = trace.called, set()
    most_steps, machine.most_steps = machine.most_steps, _most_steps(machine)
    record.watched += 1
    try:
        result = call()
    finally:
        record.watched -= 1
        machine.most_steps = most_steps
        added = record.cached[cached:]
        if not record.watched:
            record.cached.clear()
        new, trace.called = trace.called, called | trace.called
    # Those of calls inside that are kept, too, are no longer among the steps of the run.
    taken = machine.steps - steps + record.steps - steps_used
    kept = None
    if taken >= _LEAST_STEPS and _state(machine) == before:
        arguments_after = Scope(arguments, scope.module)
        with suppress(NotPlainError):
            kept = _as_kept(machine, function, arguments_after, key, result, added, taken, frozenset(new), looked_at)
    if kept is None:
        record.tries[function.node] = record.tries.get(function.node, 0) + 1
        return result, None
    del record.cached[cached:]
    record.used, record.steps, record.tries = used, steps_used, tries
    machine.steps = steps + taken
    machine.library.kept_calls.keep(key, kept)
    return result, kept


def _most_steps(machine: PythonMachine) -> int:
    """Return how many steps a call may end at that may be kept: not among those of a run with large bodies, which ends
    early, since the run without them makes the same call, and gets what it gave.
    """
    is_early = machine.most_steps == machine.most_steps_with_large_bodies
    return machine.limits.steps if is_early else machine.most_steps


def _as_kept(
    machine: PythonMachine,
    function: PythonFunction,
    scope: Scope,
    key: Hashable,
    result: object,
    added: Sequence[tuple[Cache, str, object]],
    taken: int,
    called: frozenset[ast.AST],
    looked_at: int,
) -> KeptCall | None:
    """Return a call as one to keep; None if what it has seen is not as before, or what it gives can change later.

    :param scope: has its arguments
    :param added: what functions have put into their caches
    :param looked_at: how many values had been looked at before it
    :raises NotPlainError: something is of a kind that is not kept
    """
    sight = _Sight(machine)
    try:
        is_same = sight.of_call(function, scope) == key
    finally:
        machine.calls.looked_at += sight.size
    if not is_same:
        return None
    numbers = {id(cache): number for number, cache in enumerate(sight.caches)}
    if any(id(cache) not in numbers for cache, _name, _value in added):
        return None
    parts = parts_of([result, *(value for _cache, _name, value in added)], sight.changing)
    if parts * _STEPS_PER_PART > taken:
        return None
    return KeptCall(
        value=result,
        cached=tuple((numbers[id(cache)], name, value) for cache, name, value in added),
        steps=taken,
        parts=parts,
        depth=len(machine.frames),
        called=called,
        looked_at=machine.calls.looked_at - looked_at,
    )


def _state(machine: PythonMachine) -> tuple[object, ...]:
    """Return what is different as soon as code has done more than compute."""
    trace = machine.trace
    noted: tuple[Sized, ...] = (
        trace.attempts, trace.registrations, trace.decisions, trace.gaps, trace.needs, trace.messages, trace.imported,
        machine.modules, machine.made_places, machine.made_texts,
    )  # fmt: skip
    return (*map(len, noted), machine.outward, machine.world.times_asked)


class _Sight:
    """All that the code of a call can see.

    :ivar caches: the caches of functions among it
    :ivar changing: the numbers (``id``) of the containers among it that can change
    :ivar size: how many values that are
    """

    def __init__(self, machine: PythonMachine) -> None:
        self.caches: list[Cached] = []
        self.changing: set[int] = set()
        self._machine = machine
        self._numbers: dict[int, int] = {}
        """Those of what was gone through and is more than its parts: which of it is the same matters, too."""
        self.size = 0

    def of_call(self, function: PythonFunction, scope: Scope) -> Hashable:
        """Return what a call sees, for a comparison.

        :raises NotPlainError: it is not known, or of a kind that may change, or large
        """
        arguments = tuple((name, self._value(value, 0)) for name, value in scope.names.items())
        # What can change is the caller's; a function among them may be one of another function.
        if self._numbers:
            raise NotPlainError
        return arguments, self._value(function, 0)

    def _function(self, function: PythonFunction) -> Hashable:
        names = _names_used(self._machine, function.node)
        module = function.scope
        if names is None or module.around is not None or module.is_class or function.attributes or module.module.open_:
            raise NotPlainError
        defaults = tuple((name, self._value(value, 0)) for name, value in function.defaults.items())
        seen = tuple((name, self._name(name, module)) for name in names)
        return function.node, module.module.name, module.module.file, defaults, seen

    def _name(self, name: str, module: Scope) -> Hashable:
        if name in module.names:
            return self._value(module.names[name], 0)
        # Any other is a name of a function inside, a built-in one, or none.
        value = self._machine.builtins.get(name, ABSENT)
        if value is ABSENT:
            if name.startswith("__") and name not in {"__file__", "__name__"}:
                raise NotPlainError
            return None
        if not (_is_computing(name, value) or type(value) in SCALARS):
            raise NotPlainError
        return name, value if type(value) in SCALARS else None

    def _value(self, value: object, depth: int) -> Hashable:
        kind = type(value)
        self.size += 1 + (len(value) // CHARACTERS_PER_PART if isinstance(value, (str, bytes)) else 0)
        if self.size > _MOST_SEEN or depth > _DEEPEST:
            raise NotPlainError
        if kind in SCALARS:
            # By the text, which tells 0.0 from -0.0.
            return kind, repr(value) if kind is float else value
        if id(value) in self._numbers:
            return self._numbers[id(value)]
        if kind in _CHANGING or kind in (PythonFunction, Cached):
            self._numbers[id(value)] = len(self._numbers)
        if kind in CONTAINERS:
            if kind in _CHANGING:
                self.changing.add(id(value))
            parts: Iterable[object] = value.items() if isinstance(value, dict) else value  # type: ignore[assignment]
            # In their order, which code may go by: that of equal sets may differ.
            return kind, tuple([self._value(part, depth + 1) for part in parts])
        if kind is PythonFunction:
            return self._function(value)  # type: ignore[arg-type]
        if isinstance(value, Cached):
            self.caches.append(value)
            return kind, self._value(value.function, depth + 1)
        if isinstance(value, Pattern):
            return kind, value.text, value.flags
        if isinstance(value, type) and (_is_computing(value.__name__, value) or issubclass(value, PurePath)):
            return value
        is_module = isinstance(value, Namespace) and value.name in _MODULES
        is_function = isinstance(value, Native) and (value.name in _FUNCTIONS or value.name.startswith(_PATH_FUNCTIONS))
        if is_module or is_function:
            return kind, value.name  # type: ignore[attr-defined]
        raise NotPlainError


def _is_long(node: ast.AST) -> bool:
    """Whether a part of a function may take many steps: a loop, or a call of another function of the package."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in BUILTINS
    return is_call or isinstance(node, _LOOPS)


def _is_computing(name: str, value: object) -> bool:
    """Whether a value is what Python has by a name, and that an exception, or something that computes."""
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    return value is BUILTINS.get(name) and (is_error or name in _BUILTINS)


def _nodes_of(node: FunctionNode) -> list[ast.AST]:
    """Return the nodes of the body of a function, but for annotations of its names, which nothing evaluates."""
    waiting: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
    nodes = []
    while waiting:
        inner = waiting.pop()
        nodes.append(inner)
        annotation = inner.annotation if isinstance(inner, ast.AnnAssign) else None
        waiting += [child for child in child_nodes(inner) if child is not annotation]
    return nodes


def _names_used(machine: PythonMachine, node: FunctionNode) -> tuple[str, ...] | None:
    """Return the names that a function uses and does not bind; None if it may do more than compute."""
    known = machine.library.kept_calls.names
    if node not in known:
        known[node] = _look_for_names(node)
    return known[node]


def _look_for_names(node: FunctionNode) -> tuple[str, ...] | None:
    nodes = _nodes_of(node)
    for inner in nodes:
        if isinstance(inner, _UNSEEN):
            return None
        if isinstance(inner, ast.Attribute) and (inner.attr.startswith("__") or not isinstance(inner.ctx, ast.Load)):
            return None
    args = node.args
    own = {parameter.arg for parameter in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    own |= {parameter.arg for parameter in (args.vararg, args.kwarg) if parameter is not None}
    own |= set() if isinstance(node, ast.Lambda) else bound_in_body(node)
    return tuple(sorted({inner.id for inner in nodes if isinstance(inner, ast.Name)} - own))
