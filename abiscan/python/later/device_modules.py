"""What code takes of a module of torch for a device whose name it computes, and that ``torch.cpu`` lacks.

``getattr(torch, device).set_device(…)`` runs on GPUs. Where the code itself shows that the device may be a CPU, it
fails there if this torch has the name for CUDA alone. Functions with decorators, assertions, or other statements that
may ask for the device in ways that are not followed, are not looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, TypeAlias

from msgspec import Struct

from abiscan.python.language.late_bodies import walk_with
from abiscan.python.language.nodes import TryStar, child_nodes, dotted_name, walk
from abiscan.python.language.private_names import written_name
from abiscan.python.later.version_guards import EXITS, words_in
from abiscan.python.later.version_tests import KnownTorch, truth_of
from abiscan.python.package.library import PythonCode
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.regex import regex

_CPU: Final = "cpu"
_LOOKED_UP: Final = b"= getattr(torch, "
_LOOKING_UP: Final = regex(rb"getattr")
_MOST_LOOKUPS: Final = 20
"""How many lookups of a function, or of a module, are looked at."""
_OF_DEVICES: Final = regex(r"(?i)cuda|gpu|cpu|accelerat|hasattr|avail|support|xpu|npu|mps")
"""What is in the words of conditions that may ask which device there is."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NOT_FOLLOWED = (ast.Assert, ast.Match, ast.Try, TryStar, ast.While)
_SOMETIMES_EVALUATED = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_Uses: TypeAlias = Generator[tuple[ast.Attribute, str], None, bool]
"""What functions take of the module, each with the function; returns whether what follows may not run on CPUs."""


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
    line: int
    scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


def uses_on_cpus(code: PythonCode, names: TorchNames) -> Iterator[DeviceUse]:
    """Yield the uses of what this torch has for CUDA alone, by code that may run on CPUs."""
    for file in filter(code.is_for_users, code.sources_with(_LOOKED_UP)):
        tree = code.tree(file)
        if tree is not None:
            with suppress(RecursionError):  # what is nested this deeply is not looked at
                yield from _uses_in(tree, file, names)


def _uses_in(tree: ast.Module, file: str, names: TorchNames) -> Iterator[DeviceUse]:
    # Few functions look a module up, and the others need not be parsed.
    for scope in (tree, *(node for node in walk_with(tree, _LOOKING_UP) if isinstance(node, _FUNCTIONS))):
        for lookup in islice(_lookups_in(scope), _MOST_LOOKUPS):
            if not (_is_followed(lookup) and _may_be_cpu(lookup, _functions_returning(tree, _CPU))):
                continue
            block = [scope] if isinstance(scope, _FUNCTIONS) else scope.body
            for node, function in _in_block(lookup, block, ""):
                name = f"torch.{_CPU}.{node.attr}"
                if names.lacks(f"torch.{_CPU}", node.attr) and names.has("torch.cuda", node.attr):
                    yield DeviceUse(name=name, file=file, line=node.lineno, function=function)


def _lookups_in(scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Lookup]:
    for node in _own_parts(scope):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=module)],
                value=ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="torch"), ast.Name(id=device)]),
            ):
                yield _Lookup(module=module, device=device, line=node.lineno, scope=scope)


def _own_parts(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a module or function, without those of the functions and classes in it."""
    waiting = list(child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        waiting += () if isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)) else child_nodes(node)


def _is_followed(lookup: _Lookup) -> bool:
    """Whether nothing else binds the name of the module, sets what is in it, or keeps an answer about the device."""
    bound = 0
    for node in walk(lookup.scope):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound += node.id == lookup.module
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            bound += getattr(node.value, "id", "") == lookup.module
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            is_own = any(getattr(target, "id", "") == lookup.device for target in getattr(node, "targets", ()))
            bound += not is_own and _answers(node.value, lookup)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            bound += any(getattr(argument, "id", "") == lookup.module for argument in node.args[:1])
        else:
            names = {getattr(node, field, None) for field in ("name", "asname", "arg", "rest")}
            bound += lookup.module in names and not isinstance(node, ast.keyword)
    return bound == 1


def _answers(value: ast.expr, lookup: _Lookup) -> bool:
    """Whether a value is the device under another name, or an answer about it."""
    compared = (part for item in walk(value) if isinstance(item, ast.Compare) for part in walk(item))
    return any(isinstance(part, ast.Name) and part.id == lookup.device for part in (value, *compared))


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
        if getattr(node, "lineno", 0) > lookup.line:
            continue
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


def _in_block(lookup: _Lookup, statements: Sequence[ast.stmt], function: str) -> _Uses:
    for statement in statements:
        if (yield from _in_statement(lookup, statement, function)):
            return True
    return False


def _in_statement(lookup: _Lookup, statement: ast.stmt, function: str) -> _Uses:
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        name = f"{function}.{written_name(statement)}" if function else written_name(statement)
        if isinstance(statement, ast.ClassDef) or _is_plain(statement):
            yield from _in_block(lookup, statement.body, name)
        return False
    if isinstance(statement, ast.If):
        return (yield from _in_condition(lookup, statement, function))
    if isinstance(statement, (ast.With, ast.AsyncWith, ast.For, ast.AsyncFor)):
        return _is_of_others(statement) or (yield from _in_block(lookup, statement.body, function))
    if isinstance(statement, _NOT_FOLLOWED):
        return isinstance(statement, ast.Assert)
    if function:
        yield from ((node, function) for node in _attributes_in(statement, lookup))
    return False


def _in_condition(lookup: _Lookup, statement: ast.If, function: str) -> _Uses:
    truth = _truth(statement.test, lookup)
    if truth is None and _asks_for_device(statement.test, lookup):
        return _may_leave(statement) or _rebinds([statement], lookup.device)
    for part, is_skipped in ((statement.body, truth is False), (statement.orelse, truth is True)):
        if not is_skipped and (yield from _in_block(lookup, part, function)):
            return True
    taken = statement.body if truth else statement.orelse if truth is False else []
    # A call may end the process, or raise.
    return bool(taken) and (isinstance(taken[-1], (*EXITS, ast.Expr)) or _rebinds(taken, lookup.device))


def _is_plain(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether all that may ask for the device in a function is followed; its name may say that it is for one."""
    if function.decorator_list or _OF_DEVICES.search(function.name):
        return False
    return not any(isinstance(part, _NOT_FOLLOWED) or _is_of_others(part) for part in walk(function))


def _is_of_others(node: ast.AST) -> bool:
    """Whether a ``with`` is about something else than torch, whose functions do not ask for the device."""
    items = [item.context_expr for item in node.items] if isinstance(node, (ast.With, ast.AsyncWith)) else []
    return any(not (isinstance(item, ast.Call) and ast.unparse(item.func).startswith("torch.")) for item in items)


def _attributes_in(statement: ast.stmt, lookup: _Lookup) -> Iterator[ast.Attribute]:
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _SOMETIMES_EVALUATED):
            continue
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == lookup.module:
            yield node
        waiting += child_nodes(node)


def _truth(test: ast.expr, lookup: _Lookup) -> bool | None:
    """Whether a condition on the device holds on a CPU; None for any other."""
    torch = KnownTorch(release=None, facts={lookup.device: _CPU, "torch.cuda.is_available()": False})
    truth = truth_of(test, torch, lambda _: None, lambda node, _: dotted_name(node))
    return truth if isinstance(truth, bool) else None


def _asks_for_device(test: ast.expr, lookup: _Lookup) -> bool:
    names = {part.id for part in walk(test) if isinstance(part, ast.Name)}
    return not names.isdisjoint((lookup.device, lookup.module)) or any(map(_OF_DEVICES.search, words_in(test)))


def _may_leave(statement: ast.If) -> bool:
    return any(isinstance(part[-1], EXITS) for part in (statement.body, statement.orelse) if part)


def _rebinds(statements: Iterable[ast.stmt], name: str) -> bool:
    parts = (part for statement in statements for part in walk(statement) if isinstance(part, ast.Name))
    return any(part.id == name and isinstance(part.ctx, ast.Store) for part in parts)
