"""The statements that alone bind a name in a module or a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from abiscan.python.language.bound_names import names_bound_by
from abiscan.python.language.late_bodies import statements_with
from abiscan.python.language.nodes import child_nodes
from abiscan.regex import regex

SETTING_AROUND: Final = regex(rb"global|nonlocal")
"""What is in the text of functions that may set a name of what is around them."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def sole_bindings(scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> Mapping[str, ast.stmt]:
    """Return the statements of a module or function that alone bind a name there; none if an import may bind any.

    An import counts once, however often it is repeated. Several look at the same sources: the answer is kept with them.
    """
    made: Mapping[str, ast.stmt] | None = scope.__dict__.get("sole_bindings")
    if made is None:
        made = scope.__dict__["sole_bindings"] = _find_bindings(scope)
    return made


def _find_bindings(scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> Mapping[str, ast.stmt]:
    statements: dict[str, ast.stmt] = {}
    bound: dict[str, set[object]] = {}
    for statement in scope.body:
        for part in _parts_in_scope(statement):
            for name, origin in names_bound_by(part):
                statements[name] = part if isinstance(part, ast.Import) else statement
                bound.setdefault(name, set()).add(origin or part)
    # A function may set a name of what is around it at any time.
    for part in statements_with(scope, SETTING_AROUND):
        if isinstance(part, (ast.Global, ast.Nonlocal)):
            for name in part.names:
                bound.setdefault(name, set()).add(part)
    return {} if "*" in bound else {name: found for name, found in statements.items() if len(bound[name]) == 1}


def _parts_in_scope(statement: ast.stmt) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = [statement]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += () if isinstance(part, (*_DEFINITIONS, ast.Lambda)) else child_nodes(part)
