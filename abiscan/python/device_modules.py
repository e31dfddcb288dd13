"""What code takes of a module of torch for a device whose name it computes, and that ``torch.cpu`` lacks.

``getattr(torch, device).set_device(…)`` runs on GPUs. Where the code itself shows that the device may be a CPU, it
fails there if this torch has the name for CUDA alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from msgspec import Struct

from abiscan.python.library import PythonCode
from abiscan.python.nodes import child_nodes, walk
from abiscan.python.sources import is_for_users
from abiscan.python.torch_names import TorchNames
from abiscan.python.version_guards import EXITS, words_in
from abiscan.regex import regex

_CPU: Final = "cpu"
_LOOKED_UP: Final = b"= getattr(torch, "
_MOST_LOOKUPS: Final = 20
"""How many lookups of a function, or of a module, are looked at."""
_OF_DEVICES: Final = regex(r"(?i)cuda|gpu|cpu|accelerat|hasattr|avail|support|xpu|npu|mps")
"""What is in the words of conditions that may ask which device there is."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class DeviceUse(Struct, frozen=True, order=True, kw_only=True):
    """A function that uses a name which the module for CPUs does not have.

    :ivar name: ``torch.cpu.set_device``
    """

    name: str
    file: str
    line: int
    function: str


class _Lookup(Struct, frozen=True, kw_only=True):
    """``module = getattr(torch, device)``.

    :ivar scope: the function or module that it is in
    """

    module: str
    device: str
    scope: ast.AST


def uses_on_cpus(code: PythonCode, names: TorchNames) -> Iterator[DeviceUse]:
    """Yield the uses of what this torch has for CUDA alone, by code that may run on CPUs."""
    for file in filter(is_for_users, code.sources):
        tree = code.tree(file) if _LOOKED_UP in code.source(file) else None
        if tree is not None:
            with suppress(RecursionError):  # what is nested this deeply is not looked at
                yield from _uses_in(tree, file, names)


def _uses_in(tree: ast.Module, file: str, names: TorchNames) -> Iterator[DeviceUse]:
    returning = _functions_returning(tree, _CPU)
    for scope in (tree, *(node for node in walk(tree) if isinstance(node, _FUNCTIONS))):
        for lookup in islice(_lookups_in(scope), _MOST_LOOKUPS):
            if not (_is_bound_once(scope, lookup.module) and _may_be_cpu(lookup, returning)):
                continue
            for node, function in _in_block(lookup, getattr(scope, "body", []), getattr(scope, "name", "")):
                name = f"torch.{_CPU}.{node.attr}"
                if names.lacks(f"torch.{_CPU}", node.attr) and names.has("torch.cuda", node.attr):
                    yield DeviceUse(name=name, file=file, line=node.lineno, function=function)


def _lookups_in(scope: ast.AST) -> Iterator[_Lookup]:
    for node in _own_parts(scope):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=module)],
                value=ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="torch"), ast.Name(id=device)]),
            ):
                yield _Lookup(module=module, device=device, scope=scope)


def _own_parts(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a module or function, without those of the functions and classes in it."""
    waiting = list(child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        waiting += () if isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)) else child_nodes(node)


def _is_bound_once(scope: ast.AST, name: str) -> bool:
    bound = (node for node in walk(scope) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
    return sum(node.id == name for node in bound) == 1


def _functions_returning(tree: ast.Module, text: str) -> frozenset[str]:
    return frozenset(
        function.name
        for function in tree.body
        if isinstance(function, _FUNCTIONS)
        and any(isinstance(part, ast.Return) and _is_text(part.value, text) for part in walk(function))
    )


def _is_text(node: ast.AST | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _may_be_cpu(lookup: _Lookup, returning: frozenset[str]) -> bool:
    """Whether the code shows that a device may be a CPU: it is assigned, returned by a function, or allowed."""
    for node in _own_parts(lookup.scope):
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == lookup.device for target in node.targets):
            values = [node.value, *((node.value.body, node.value.orelse) if isinstance(node.value, ast.IfExp) else ())]
            called = {getattr(value.func, "id", "") for value in values if isinstance(value, ast.Call)}
            if called & returning or any(_is_text(value, _CPU) for value in values):
                return True
        if isinstance(node, ast.Compare) and getattr(node.left, "id", "") == lookup.device:
            allowed = node.comparators[0] if isinstance(node.ops[0], (ast.In, ast.NotIn)) else None
            if any(_is_text(item, _CPU) for item in getattr(allowed, "elts", ())):
                return True
    return False


def _in_block(lookup: _Lookup, statements: Sequence[ast.stmt], function: str) -> Iterator[tuple[ast.Attribute, str]]:
    """Yield what functions take of the module where nothing seems to ask for the device, each with the function."""
    for statement in statements:
        if isinstance(statement, _FUNCTIONS):
            parameters = {part.arg for part in walk(statement.args) if isinstance(part, ast.arg)}
            if lookup.module not in parameters:
                name = f"{function}.{statement.name}" if function else statement.name
                yield from _in_block(lookup, statement.body, name)
        elif isinstance(statement, ast.ClassDef):
            yield from _in_block(lookup, statement.body, f"{function}.{statement.name}" if function else statement.name)
        elif isinstance(statement, ast.If):
            truth = _truth(statement.test, lookup)
            if truth is None and _asks_for_device(statement.test, lookup):
                if _may_leave(statement) or _rebinds([statement], lookup.device):
                    return
                continue
            for part, is_skipped in ((statement.body, truth is False), (statement.orelse, truth is True)):
                yield from () if is_skipped else _in_block(lookup, part, function)
            taken = statement.body if truth else statement.orelse if truth is False else []
            if taken and (isinstance(taken[-1], EXITS) or _rebinds(taken, lookup.device)):
                return
        elif isinstance(statement, (ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While)):
            yield from _in_block(lookup, statement.body, function)
        elif not isinstance(statement, ast.Try) and function:
            yield from ((node, function) for node in _attributes_in(statement, lookup))


def _attributes_in(statement: ast.stmt, lookup: _Lookup) -> Iterator[ast.Attribute]:
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Lambda)):
            continue
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == lookup.module:
            yield node
        waiting += child_nodes(node)


def _truth(test: ast.expr, lookup: _Lookup) -> bool | None:
    """Whether a condition holds on a CPU that compares the device with texts; None for any other."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and getattr(test.left, "id", "") == lookup.device):
        return None
    sign, other = test.ops[0], test.comparators[0]
    if isinstance(sign, (ast.Eq, ast.NotEq)) and isinstance(other, ast.Constant):
        return (other.value == _CPU) is isinstance(sign, ast.Eq)
    if isinstance(sign, (ast.In, ast.NotIn)) and isinstance(other, (ast.Tuple, ast.List, ast.Set)):
        return any(_is_text(item, _CPU) for item in other.elts) is isinstance(sign, ast.In)
    return None


def _asks_for_device(test: ast.expr, lookup: _Lookup) -> bool:
    names = {part.id for part in walk(test) if isinstance(part, ast.Name)}
    return not names.isdisjoint((lookup.device, lookup.module)) or any(map(_OF_DEVICES.search, words_in(test)))


def _may_leave(statement: ast.If) -> bool:
    return any(isinstance(part[-1], EXITS) for part in (statement.body, statement.orelse) if part)


def _rebinds(statements: Iterable[ast.stmt], name: str) -> bool:
    parts = (part for statement in statements for part in walk(statement) if isinstance(part, ast.Name))
    return any(part.id == name and isinstance(part.ctx, ast.Store) for part in parts)
