"""Which expressions ask for the version of torch or CUDA, so that code which cannot be followed decides by it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from abiscan.python.language.bound_names import names_bound_by
from abiscan.python.language.nodes import child_nodes, dotted_name, walk
from abiscan.regex import regex

_VERSION = regex(r"torch\.(__version__|version|torch_version)(\.\w+)*")
_DISTRIBUTIONS = frozenset({"torch", "pytorch"})
_VERSION_OF = regex(r".*(version|distribution)", re.IGNORECASE)  # importlib.metadata.version("torch")
_ROUNDS = 5


Bindings = dict[str, list[ast.AST]]


def asks_version(expressions: Sequence[ast.AST], around: Sequence[Bindings]) -> bool:
    """Whether expressions ask for a version, or for names that the bodies around bind to one."""
    names: set[str] = set()
    waiting = list(expressions)
    # From the expressions to what their names are bound to, and on from there: each round is one assignment further
    # back.
    for _ in range(_ROUNDS):
        if any(_is_version(node) for expression in waiting for node in walk(expression)):
            return True
        new = {node.id for expression in waiting for node in walk(expression) if isinstance(node, ast.Name)} - names
        names |= new
        waiting = list(dict.fromkeys(value for bound in around for name in new for value in bound.get(name, ())))
        if not waiting:
            return False
    return False


def _is_version(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return _VERSION.fullmatch(dotted_name(node)) is not None
    if isinstance(node, ast.ImportFrom):
        return any(_VERSION.fullmatch(f"{node.module}.{alias.name}") for alias in node.names)
    if isinstance(node, ast.Call) and _VERSION_OF.fullmatch(_last_name(node.func)):
        return any(isinstance(alias, ast.Constant) and alias.value in _DISTRIBUTIONS for alias in node.args)
    return False


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else dotted_name(node)


def bindings_of(body: ast.AST) -> Bindings:
    """Return what a body binds to each name: the values of assignments, and imports."""
    bound: Bindings = {}
    for node in _own_parts(body):
        value: ast.AST | None = None
        if isinstance(node, ast.Assign):
            targets: Sequence[ast.AST] = node.targets
            value = node.value
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                bound.setdefault(alias.asname or alias.name, []).append(node)
        if value is not None:
            names = {alias.id for target in targets for alias in walk(target) if isinstance(alias, ast.Name)}
            for name in names:
                bound.setdefault(name, []).append(value)
    return bound


def _own_parts(body: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a body, functions and classes inside it apart."""
    waiting = child_nodes(body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield node
            waiting.extend(child_nodes(node))


def bound_names(statement: ast.stmt | ast.expr) -> set[str]:
    """Return the names that a statement or an expression binds or deletes, functions inside it apart."""
    names: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        # A comprehension binds its names in a scope of its own, but for those of ``:=`` (PEP 572).
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            names.update(named.target.id for named in walk(node) if isinstance(named, ast.NamedExpr))
            continue
        names.update(name for name, _ in names_bound_by(node))
        waiting.extend(child_nodes(node))
    return names - {"*"}


def bound_in_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Return the names that the body of a function binds, but for those that it declares elsewhere."""
    bound = frozenset[str]().union(*map(bound_names, function.body))
    if bound and contains(function, (ast.Global, ast.Nonlocal)):
        declared = (
            statement.names for statement in walk(function) if isinstance(statement, (ast.Global, ast.Nonlocal))
        )
        bound -= frozenset(name for names in declared for name in names)
    return bound


def yields(node: ast.AST) -> bool:
    """Whether code has a ``yield``, functions inside it apart."""
    return contains(node, (ast.Yield, ast.YieldFrom))


def contains(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    """Whether code has one of these, functions inside it apart."""
    waiting = child_nodes(node)
    while waiting:
        current = waiting.pop()
        if isinstance(current, kinds):
            return True
        if not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(child_nodes(current))
    return False
