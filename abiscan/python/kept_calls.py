"""Calls that only compute, from constants and the package's own files: each is made once for all runs.

A package may read its own sources to list what is in them, as transformers does: a million steps, in each way of its
import and in that of each submodule. Whatever target it is read for, and whatever the way, such a call gives the same.
So what it gives is kept, by its arguments and by all that its code can see, and it counts few steps, made or not.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Sized
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from abiscan.python.builtin_methods import CHANGING
from abiscan.python.library import KeptCall, SeenNames
from abiscan.python.modelled import Modelled
from abiscan.python.nodes import walk
from abiscan.python.values import FunctionNode, PythonFunction, Scope

if TYPE_CHECKING:
    from abiscan.python.machine import PythonMachine

_LEAST_STEPS: Final = 500
"""How many steps a call takes that is worth keeping."""
_MOST_TRIES: Final = 3
"""How many calls of a function are watched, in a run, that turn out to take fewer."""
_MORE_TRIES: Final = 20
"""How many more, after one that was worth it."""
_MOST_PARTS: Final = 100_000
_PARTS_OF_A_STEP: Final = 10
_STEPS_OF_A_STEP: Final = 16
_SCALARS: Final = frozenset({str, bytes, int, float, bool, type(None)})
_LOOPS: Final = (ast.For, ast.While, ast.comprehension)
_UNSEEN: Final = (
    ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith, ast.Await, ast.ClassDef, ast.Global, ast.Import,
    ast.ImportFrom, ast.Nonlocal, ast.Yield, ast.YieldFrom,
)  # fmt: skip
"""What reaches further than the names of a function."""
_REACHING: Final = frozenset({
    "__import__", "chdir", "delattr", "environ", "eval", "exec", "getcwd", "getenv", "globals", "input", "locals",
    "next", "putenv", "setattr", "super", "umask", "vars",
})  # fmt: skip
_COMPUTING: Final = frozenset({
    "ast", "builtins", "collections", "fnmatch", "functools", "glob", "itertools", "json", "math", "operator", "os",
    "pathlib", "posixpath", "re", "string", "textwrap",
})  # fmt: skip
"""The modelled modules whose functions compute, or look at files."""


class _UnkeptError(Exception):
    """A value is of a kind that may change, or that is not known."""


def may_keep(machine: PythonMachine, function: PythonFunction) -> bool:
    """Whether what a call gives may be worth keeping."""
    return not machine.is_watched and machine.light_calls.get(function.node, 0) < _MOST_TRIES


def call_once(machine: PythonMachine, function: PythonFunction, scope: Scope, call: Callable[[], object]) -> object:
    """Return what a call gives; what it gave before, if it only computes.

    :param scope: that of the call, with its arguments
    :param call: makes it
    """
    kept_calls = machine.library.kept_calls
    try:
        key = (tuple(map(_fixed, scope.names.values())), _Surroundings(machine).of(function))
    except _UnkeptError:
        machine.light_calls[function.node] = _MOST_TRIES
        return call()
    kept = kept_calls.get(key)
    if kept is None:
        result, kept = _watch(machine, function, key, call)
        if kept is None:
            machine.count_steps(0)
            return result
        kept_calls[key] = kept
        machine.steps -= kept.steps
    # It counts the same whether it is made or not, so that a reading ends at the same place whatever went before.
    machine.trace.called |= kept.called
    machine.light_calls[function.node] = -_MORE_TRIES
    is_free = kept.steps <= machine.free_steps
    machine.free_steps -= kept.steps if is_free else 0
    machine.count_steps(kept.cost if is_free else kept.steps)
    return _copied(kept.value)


def _watch(
    machine: PythonMachine, function: PythonFunction, key: Hashable, call: Callable[[], object]
) -> tuple[object, KeptCall | None]:
    """Make a call; return what it gives, also as one to keep if it has done nothing else."""
    trace, before, steps, free = machine.trace, _state(machine), machine.steps, machine.free_steps
    called, trace.called, machine.is_watched = trace.called, set(), True
    machine.most_steps += free
    try:
        result = call()
    finally:
        machine.most_steps -= free
        new, trace.called, machine.is_watched = frozenset(trace.called), called | trace.called, False
    taken = machine.steps - steps
    if taken < _LEAST_STEPS:
        machine.light_calls[function.node] = machine.light_calls.get(function.node, 0) + 1
        return result, None
    try:
        parts = _count_parts(result)
        is_same = _state(machine) == before and (key[0], _Surroundings(machine).of(function)) == key  # type: ignore[index]
    except _UnkeptError:
        return result, None
    if not is_same:
        return result, None
    cost = 1 + parts // _PARTS_OF_A_STEP + taken // _STEPS_OF_A_STEP
    kept = KeptCall(value=_copied(result), cost=cost, steps=taken, called=new)
    return result, kept


def _state(machine: PythonMachine) -> tuple[object, ...]:
    """Return what changes as soon as code does anything but compute, or asks anything of its target."""
    trace = machine.trace
    kinds: tuple[Sized, ...] = (
        trace.attempts, trace.registrations, trace.decisions, trace.gaps, trace.needs, trace.messages, trace.imported,
        machine.modules, machine.search_path, machine.warning_filters, machine.defined, machine.unclear,
        machine.dll_folders, machine.extensions, machine.provided, machine.made_places, machine.made_texts,
    )  # fmt: skip
    flags = (trace.optional, trace.lacking, trace.is_doubtful, trace.may_end_earlier, machine.is_speculative)
    return (*(len(kind) for kind in kinds), *flags, machine.decided, machine.world.times_asked)


class _Surroundings:
    """All that the code of a function sees outside of its own names."""

    def __init__(self, machine: PythonMachine) -> None:
        self._machine = machine
        self._functions: dict[ast.AST, None] = {}
        self._parts = 0

    def of(self, function: PythonFunction) -> Hashable:
        """Return it for a comparison.

        :raises _UnkeptError: it is not known, or of a kind that may change
        """
        machine = self._machine
        names = self._names(function.node)
        if names is None or not names.repeats:
            raise _UnkeptError
        seen = self._function(function)
        return seen, tuple(machine.made_places.items()), machine.with_optional, machine.as_it_is_here

    def _function(self, function: PythonFunction) -> Hashable:
        node = function.node
        if node in self._functions:
            return node
        self._functions[node] = None
        names = self._names(node)
        if names is None or function.scope.around is not None or function.attributes:
            raise _UnkeptError
        defaults = tuple(map(self._value, function.defaults.values()))
        # What is bound nowhere outside is a name of its own, or a built-in one.
        module = function.scope.names
        return node, defaults, tuple((name, self._value(module[name])) for name in names.names if name in module)

    def _names(self, node: FunctionNode) -> SeenNames | None:
        known = self._machine.library.names_seen
        if node not in known:
            known[node] = _names_seen_by(node)
        return known[node]

    def _value(self, value: object) -> Hashable:
        self._parts += 1
        kind = type(value)
        if kind in _SCALARS or isinstance(value, PurePath):
            return kind, value
        if self._parts > _MOST_PARTS:
            raise _UnkeptError
        if kind in (list, tuple):
            return kind, tuple(map(self._value, value))  # type: ignore[call-overload]
        if kind in (set, frozenset):
            return kind, frozenset(map(self._value, value))  # type: ignore[call-overload]
        if kind is dict:
            return kind, tuple((self._value(key), self._value(item)) for key, item in value.items())  # type: ignore[attr-defined]
        if kind is PythonFunction:
            return self._function(value)  # type: ignore[arg-type]
        if isinstance(value, type):
            return value
        if not isinstance(value, Modelled):
            raise _UnkeptError
        if value.display_name().partition(".")[0] in _COMPUTING:
            return kind, value.display_name()
        parts = value.made_of()
        if parts is None:
            raise _UnkeptError
        return kind, tuple(map(self._value, parts))


def _names_seen_by(node: FunctionNode) -> SeenNames | None:
    """Return the names that a function uses; None if it may do more than compute."""
    nodes = [inner for part in (node.body if isinstance(node.body, list) else [node.body]) for inner in walk(part)]
    own = {inner.id for inner in nodes if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load)}
    for inner in nodes:
        if isinstance(inner, _UNSEEN):
            return None
        if isinstance(inner, ast.Attribute) and (inner.attr in _REACHING or not isinstance(inner.ctx, ast.Load)):
            return None
        # What it changes is its own: what it has made, under a name that it has bound.
        changed: ast.AST | None = None
        if isinstance(inner, ast.Subscript) and not isinstance(inner.ctx, ast.Load):
            changed = inner
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in CHANGING:
            changed = inner.func.value
        while isinstance(changed, (ast.Subscript, ast.Attribute)):
            changed = changed.value
        if isinstance(changed, ast.Name) and changed.id not in own:
            return None
    names = sorted({inner.id for inner in nodes if isinstance(inner, ast.Name)})
    if not _REACHING.isdisjoint(names):
        return None
    return SeenNames(tuple(names), any(isinstance(inner, _LOOPS) for inner in nodes))


def _fixed(value: object) -> Hashable:
    """Return an argument that nobody can change, for a comparison."""
    kind = type(value)
    if kind in _SCALARS or isinstance(value, PurePath):
        return kind, value
    if kind is tuple:
        return tuple(map(_fixed, value))  # type: ignore[call-overload]
    raise _UnkeptError


def _count_parts(result: object) -> int:
    """Return how many parts a result has.

    :raises _UnkeptError: one is not known, or of a kind that cannot be copied
    """
    waiting: list[Iterable[object]] = [[result]]
    count = 0
    while waiting:
        for part in waiting.pop():
            count += 1
            if isinstance(part, (list, tuple, set, frozenset, dict)):
                waiting.append(part)
                if isinstance(part, dict):
                    waiting.append(part.values())
            elif type(part) not in _SCALARS and not isinstance(part, PurePath):
                raise _UnkeptError
            if count > _MOST_PARTS:
                raise _UnkeptError
    return count


def _copied(value: object) -> object:
    """Return a value in which nothing is shared that can change."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind in (list, tuple):
        return kind(map(_copied, value))  # type: ignore[call-overload]
    if kind in (set, frozenset):
        return set(value) if kind is set else value  # type: ignore[call-overload]
    if kind is dict:
        return {key: _copied(item) for key, item in value.items()}  # type: ignore[attr-defined]
    return value
