"""Where the names in a condition come from: the statements that bind them, in a module or where that imports them."""

from __future__ import annotations

import ast
import functools
from typing import Final

from abiscan.python.language.bound_names import full_name, names_bound_by, names_bound_in
from abiscan.python.language.dynamic_names import absolute_name, package_of
from abiscan.python.language.nodes import attribute_chain, walk
from abiscan.python.language.sole_bindings import sole_bindings
from abiscan.python.later.version_tests import Find, Found
from abiscan.python.package.library import LocatedModule, PythonCode

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST_MODULES: Final = 4
"""From how many modules to the next the import of a constant is followed."""


def module_finder(code: PythonCode, file: str) -> Find:
    """Return what finds the names in a module, there or where it imports them from."""

    def find(name: str) -> Found | None:
        here = file
        for _ in range(_MOST_MODULES):
            tree = code.tree(here) if here in code.sources else None
            statement = sole_bindings(tree).get(name) if tree else None
            located = _located(code, here, statement)
            if located is None or not isinstance(statement, ast.ImportFrom):
                return _found(statement, find if here == file else module_finder(code, here))
            if located.file is None:
                return None
            name = next((alias.name for alias in statement.names if (alias.asname or alias.name) == name), name)
            here = located.file
        return None

    return find


def finder_inside(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, around: Find) -> Find:
    """Return what finds the names in a function."""

    @functools.cache
    def names() -> tuple[frozenset[str], frozenset[str]]:
        parameters = frozenset(part.arg for part in walk(function.args) if isinstance(part, ast.arg))
        body = function.body if isinstance(function.body, list) else [function.body]
        return parameters, parameters.union(name for part in body for name in names_bound_in(part))

    def find(name: str) -> Found | None:
        parameters, bound = names()
        if name not in bound:
            return around(name)
        if name in parameters or isinstance(function, ast.Lambda):
            return None
        return _found(sole_bindings(function).get(name), find)

    return find


def full_name_found(node: ast.expr, find: Find) -> str | None:
    """Return the full name of what an expression takes of a module that is imported as a whole or by parts."""
    root = attribute_chain(node)[0]
    found = find(root.id) if isinstance(root, ast.Name) else None
    return full_name(node, dict(names_bound_by(found.statement))) if found else None


def _found(statement: ast.stmt | None, find: Find) -> Found | None:
    if statement is None:
        return None
    return Found(statement, finder_inside(statement, find) if isinstance(statement, _FUNCTIONS) else find)


def _located(code: PythonCode, file: str, statement: ast.stmt | None) -> LocatedModule | None:
    """Return the module of the package that a statement of a file imports from; None for others."""
    if not isinstance(statement, ast.ImportFrom):
        return None
    return code.locate(absolute_name(package_of(file), f"{'.' * statement.level}{statement.module or ''}"))
