"""Which expressions ask for the version of torch or CUDA, so that code which cannot be followed decides by it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from abiscan.python.nodes import children, walk
from abiscan.regex import regex

_VERSION = regex(r"torch\.(__version__|version|torch_version)(\.\w+)*")
_DISTRIBUTIONS = frozenset({"torch", "pytorch"})
_VERSION_OF = regex(r".*(version|distribution)", re.IGNORECASE)  # importlib.metadata.version("torch")
_ROUNDS = 5


Bindings = dict[str, list[ast.AST]]


def asks(expressions: Sequence[ast.AST], around: Sequence[Bindings]) -> bool:
    """Whether expressions ask for a version, or for names that the bodies around bind to one."""
    names: set[str] = set()
    waiting = list(expressions)
    for _ in range(_ROUNDS):
        if any(_is_version(node) for one in waiting for node in walk(one)):
            return True
        new = {node.id for one in waiting for node in walk(one) if isinstance(node, ast.Name)} - names
        names |= new
        waiting = list(dict.fromkeys(value for bound in around for name in new for value in bound.get(name, ())))
        if not waiting:
            return False
    return False


def _is_version(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return _VERSION.fullmatch(_dotted(node)) is not None
    if isinstance(node, ast.ImportFrom):
        return any(_VERSION.fullmatch(f"{node.module}.{one.name}") for one in node.names)
    if isinstance(node, ast.Call) and _VERSION_OF.fullmatch(_dotted(node.func)):
        return any(isinstance(one, ast.Constant) and one.value in _DISTRIBUTIONS for one in node.args)
    return False


def _dotted(node: ast.AST) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *reversed(parts)])


def bindings(body: ast.AST) -> Bindings:
    """What a body binds to each name: the values of assignments, and imports."""
    found: Bindings = {}
    for node in _own(body):
        value: ast.AST | None = None
        if isinstance(node, ast.Assign):
            targets: Sequence[ast.AST] = node.targets
            value = node.value
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                found.setdefault(one.asname or one.name, []).append(node)
        if value is not None:
            names = {one.id for target in targets for one in walk(target) if isinstance(one, ast.Name)}
            for name in names:
                found.setdefault(name, []).append(value)
    return found


def _own(body: ast.AST) -> Iterator[ast.AST]:
    """The parts of a body, functions and classes inside it apart."""
    waiting = children(body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield node
            waiting.extend(children(node))


def bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement binds, functions inside it apart."""
    found: set[str] = set()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            found.update(one.target.id for one in walk(node) if isinstance(one, ast.NamedExpr))
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        if isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
        if isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        waiting.extend(children(node))
    return found - {"*"}
