"""Functions of a package that refuse a release of torch themselves: ``if torch.__version__ < "2.1": raise …``.

Only what a function asks before anything else decides counts: a condition that is about the version of torch alone, and
that certainly holds.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan.python.dynamic_names import absolute_name, package_of
from abiscan.python.library import PythonCode
from abiscan.python.nodes import walk
from abiscan.python.sources import is_for_users
from abiscan.python.version_tests import truth_of
from abiscan.regex import regex

_REFUSES: Final = regex(rb"\n[ \t]+(?:if ([^\n]{1,400}?):\s*raise|assert ([^\n]{1,400}))\b")
_OF_VERSIONS: Final = regex(rb"(?i)torch|version")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST_MODULES: Final = 4
"""From how many modules to the next the import of a constant is followed."""


class OwnRefusal(Struct, frozen=True, order=True, kw_only=True):
    """A function that raises.

    :ivar error: the exception and its text; "…" stands for what is not known of it
    :ivar function: the function or method, ``Cache.__init__``
    """

    error: str
    file: str
    line: int
    function: str


def own_refusals(code: PythonCode, release: str) -> Iterator[OwnRefusal]:
    """Yield the functions that refuse a release of torch."""

    @functools.cache
    def bindings_in(file: str) -> Mapping[str, ast.stmt] | None:
        tree = code.tree(file) if file in code.sources else None
        return None if tree is None else _sole_bindings(tree.body)

    for file in filter(is_for_users, code.sources):
        tree = code.tree(file) if _may_refuse(code.source(file)) else None
        if tree is not None:
            find = _finder(code, file, bindings_in)
            for name, function in _functions_of(tree.body, ""):
                yield from _refusals_in(function, name, file, release, find)


def _may_refuse(source: bytes) -> bool:
    return any(_OF_VERSIONS.search(match[1] or match[2]) for match in _REFUSES.finditer(source))


def _functions_of(
    body: Sequence[ast.stmt], prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for statement in body:
        if isinstance(statement, _FUNCTIONS):
            yield f"{prefix}{statement.name}", statement
        elif isinstance(statement, ast.ClassDef) and not prefix:
            yield from _functions_of(statement.body, f"{statement.name}.")


def _refusals_in(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    name: str,
    file: str,
    release: str,
    find: Callable[[str], ast.stmt | None],
) -> Iterator[OwnRefusal]:
    parameters = {part.arg for part in walk(function.args) if isinstance(part, ast.arg)}
    own = _sole_bindings(function.body)
    bound = parameters | {part.id for part in walk(function) if isinstance(part, ast.Name) and _is_stored(part)}

    def find_here(wanted: str) -> ast.stmt | None:
        return own.get(wanted) if wanted in bound else find(wanted)

    for statement in () if "torch" in bound else function.body:
        if isinstance(statement, (ast.If, ast.Assert)):
            truth = truth_of(statement.test, release, _is_version, find_here)
            if truth is not None and (error := _error_of(statement, holds=truth)):
                yield OwnRefusal(error=error, file=file, line=statement.lineno, function=name)
                return
            if truth is None and any(isinstance(part, ast.Return) for part in walk(statement)):
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


def _is_version(node: ast.expr) -> bool:
    """Whether an expression is ``torch.__version__``, or ``torch.version.__version__``."""
    if not (isinstance(node, ast.Attribute) and node.attr == "__version__"):
        return False
    owner = node.value
    if isinstance(owner, ast.Attribute) and owner.attr == "version":
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id == "torch"


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _sole_bindings(body: Sequence[ast.stmt]) -> Mapping[str, ast.stmt]:
    """Return the statements that alone bind a name, of those of a module or function."""
    statements: dict[str, ast.stmt] = {}
    counted: Counter[str] = Counter()
    for statement in body:
        parts = (statement,) if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)) else walk(statement)
        for name in (name for part in parts for name in _bound_by(part)):
            statements[name] = statement
            counted[name] += 1
    return {name: statement for name, statement in statements.items() if counted[name] == 1}


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and _is_stored(node):
        yield node.id
    elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def _is_made_of(statement: ast.stmt | None, bindings: Mapping[str, ast.stmt]) -> bool:
    """Whether a statement uses what its module assigns or defines."""
    names = (part.id for part in walk(statement) if isinstance(part, ast.Name)) if statement else ()
    used = (bindings.get(name) for name in names)
    return any(other is not statement and isinstance(other, (ast.Assign, *_FUNCTIONS)) for other in used)


def _finder(
    code: PythonCode, file: str, bindings_in: Callable[[str], Mapping[str, ast.stmt] | None]
) -> Callable[[str], ast.stmt | None]:
    """Return a function that finds what a module binds a name to, there or where it imports it from."""

    def find(name: str) -> ast.stmt | None:
        here = file
        for _ in range(_MOST_MODULES):
            known = bindings_in(here) or {}
            statement = known.get(name)
            if not isinstance(statement, ast.ImportFrom):
                # What it is made of there, nobody finds here.
                return statement if here == file or not _is_made_of(statement, known) else None
            original = next((alias.name for alias in statement.names if (alias.asname or alias.name) == name), name)
            module = f"{'.' * statement.level}{statement.module or ''}"
            located = code.locate(absolute_name(package_of(here), module))
            if located is None or located.file is None:
                return None
            here, name = located.file, original
        return None

    return find
