"""Defaults of dataclasses that Python 3.11 rejects: objects without a hash, such as those of another dataclass.

See ``_get_field`` in Lib/dataclasses.py. ``interpreter/models/dataclasses_`` has what the import of a package runs;
this is a look at all modules, for what their users import.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from abiscan.inputs.version import MinorVersion
from abiscan.python.language.dynamic_names import absolute_name, package_of
from abiscan.python.language.scan import FROM
from abiscan.python.language.sole_bindings import sole_bindings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import PythonLine, PythonNeed, World
from abiscan.regex import regex

_REJECTING: Final[MinorVersion] = (3, 11)
# Patterns that begin with a line break are searched for several times faster than those with ^ in them.
_DECORATED: Final = regex(rb"\n@(?:dataclasses\.)?dataclass\b")
_WITHOUT_BASES: Final = regex(rb"\nclass\s+(\w+)\s*(?:\[[^\n]*\])?\s*(?:\(\s*\))?\s*:")
"""A class that may be a dataclass without a hash: see ``_without_hash``."""
_BOUND: Final = regex(rb"\n(?: {1,4}|\t)?\w[^\n#=]*=\s*(\w+)\(")
_TAKEN: Final = regex(rb"\n" + FROM % rb"[\w.]+")
_WORD: Final = regex(rb"\w+")
_Dataclass: TypeAlias = tuple[ast.ClassDef, Mapping[str, ast.expr]]
_HASHED_BY: Final = frozenset({"eq", "frozen", "unsafe_hash"})
"""The options that may give objects a hash."""


def default_needs(code: PythonCode, world: World) -> Iterator[PythonNeed]:
    """Yield the first default that is an object of a dataclass of its module, if it may be run by a Python that rejects
    it.
    """
    if world.newest_python is None or world.newest_python < _REJECTING:
        return
    files = code.sources_with(b"dataclass")
    classes = {cls for file in files for cls in _WITHOUT_BASES.findall(b"\n" + code.source(file))}
    for file in filter(code.is_for_users, files):
        tree = code.tree(file) if _may_have_such(code.source(file), classes) else None
        for line, field, cls in _rejected(tree, _imported_without_hash(code, file, tree)) if tree else ():
            full = cls if "." in cls else f"{_module_of(file)}.{cls}"
            text = f"mutable default <class '{full}'> for field {field} is not allowed: use default_factory"
            why = f"{PythonLine(file=file, line=line)} raises from Python 3.11 on: ValueError: {text}"
            is_refused = world.oldest_python is not None and world.oldest_python >= _REJECTING
            yield PythonNeed(below=_REJECTING, why=why, is_refused=is_refused)
            return


def _may_have_such(source: bytes, classes: set[bytes]) -> bool:
    """Whether a source has a dataclass, and binds an object of another one, outside of functions.

    :param classes: those of its package that may be dataclasses without a hash
    """
    lines = b"\n" + source
    decorated = len(_DECORATED.findall(lines))
    if not decorated:
        return False
    bound = set(_BOUND.findall(lines))
    if decorated > 1 and not bound.isdisjoint(_WITHOUT_BASES.findall(lines)):
        return True
    taken = (_WORD.findall(names) for _, names in _TAKEN.findall(lines))
    return any(not bound.isdisjoint(names) and not classes.isdisjoint(names) for names in taken)


def _module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported_without_hash(code: PythonCode, file: str, tree: ast.Module) -> Mapping[str, str]:
    """Return the names that a source takes from other modules of the package for dataclasses without a hash, and the
    full names of these.
    """
    taken = {}
    called = set(_BOUND.findall(b"\n" + code.source(file)))
    for name, node in sole_bindings(tree).items():
        if not isinstance(node, ast.ImportFrom) or name.encode() not in called:
            continue
        module = absolute_name(package_of(file), "." * node.level + (node.module or ""))
        cls = next((alias.name for alias in node.names if (alias.asname or alias.name) == name), "")
        located = code.locate(module)
        if located is None or located.file is None or f"class {cls}".encode() not in code.source(located.file):
            continue
        other = code.tree(located.file)
        if other is not None and cls in _without_hash(_dataclasses(other, sole_bindings(other))):
            taken[name] = f"{module}.{cls}"
    return taken


def _dataclasses(tree: ast.Module, bound: Mapping[str, ast.stmt]) -> Mapping[str, _Dataclass]:
    """Return the dataclasses of a source, by their names."""
    return {
        node.name: (node, options)
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and bound.get(node.name) is node
        and (options := _options_of(node)) is not None
    }


def _without_hash(classes: Mapping[str, _Dataclass]) -> set[str]:
    """Return those of them whose objects have no hash."""
    return {
        name
        for name, (node, options) in classes.items()
        if not (node.bases or node.keywords or _HASHED_BY & options.keys())
        and not any("__hash__" in ast.dump(part) for part in node.body)
    }


def _rejected(tree: ast.Module, imported: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the name and the class of each such default.

    :param imported: see ``_imported_without_hash``
    """
    bound = sole_bindings(tree)
    classes = _dataclasses(tree, bound)
    without_hash = {**{name: name for name in _without_hash(classes)}, **imported}
    for node, _ in classes.values():
        for part in node.body:
            value = part.value if isinstance(part, ast.AnnAssign) else None
            made = getattr(bound.get(value.id), "value", None) if isinstance(value, ast.Name) else value
            cls = made.func.id if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) else ""
            is_variable = isinstance(part, ast.AnnAssign) and "ClassVar" in ast.unparse(part.annotation)
            if cls in without_hash and isinstance(part, ast.AnnAssign) and not is_variable:
                yield part.lineno, ast.unparse(part.target), without_hash[cls]


def _options_of(node: ast.ClassDef) -> Mapping[str, ast.expr] | None:
    """Return the options of a dataclass; None for another class, and for one whose options are not known."""
    decorator = node.decorator_list[0] if len(node.decorator_list) == 1 else None
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if called is None or ast.unparse(called) not in {"dataclass", "dataclasses.dataclass"}:
        return None
    options = {item.arg or "": item.value for item in decorator.keywords} if isinstance(decorator, ast.Call) else {}
    return None if "" in options else options
