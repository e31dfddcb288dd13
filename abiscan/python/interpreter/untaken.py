"""What the branch of an ``if`` may have changed that was not taken, where the condition is not known.

Names that either branch binds are forgotten. The items and attributes that the other branch sets or removes are marked
here as those that code may have changed which may have run, in functions that it calls, too: by the statements alone,
nothing is called for it. Of what methods and operators add, only that it may be there is noted, for whoever takes it:
that a list is empty, or has one item, is what code checks afterwards, and such a check of what is not known would count
as passed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from abiscan.python.interpreter.attributes import set_plainly
from abiscan.python.interpreter.builtin_methods import ADDING, CHANGING, REMOVING, note_call
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.special import delete_item, plain_value, set_item
from abiscan.python.interpreter.values import (
    Bound,
    Class,
    Instance,
    NotKnown,
    PythonFunction,
    PythonModule,
    Scope,
    Thrown,
    Wrapped,
)
from abiscan.python.language.nodes import child_nodes

_Change = ast.Attribute | ast.Subscript | ast.Call | ast.Global | ast.AugAssign
_SETTING = frozenset({"setattr", "delattr"})
_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_HAVING_ATTRIBUTES = (Instance, Class, PythonFunction, PythonModule)
_SOMETHING = NotKnown("a value in a branch")
_DEPTH: Final = 3
"""How many calls deep changes are looked for."""


def note_untaken(
    machine: PythonMachine,
    branch: Sequence[ast.stmt],
    scope: Scope,
    depth: int = 0,
    noted: dict[tuple[int, ...], int] | None = None,
) -> None:
    """Note what the statements of a branch may have changed; the names that they bind are forgotten already.

    :param depth: how many calls the branch is inside of
    :param noted: the calls for which that is done, by their functions and arguments (``id``), and at which depth
    """
    noted = {} if noted is None else noted
    changes = _changes_of(branch)
    machine.count_steps(len(changes))
    before, machine.is_speculative = machine.is_speculative, True
    try:
        for change in changes:
            with suppress(Thrown):
                _note(machine, change, scope, depth, noted)
    finally:
        machine.is_speculative = before


def note_grown(machine: PythonMachine, branch: Sequence[ast.stmt], scope: Scope) -> None:
    """Note which containers the statements of a branch may have added to by ``+=``, while their names still stand."""
    for change in _changes_of(branch):
        if isinstance(change, ast.AugAssign):
            _note_added(machine, _held(change.target, scope))


def _changes_of(branch: Sequence[ast.stmt]) -> list[_Change]:
    if not branch:
        return []
    changes: list[_Change] | None = branch[0].__dict__.get("changes")
    if changes is None:
        changes = branch[0].__dict__["changes"] = list(_changes(branch))
    return changes


def _changes(nodes: Sequence[ast.AST]) -> Iterator[_Change]:
    """Yield the attributes and items that are set or deleted, what changes a container, and what is called."""
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            yield node.func
        elif isinstance(node, (ast.Call, ast.Global, ast.AugAssign)):
            yield node
        if not isinstance(node, _APART):
            yield from _changes(child_nodes(node))


def _note(machine: PythonMachine, change: _Change, scope: Scope, depth: int, noted: dict[tuple[int, ...], int]) -> None:
    if isinstance(change, ast.Global):
        scope.module.names.update(dict.fromkeys(change.names, _SOMETHING))
        return
    if isinstance(change, ast.Call):
        _note_call(machine, change, scope, depth, noted)
        return
    if isinstance(change, ast.AugAssign):
        _note_added(machine, _held(change.target, scope))
        return
    owner = _held(change.value, scope)
    if isinstance(change, ast.Subscript):
        container = plain_value(owner)
        if isinstance(container, (list, dict)) and isinstance(change.ctx, ast.Del):
            delete_item(machine, container, _held(change.slice, scope))
        elif isinstance(container, (list, dict)):
            set_item(machine, container, _held(change.slice, scope), _SOMETHING)
    elif isinstance(change.ctx, ast.Load):
        container = plain_value(owner)
        if change.attr in ADDING:
            _note_added(machine, container)
        if change.attr in REMOVING and isinstance(container, (list, dict, set)):
            note_call(container, change.attr)
    elif isinstance(owner, _HAVING_ATTRIBUTES):
        set_plainly(machine, owner, change.attr, _SOMETHING)


def _note_added(machine: PythonMachine, value: object) -> None:
    container = plain_value(value)
    if isinstance(container, (list, dict, set)):
        machine.perhaps_longer[id(container)] = container


def _note_call(
    machine: PythonMachine, call: ast.Call, scope: Scope, depth: int, noted: dict[tuple[int, ...], int]
) -> None:
    """Note what a call may have changed: what ``setattr`` sets, and what is changed in the body of a function."""
    called = call.func.id if isinstance(call.func, ast.Name) else None
    given = [_held(argument, scope) for argument in call.args]
    if called in _SETTING and len(given) > 1:
        if isinstance(given[0], _HAVING_ATTRIBUTES) and isinstance(given[1], str):
            set_plainly(machine, given[0], given[1], _SOMETHING)
        return
    if called == "exec":
        scope.module.open_ = True
        return
    function, receivers = _called(call.func, scope)
    if function is None or isinstance(function.node, ast.Lambda) or depth == _DEPTH:
        return
    key = tuple(map(id, (function, *receivers, *given)))
    if noted.get(key, _DEPTH) <= depth:
        return
    noted[key] = depth
    node = function.node
    names: dict[str, object] = dict.fromkeys(set[str]().union(*map(machine.library.bound_names, node.body)), _SOMETHING)
    parameters = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    names |= {parameter.arg: _SOMETHING for parameter in parameters}
    names |= {parameter.arg: value for parameter, value in zip(parameters, [*receivers, *given], strict=False)}
    note_untaken(machine, node.body, Scope(names, function.scope.module, function.scope), depth + 1, noted)


def _called(node: ast.expr, scope: Scope) -> tuple[PythonFunction | None, list[object]]:
    """Return the function that is called, if it is one of the package, and what it gets before the arguments."""
    function, receivers = _held(node, scope), list[object]()
    if isinstance(node, ast.Attribute):
        owner = _held(node.value, scope)
        if isinstance(owner, Instance) and node.attr not in owner.attributes:
            function, receivers = owner.cls.find(node.attr), [owner]
        elif isinstance(owner, Class):
            receivers = [owner] if isinstance(function, Wrapped) and function.kind == "classmethod" else []
    if isinstance(function, Bound):
        receivers, function = [function.receiver], function.function
    elif isinstance(function, Wrapped):
        function = function.function
    return (function, receivers) if isinstance(function, PythonFunction) else (None, [])


def _held(node: ast.expr, scope: Scope) -> object:
    """Return what a name, or an attribute of such a value, stands for, if that is looked up without running code."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        inner: Scope | None = scope
        while inner is not None:
            home = inner.outer_names.get(node.id, inner)
            if node.id in home.names and (inner is scope or not inner.is_class):
                return home.names[node.id]
            inner = inner.around
    elif isinstance(node, ast.Attribute):
        owner = _held(node.value, scope)
        if isinstance(owner, Instance) and node.attr == "__dict__":
            return owner.attributes
        if isinstance(owner, Instance):
            return owner.attributes.get(node.attr, _SOMETHING)
        if isinstance(owner, PythonModule):
            return owner.names.get(node.attr, _SOMETHING)
        if isinstance(owner, Class):
            return owner.find(node.attr, _SOMETHING)
    return _SOMETHING
