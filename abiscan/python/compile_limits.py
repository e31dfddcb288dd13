"""The Pythons that ``torch.compile`` does not run on: it raises there, whatever it compiles.

A release has wheels for a Python before its compiler can read the bytecode of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from abiscan.inputs.version import MinorVersion
from abiscan.python.library import PythonCode
from abiscan.python.model import PythonLine, World
from abiscan.python.nodes import TryStar, child_nodes
from abiscan.python.sources import is_for_users
from abiscan.python.torch_texts import release_of
from abiscan.regex import regex


class CompileLimit(Struct, frozen=True, kw_only=True):
    """What ``torch.compile`` says from a Python on.

    :ivar first: the release of torch that says it first, up to the next limit
    :ivar python: the first Python that it refuses
    """

    first: MinorVersion
    python: MinorVersion
    text: str


_LIMITS: Final = (
    CompileLimit(first=(2, 1), python=(3, 12), text="Dynamo is not supported on Python 3.12+"),
    CompileLimit(first=(2, 4), python=(3, 13), text="Dynamo is not supported on Python 3.13+"),
    CompileLimit(first=(2, 6), python=(3, 14), text="torch.compile is not supported on Python 3.14+"),
    CompileLimit(first=(2, 10), python=(3, 15), text="torch.compile is not supported on Python 3.15+"),
)
"""From torch/__init__.py, which 2.0 leaves to torch/_dynamo: that says it of the function that is compiled."""
_CALLED: Final = regex(rb"\btorch\.compile\b")
_IMPORTS_TORCH: Final = regex(rb"(?m)^import torch\b")
_GUARDING: Final = (ast.If, ast.IfExp, ast.Try, TryStar, ast.While, ast.Match, ast.With, ast.BoolOp)
"""What may decide whether the rest of a function is run, or whether its failure is noticed."""


class CompileNeed(Struct, frozen=True, kw_only=True):
    """That a package calls ``torch.compile`` where a Python that may run it is refused.

    :ivar is_refused: whether every Python that it may be is
    """

    limit: CompileLimit
    line: PythonLine
    is_refused: bool


def limit_of(world: World) -> CompileLimit | None:
    """Return from which Python on the ``torch.compile`` of a target raises; None if no Python that it may be is."""
    release, newest = release_of(world.torch_version), world.newest_python
    limits = [limit for limit in _LIMITS if release is not None and limit.first <= release]
    return limits[-1] if limits and newest is not None and newest >= limits[-1].python else None


def refused_text(world: World) -> str | None:
    """Return what ``torch.compile`` of a target raises in any case; None if it may run."""
    limit, oldest = limit_of(world), world.oldest_python
    return limit.text if limit is not None and oldest is not None and oldest >= limit.python else None


def compile_needs(code: PythonCode, world: World) -> Iterator[CompileNeed]:
    """Yield the first call of ``torch.compile`` that no condition guards."""
    limit = limit_of(world)
    if limit is None:
        return
    for file in filter(is_for_users, code.sources):
        source = code.source(file)
        tree = code.tree(file) if _CALLED.search(source) and _IMPORTS_TORCH.search(source) else None
        lines = list(_calls(tree)) if tree else []
        if lines:
            line = PythonLine(file=file, line=min(lines))
            yield CompileNeed(limit=limit, line=line, is_refused=refused_text(world) is not None)
            return


def _calls(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that surely call ``torch.compile`` where the module is run."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _GUARDING):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from (item.lineno for item in node.decorator_list if _is_compile(_called(item)))
            # Whether a function is called is up to its users: it may be for what they have compiled.
            waiting += node.body if isinstance(node, ast.ClassDef) else ()
            continue
        if isinstance(node, ast.Call) and _is_compile(node.func):
            yield node.lineno
        waiting += child_nodes(node)


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _is_compile(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "compile"
        and isinstance(node.value, ast.Name)
        and node.value.id == "torch"
    )
