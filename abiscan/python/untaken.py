"""What the branch of an ``if`` may have changed that was not taken, where the condition is not known.

Names that either branch binds are forgotten. The items and attributes that the other branch sets or removes are marked
here as those that code may have changed which may have run: by the statements alone, nothing is called for it. What
methods add is not: that a list is empty, or has one item, is what code checks afterwards, and such a check of what is
not known would count as passed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress

from abiscan.python.attributes import set_plainly
from abiscan.python.builtin_methods import REMOVING, note_call
from abiscan.python.machine import PythonMachine
from abiscan.python.nodes import child_nodes
from abiscan.python.special import delete_item, plain_value, set_item
from abiscan.python.values import Class, Instance, NotKnown, PythonFunction, PythonModule, Scope, Thrown

_Change = ast.Attribute | ast.Subscript | ast.Call
_SETTING = frozenset({"setattr", "delattr"})
_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_HAVING_ATTRIBUTES = (Instance, Class, PythonFunction, PythonModule)
_SOMETHING = NotKnown("a value in a branch")


def note_untaken(machine: PythonMachine, branch: Sequence[ast.stmt], scope: Scope) -> None:
    """Note what the statements of a branch may have changed; the names that they bind are forgotten already."""
    if not branch:
        return
    changes: list[_Change] | None = branch[0].__dict__.get("changes")
    if changes is None:
        changes = branch[0].__dict__["changes"] = list(_changes(branch))
    machine.count_steps(len(changes))
    before, machine.is_speculative = machine.is_speculative, True
    try:
        for change in changes:
            with suppress(Thrown):
                _note(machine, change, scope)
    finally:
        machine.is_speculative = before


def _changes(nodes: Sequence[ast.AST]) -> Iterator[_Change]:
    """Yield the attributes and items that are set or deleted, and the methods that remove what is in a container."""
    for node in nodes:
        is_set = isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
        if is_set or (isinstance(node, ast.Call) and getattr(node.func, "id", "") in _SETTING and len(node.args) > 1):
            yield node  # type: ignore[misc]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in REMOVING:
            yield node.func
        if not isinstance(node, _APART):
            yield from _changes(child_nodes(node))


def _note(machine: PythonMachine, change: _Change, scope: Scope) -> None:
    if isinstance(change, ast.Call):
        owner, name = (_held(argument, scope) for argument in change.args[:2])
        if isinstance(owner, _HAVING_ATTRIBUTES) and isinstance(name, str):
            set_plainly(machine, owner, name, _SOMETHING)
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
        if isinstance(container, (list, dict, set)):
            note_call(container, change.attr)
    elif isinstance(owner, _HAVING_ATTRIBUTES):
        set_plainly(machine, owner, change.attr, _SOMETHING)


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
