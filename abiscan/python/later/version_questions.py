"""Conditions and handlers that ask which torch there is: they may keep what they guard from happening."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterator
from typing import Final

from abiscan.python.language.nodes import TryStar, walk
from abiscan.python.later.version_guards import (
    MAY_ASK,
    are_guarding,
    asks_by_words,
    asks_for_version,
    words_in,
)

CATCHING_ANY: Final = frozenset({"Exception", "BaseException"})
CATCHING_ALL: Final = CATCHING_ANY | {"AttributeError"}
CATCHING_IMPORTS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
CATCHING_CALLS: Final = frozenset({"TypeError"})
TESTS = (ast.If, ast.IfExp, ast.While)
_OF_VALUES: Final = frozenset({"all", "any", "bool", "callable", "getattr", "hasattr", "isinstance", "len"})
"""Built-in functions of which a condition on values is made."""
_OF_FILES: Final = frozenset({"exists", "is_dir", "is_file", "isdir", "isfile"})
"""Methods of paths, and functions of ``os.path``, of which one on files is made."""
_TABLES: Final = (ast.Dict, ast.List, ast.Tuple)


def asks(node: ast.AST, local: Collection[str]) -> bool:
    """Whether what decides asks for a version, by its words or for a name of the module, or catches what the lack of a
    name raises.
    """
    if isinstance(node, (*TESTS, ast.Assert)):
        return asks_for_version([node.test], local)
    if isinstance(node, ast.BoolOp):
        return asks_for_version(node.values[:-1], local)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return True
    if isinstance(node, (ast.Try, TryStar)):
        caught = not_raised_again(node)
        # What is imported there, and not called, was imported wherever it is called.
        only_imports = not any(isinstance(part, ast.Call) for statement in node.body for part in walk(statement))
        catching = {"AttributeError", *(() if only_imports else CATCHING_IMPORTS), *CATCHING_CALLS}
        return not caught.isdisjoint(catching)
    return isinstance(node, (ast.Expr, ast.Subscript))


def is_choice(test: ast.expr, may_ask: Callable[[str], bool]) -> bool:
    """Whether a condition is on what users pass, on data or on files: no name in it may have to do with the version of
    torch.

    :param may_ask: says of a name whether the package binds it to something that may
    """
    if not all(_asks_values(part.func) for part in walk(test) if isinstance(part, ast.Call)):
        return False
    return not any(MAY_ASK.search(word) or may_ask(word) for word in words_in(test))


def _asks_values(function: ast.expr) -> bool:
    """Whether a function asks for values, or whether there is a file."""
    if isinstance(function, ast.Attribute):
        return function.attr in _OF_FILES
    return isinstance(function, ast.Name) and function.id in _OF_VALUES


def decides(node: ast.AST) -> bool:
    """Whether what has no condition decides, perhaps by the version of torch, if its parts are run."""
    if isinstance(node, ast.Subscript):  # {"1": old, "2": new}[torch.__version__[0]]
        return isinstance(node.value, _TABLES) and asks_by_words(node.slice, ())
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return are_guarding(node.items)
    if isinstance(node, (ast.Try, TryStar)):
        caught = not_raised_again(node)
        return not caught.isdisjoint(CATCHING_ALL | CATCHING_IMPORTS | CATCHING_CALLS)
    return isinstance(node, ast.Match)


def not_raised_again(node: ast.Try) -> set[str]:
    """Return the names of the exceptions that are caught, without those of imports, or of anything, that end in another
    one.
    """
    return {
        name
        for handler in node.handlers
        for name in caught_by(handler)
        if not (name in CATCHING_IMPORTS | CATCHING_ANY and isinstance(handler.body[-1], ast.Raise))
    }


def caught_by(handler: ast.ExceptHandler) -> Iterator[str]:
    """Yield the names of the exceptions that a handler catches; of one that Python does not have, ``Exception``."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    for node in types:
        cls = getattr(builtins, node.id, None) if isinstance(node, ast.Name) else None
        yield cls.__name__ if isinstance(cls, type) and issubclass(cls, BaseException) else "Exception"


def is_type_checking(test: ast.expr) -> bool:
    """Whether a condition is ``TYPE_CHECKING``, which is false when code runs."""
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))
