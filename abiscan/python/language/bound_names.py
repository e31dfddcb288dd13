"""The names that a node of a syntax tree binds."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from abiscan.python.language.nodes import attribute_chain, walk

_NAMED: Final = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
)


def names_bound_by(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Yield the names that a node itself binds, unbinds, or declares to be those of another scope.

    Each comes with what an import binds it to, a dotted name that begins with a dot for each level of a relative one;
    None for anything else. ``import *`` binds the name ``*``.
    """
    # The target of ``:=``, of a loop, of a comprehension and of ``with`` is a name, or has some in it.
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id, None
    elif isinstance(node, _NAMED):
        if node.name:
            yield node.name, None
    elif isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (root, root)
    elif isinstance(node, ast.ImportFrom):
        base = "." * node.level + (f"{node.module}." if node.module else "")
        yield from ((alias.asname or alias.name, f"{base}{alias.name}") for alias in node.names)
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from ((name, None) for name in node.names)
    elif isinstance(node, ast.arg):
        yield node.arg, None
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest, None
    # ``walk`` does not come to these.
    yield from ((parameter.name, None) for parameter in getattr(node, "type_params", ()))


def full_name(node: ast.AST, origins: Mapping[str, str | None]) -> str | None:
    """Return the full name of what an expression takes of an import, by what the names of the source stand for."""
    root, names = attribute_chain(node)
    origin = origins.get(root.id) if isinstance(root, ast.Name) else None
    return None if origin is None else ".".join([origin, *names])


def names_bound_in(node: ast.AST) -> Iterator[str]:
    """Yield the names that a part of a source binds, in whatever scopes, each as often as it does."""
    for part in walk(node):
        yield from (name for name, _ in names_bound_by(part))
