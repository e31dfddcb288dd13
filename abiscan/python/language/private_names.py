"""Private names: inside of a class ``C``, Python takes ``__name`` for ``_C__name``.

They are replaced in the tree, so that all that goes through it sees what Python sees (``_Py_Mangle`` in
Python/compile.c). The name that a function or class says it has stays as it is written (see ``written_name``), and so
do the keywords of calls.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from abiscan.python.language.nodes import child_nodes
from abiscan.regex import regex

_PRIVATE = regex(rb"__(?<!\w__)(?!\w*__(?!\w))\w")  # a literal first, which is fast to search for
_FIELDS: Final[dict[type[ast.AST], str]] = {
    ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.ExceptHandler: "name",
    ast.MatchAs: "name", ast.MatchStar: "name", ast.MatchMapping: "rest", ast.alias: "asname",
}  # fmt: skip
"""The kinds of nodes with a name that may be private, and where they have it."""


def has_private_names(source: bytes | str) -> bool:
    """Whether a source may have private names: names that begin with two underscores, and do not end with two."""
    text = source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")
    return _PRIVATE.search(text) is not None


def replace_private_names(statements: list[Any], cls: str) -> None:
    """Give the private names in some statements the names that Python takes them for.

    :param cls: what the class that they are in gives them: see ``class_prefix``; empty outside of classes
    """
    waiting = [(node, cls) for node in statements]
    while waiting:
        node, owner = waiting.pop()
        kind = type(node)
        if owner:
            field = _FIELDS.get(kind)
            if field is not None:
                name = getattr(node, field)
                if name:
                    setattr(node, field, _prefixed(name, owner))
            elif kind is ast.Global or kind is ast.Nonlocal:
                node.names = [_prefixed(name, owner) for name in node.names]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            written = node.name
            node.name = _prefixed(written, owner)
            if node.name != written:
                node.__dict__["written_name"] = written
            if isinstance(node, ast.ClassDef):
                # Its bases and decorators are outside of it.
                waiting += [(child, class_prefix(written)) for child in node.body]
                waiting += [(child, owner) for child in (*node.bases, *node.keywords, *node.decorator_list)]
                continue
        waiting += [(child, owner) for child in child_nodes(node)]


def class_prefix(name: str) -> str:
    """Return what private names in a class begin with, after an underscore; empty if the class makes none private."""
    return name.lstrip("_")


def name_inside(name: str, cls: str) -> str:
    """Return what a name is taken for in a class, of which the texts in ``__slots__`` are some, too."""
    return _prefixed(name, class_prefix(cls))


def written_name(node: Any) -> str:
    """Return the name of a function or class as its source has it, which is its ``__name__``."""
    name: str = node.__dict__.get("written_name", node.name)
    return name


def _prefixed(name: str, prefix: str) -> str:
    is_private = name.startswith("__") and not name.endswith("__") and "." not in name
    return f"_{prefix}{name}" if prefix and is_private else name
