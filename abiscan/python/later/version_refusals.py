"""Functions of a package that refuse a release of torch themselves: ``if torch.__version__ < "2.1": raise …``.

Only what a function asks before anything else decides counts: a condition that is about the version of torch alone, and
that certainly holds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from abiscan.python.language.nodes import walk
from abiscan.python.later.version_names import finder_inside, full_name_found, module_finder
from abiscan.python.later.version_tests import Find, KnownTorch, truth_of
from abiscan.python.package.library import PythonCode
from abiscan.regex import regex

_IF: Final = regex(rb"\n[ \t]+if ([^\n]{1,400})")
_ASSERT: Final = regex(rb"\n[ \t]+assert ([^\n]{1,400})")
_FURTHEST: Final = 400
"""How many bytes before the word that raises a condition ends, at most."""
_OF_VERSIONS: Final = regex(rb"(?i)torch|version")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_LEAVING = (ast.Return, ast.Yield, ast.YieldFrom)


class OwnRefusal(Struct, frozen=True, order=True, kw_only=True):
    """A function that raises.

    :ivar error: the exception and its text; "…" stands for what is not known of it
    :ivar function: the function or method, ``Cache.__init__``
    """

    error: str
    file: str
    line: int
    function: str


def own_refusals(code: PythonCode, torch: KnownTorch) -> Iterator[OwnRefusal]:
    """Yield the functions that refuse a torch."""
    for file in filter(code.is_for_users, code.sources):
        lines = _lines_that_may_refuse(code.source(file))
        tree = code.tree(file) if lines else None
        if tree is not None:
            find = module_finder(code, file)
            for name, function in _functions_of(tree.body, ""):
                # Where a function ends is known before its body is parsed.
                within = range(function.lineno, (function.end_lineno or 0) + 1)
                if not lines.isdisjoint(within) and not lines.isdisjoint(part.lineno for part in function.body):
                    yield from _refusals_in(function, name, file, torch, find)


def _lines_that_may_refuse(source: bytes) -> frozenset[int]:
    """Return the lines that assert something about a version, or raise for it."""
    found = (condition for condition in _conditions(source) if _OF_VERSIONS.search(condition[1]))
    return frozenset(source.count(b"\n", 0, condition.start(1)) + 1 for condition in found)


def _conditions(source: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the conditions that are asserted, or for which something is raised."""
    # A word is searched for several times as fast as a line that begins so.
    for position in _positions(source, b"raise"):
        colon = source.rfind(b":", max(position - _FURTHEST, 0), position)
        if colon >= 0 and not source[colon + 1 : position].strip():
            condition = _IF.fullmatch(source, max(source.rfind(b"\n", 0, colon), 0), colon)
            if condition is not None:
                yield condition
    for position in _positions(source, b"assert "):
        condition = _ASSERT.match(source, max(source.rfind(b"\n", 0, position), 0))
        if condition is not None:
            yield condition


def _positions(source: bytes, word: bytes) -> Iterator[int]:
    position = source.find(word)
    while position >= 0:
        yield position
        position = source.find(word, position + 1)


def _functions_of(
    body: Sequence[ast.stmt], prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    last = {statement.name: statement for statement in body if isinstance(statement, _DEFINITIONS)}
    for name, statement in last.items():
        if isinstance(statement, ast.ClassDef):
            yield from () if prefix else _functions_of(statement.body, f"{name}.")
        else:
            yield f"{prefix}{name}", statement


def _refusals_in(
    function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, file: str, torch: KnownTorch, find: Find
) -> Iterator[OwnRefusal]:
    find_here = finder_inside(function, find)
    for statement in function.body:
        if isinstance(statement, ast.Raise) or any(isinstance(part, _LEAVING) for part in walk(statement)):
            return
        if isinstance(statement, (ast.If, ast.Assert)):
            truth = truth_of(statement.test, torch, find_here, full_name_found)
            if isinstance(truth, bool) and (error := _error_of(statement, holds=truth)):
                yield OwnRefusal(error=error, file=file, line=statement.lineno, function=name)
                return


def _error_of(statement: ast.If | ast.Assert, *, holds: bool) -> str | None:
    """Return what a condition whose truth is known raises; None for nothing."""
    if isinstance(statement, ast.Assert):
        return None if holds else _as_said("AssertionError", [statement.msg] if statement.msg else [])
    taken = statement.body if holds else statement.orelse
    raised = taken[-1].exc if taken and isinstance(taken[-1], ast.Raise) else None
    arguments = raised.args[:1] if isinstance(raised, ast.Call) else []
    cls = raised.func if isinstance(raised, ast.Call) else raised
    name = getattr(cls, "attr", getattr(cls, "id", None))
    return None if name is None else _as_said(name, arguments)


def _as_said(exception: str, arguments: Iterable[ast.expr]) -> str:
    return ": ".join([exception, *(_text_of(argument) for argument in arguments)])


def _text_of(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "…"
