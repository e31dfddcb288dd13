"""Whether running a module may give it names that do not stand in its source."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator

from abiscan.python.grammar import FAILURES, parse
from abiscan.regex import regex

_WORDS = regex(rb"import \*|__getattr__|globals\(|vars\(|locals\(|exec\(|\.modules\b|__name__|_convert_\(")
_CALLS = frozenset({"globals", "vars", "locals", "_convert_"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = frozenset({"import_module", "__import__", "get"})


def may_have_others(source: bytes) -> bool:
    """Whether a module may have names that are not words of its source: added by its body, or made by ``__getattr__``.

    What a function does counts only if the body names it, or a function that the body names.
    """
    if not _WORDS.search(source):
        return False
    try:
        tree = parse(source)
    except FAILURES:
        return True
    # A function counts as called wherever its bare name stands in code that runs at import. Which object the name
    # belongs to, and whether it is called at all, is not asked: the answer may only err towards yes.
    functions = _function_bodies(tree)
    if "__getattr__" in functions and any(getattr(item, "name", None) == "__getattr__" for item in tree.body):
        return True
    waiting, seen = list(_own_nodes(tree.body)), set[str]()
    if any(isinstance(item, ast.Call) and getattr(item.func, "id", None) == "exec" for item in waiting):
        return True
    if any(map(_binds_hook, waiting)):
        return True
    while waiting:
        node = waiting.pop()
        if _adds_names(node):
            return True
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
        if name is not None and name not in seen:
            seen.add(name)
            waiting.extend(item for function in functions.get(name, ()) for item in _own_nodes(function))
    return False


def may_bind(source: bytes, name: str) -> bool:
    """Whether running a module may bind a name that is a word of its source: not if it stands only where others use it.

    A text with that word may be what something makes names from.
    """
    word = re.escape(name.encode())
    # Most names are bound by a statement at the left margin, which needs no parsing.
    if re.search(rb"(?m)^(?:(?:async )?def |class |import |from .* import .*\b)?" + word + rb"\b", source):
        return True
    try:
        tree = parse(source)
    except FAILURES:
        return True
    # What a function binds is a name of the module only if ``global`` says so; what a class binds, never.
    own = set(map(id, _own_nodes(tree.body, (*_FUNCTIONS, ast.ClassDef))))
    return any(_node_binds(node, name, is_own=id(node) in own) for node in ast.walk(tree))


def _node_binds(node: ast.AST, name: str, *, is_own: bool) -> bool:
    if isinstance(node, ast.Global):
        return name in node.names
    if not is_own:
        return False
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and name in node.value.split()
    if isinstance(node, ast.alias):
        return name in (node.asname or node.name).split(".")
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Store)
    if isinstance(node, ast.ExceptHandler):  # the name is gone afterwards
        return False
    return name in (getattr(node, "name", None), getattr(node, "rest", None))


def star_imports(source: bytes) -> list[str]:
    """Return the modules from which it imports all names, as they are written, with leading dots."""
    if b"import *" not in source:
        return []
    nodes = (node for node in ast.walk(parse(source)) if isinstance(node, ast.ImportFrom))
    return ["." * node.level + (node.module or "") for node in nodes if any(alias.name == "*" for alias in node.names)]


def package_of(file: str) -> str:
    """Return the package that relative imports of a module start from."""
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if file.endswith("/__init__.py") else name.rpartition(".")[0]


@functools.lru_cache(maxsize=4096)
def absolute_name(package: str, name: str) -> str:
    """Return the full name of a module that is imported inside a package, relatively (with leading dots) or not."""
    level = len(name) - len(name.lstrip("."))
    if level == 0:
        return name
    # As _resolve_name (Lib/importlib/_bootstrap.py): one dot is the package itself, each further one the package around
    # it.
    steps = package.split(".")
    return ".".join([*steps[: max(len(steps) - level + 1, 0)], *filter(None, [name[level:]])])


def _function_bodies(tree: ast.Module) -> dict[str, list[list[ast.stmt]]]:
    """Return the bodies of functions by name; those of methods by the name of their class, too."""
    bodies: dict[str, list[list[ast.stmt]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            bodies.setdefault(node.name, []).append(node.body)
        elif isinstance(node, ast.ClassDef):
            methods = (
                method for method in ast.walk(node) if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
            )
            bodies.setdefault(node.name, []).extend(method.body for method in methods)
    return bodies


def _own_nodes(body: Iterable[ast.AST], apart: tuple[type[ast.AST], ...] = _FUNCTIONS) -> Iterator[ast.AST]:
    """Yield the nodes of statements, the bodies of functions in them apart."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        inside = set(map(id, getattr(node, "body", ()))) if isinstance(node, apart) else set()
        waiting.extend(child for child in ast.iter_child_nodes(node) if id(child) not in inside)


def _binds_hook(node: ast.AST) -> bool:
    """Whether a node binds ``__getattr__`` to a function from elsewhere."""
    if isinstance(node, ast.alias):
        return (node.asname or node.name) == "__getattr__"
    return isinstance(node, ast.Name) and node.id == "__getattr__" and isinstance(node.ctx, ast.Store)


def _adds_names(node: ast.AST) -> bool:
    """Whether a node gets hold of the module or its namespace, or replaces the module by another object."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)
        return name in _CALLS or (name in _IMPORTS and any(map(_is_own_name, node.args)))
    if not isinstance(node, ast.Subscript) or getattr(node.value, "attr", None) != "modules":
        return False
    return isinstance(node.ctx, ast.Store) or _is_own_name(node.slice)


def _is_own_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "__name__"
