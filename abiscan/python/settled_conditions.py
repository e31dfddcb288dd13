"""What a package shows of its own conditions: those that certainly say nothing of the version of torch.

There are flags that only users of the package set, flags for other packages, and functions that check values. Whatever
is not recognised may depend on the version of torch.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from abiscan.python.library import PythonCode
from abiscan.python.nodes import walk
from abiscan.python.sources import is_for_users
from abiscan.python.torch_names import TorchNames
from abiscan.python.version_guards import (
    are_guarding,
    bound_by,
    checking,
    chosen,
    flags_in,
    found,
    is_module_of_torch,
    is_of_torch,
    root_of,
    says_torch,
)
from abiscan.regex import regex

_MOST_PARSED: Final = 2_000_000
"""Of the sources that mention one flag or function, in bytes."""
_DERIVED: Final = regex(rb"\bclass[ \t]+(\w+)\(([^()]*)\)|^[ \t]*(\w+)[ \t]*=[ \t]*([\w.]+)[ \t]*$", re.MULTILINE)
"""A class with its bases, and another name for what has one."""
_WORD: Final = regex(rb"\w+")
_SET_TO: Final = rb"\b%b[ \t]*(?::[^=\n]{1,80})?=(?!=)[ \t]*([^,)\n#\]}]*)"
_CONSTANT: Final = regex(rb"True|False|None|-?\d[\w.]*|[\"'][^\"']*[\"']")
_CALLED_FROM_ELSEWHERE: Final = regex(r"(?:__\w+__|forward|backward)?")
"""The functions that are called by other names than their own."""
_OF_CLASSES: Final = frozenset({"__init__", "cls", "__class__"})
"""What a class is called by inside of itself, and of those that derive from it."""
_LOGGING: Final = frozenset({"debug", "info", "warning", "error", "exception"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


class SettledConditions:
    """The conditions of one package in one torch: see above."""

    def __init__(self, code: PythonCode, names: TorchNames) -> None:
        self._code, self._names = code, names
        self._files = [file for file in code.sources if is_for_users(file)]
        self._marks: dict[str, frozenset[str]] = {}
        self._chosen: dict[str, bool] = {}
        self._checking: dict[str, bool] = {}

    def marks(self, file: str) -> frozenset[str]:
        """Return what stands for them among the values of a source: see ``version_guards``."""
        if file not in self._marks:
            tree = self._code.tree(file)
            self._marks[file] = frozenset(self._marks_in(tree)) if tree else frozenset()
        return self._marks[file]

    def _marks_in(self, tree: ast.Module) -> Iterator[str]:
        yield from (chosen(flag) for flag in set(flags_in(tree)) if self._is_chosen(flag))
        yield from map(found, self._found_by_imports(tree))
        for node in walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and are_guarding([node.value.func]):
                name = _last_word(node.value.func)
                if name is not None and self._is_own(node.value.func, tree) and self._only_checks(name):
                    yield checking(name)

    # ---- flags that only users of the package set

    def _is_chosen(self, flag: str) -> bool:
        if flag not in self._chosen:
            # Its text says of almost all flags that they are none of these; only then are the sources parsed.
            files = self._mentioning(flag) if flag.isascii() else []
            values = [value for file in files for value in _values_set(self._code.source(file), flag.encode())]
            may_be = None in values and all(value in {None, flag.encode()} for value in values)
            trees = [self._code.tree(file) for file in files] if may_be else []
            self._chosen[flag] = may_be and None not in trees and self._only_passed(flag, [it for it in trees if it])
        return self._chosen[flag]

    def _mentioning(self, name: str) -> list[str]:
        """Return the sources that mention a name; none if they are too large."""
        word = re.compile(rb"\b%b\b" % re.escape(name.encode()))
        sources = ((file, self._code.source(file)) for file in self._files)
        files = [file for file, source in sources if name.encode() in source and word.search(source)]
        return files if sum(len(self._code.source(file)) for file in files) <= _MOST_PARSED else []

    def _only_passed(self, flag: str, trees: Iterable[ast.Module]) -> bool:
        """Whether a flag is only a parameter with a constant as its default, which nothing sets or passes but to a
        constant or to itself.
        """
        owners: dict[str, int] = {}
        with_constant: set[str | None] = set()
        for tree in trees:
            if _is_bound_otherwise(tree, flag):
                return False
            own = {id(part): cls.name for cls in walk(tree) if isinstance(cls, ast.ClassDef) for part in cls.body}
            for node in walk(tree):
                if isinstance(node, ast.Call) and any(keyword.arg == flag for keyword in node.keywords):
                    passed = (keyword.value for keyword in node.keywords if keyword.arg == flag)
                    with_constant.update(
                        [_last_word(node.func)] if not all(_is_same(it, flag) for it in passed) else ()
                    )
                for place, default in _places_of(node, flag):
                    name, cls = getattr(node, "name", ""), own.get(id(node))
                    called = cls if cls is not None and name == "__init__" else name
                    if not isinstance(default, ast.Constant) or _CALLED_FROM_ELSEWHERE.fullmatch(called):
                        return False
                    owners[called] = min(
                        place - (cls is not None and place < sys.maxsize), owners.get(called, sys.maxsize)
                    )
        return with_constant <= owners.keys() and bool(owners) and not self._passes_by_position(owners)

    def _passes_by_position(self, owners: dict[str, int]) -> bool:
        """Whether a call of some functions or classes, or of what derives from one, may have so many arguments."""
        waiting = [*owners]
        while waiting:
            name = waiting.pop()
            for derived in self._derived.get(name, ()):
                if owners[name] < owners.get(derived, sys.maxsize):
                    owners[derived] = owners[name]
                    waiting.append(derived)
        within = min(owners.values())
        for owner in owners:
            files = self._mentioning(owner)
            if not files:
                return True
            calls = (
                node
                for tree in map(self._code.tree, files)
                for node in (walk(tree) if tree else ())
                if isinstance(node, ast.Call)
            )
            for call in calls:
                called = _last_word(call.func) or ""
                most = within if called in _OF_CLASSES else owners.get(called, sys.maxsize)
                # ``partial(owner, x)`` passes ``x`` on.
                handed_on = owners.get(_last_word(call.args[0]) or "", sys.maxsize) if call.args else sys.maxsize
                if _may_pass(call.args, most) or _may_pass(call.args[1:], handed_on):
                    return True
        return False

    @functools.cached_property
    def _derived(self) -> dict[str, set[str]]:
        """For each name, those of the classes that derive from what has it, and other names for it."""
        derived: dict[str, set[str]] = {}
        for file in self._files:
            for match in _DERIVED.finditer(self._code.source(file)):
                new = match[1] or match[3]
                for old in _WORD.findall(match[2] or match[4] or b""):
                    derived.setdefault(old.decode("ascii", "replace"), set()).add(new.decode("ascii", "replace"))
        return derived

    # ---- flags for other packages

    def _found_by_imports(self, tree: ast.Module) -> frozenset[str]:
        """Return the flags of a module that only imports of packages other than torch, and this one, decide."""
        tries = [node for node in tree.body if isinstance(node, ast.Try) and self._imports_others(node)]
        inside = Counter(name for node in tries for name in _names_bound(node))
        bound = Counter(_names_bound(tree)) if inside else inside
        return frozenset(name for name in inside if inside[name] == bound[name] and "*" not in bound)

    def _imports_others(self, node: ast.Try) -> bool:
        parts, imports = list(walk(node)), [part for part in walk(node) if isinstance(part, _IMPORTS)]
        return (
            all(isinstance(part, (ast.Assign, *_IMPORTS)) for part in (*node.body, *node.orelse))
            and all(isinstance(part.value, ast.Constant) for part in parts if isinstance(part, ast.Assign))
            and not any(isinstance(part, (ast.If, ast.IfExp)) for part in parts)
            and all(map(self._says_nothing_of_torch, imports))
            and not says_torch(node)
        )

    def _says_nothing_of_torch(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import is one of another package, or of what this torch certainly has."""
        modules = _modules_of(node)
        if isinstance(node, ast.ImportFrom) and not node.level and modules[0].partition(".")[0] == self._names.top:
            return all(self._names.has(modules[0], alias.name) is True for alias in node.names)
        is_own = getattr(node, "level", 0) or any(map(self._code.locate, modules))
        return not is_own and not any(map(is_module_of_torch, modules))

    # ---- functions that check values

    def _is_own(self, called: ast.expr, tree: ast.Module) -> bool:
        """Whether what is called is certainly a function of the package."""
        root = root_of(called)
        imports = [part for part in walk(tree) if isinstance(part, _IMPORTS) and root in set(_names_bound(part))]
        bound = Counter(_names_bound(tree))[root or ""]
        if not imports:
            return isinstance(called, ast.Name) and any(getattr(part, "name", "") == root for part in tree.body)
        is_own = (getattr(part, "level", 0) or all(map(self._code.locate, _modules_of(part))) for part in imports)
        return bound == len(imports) and all(is_own)

    def _only_checks(self, name: str) -> bool:
        """Whether all functions of a name ask nothing but what they get."""
        if name not in self._checking:
            trees = [self._code.tree(file) for file in self._mentioning(name)]
            functions = [
                _asks_nothing(node, tree)
                for tree in trees
                for node in (walk(tree) if tree else ())
                if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and node.name == name
            ]
            self._checking[name] = bool(functions) and None not in trees and all(functions)
        return self._checking[name]


def _values_set(source: bytes, name: bytes) -> Iterator[bytes | None]:
    """Yield the last words of what a name is set to, or passed as, going by the text; None for a constant."""
    for match in re.finditer(_SET_TO % re.escape(name), source):
        value = match[1].strip()
        yield None if _CONSTANT.fullmatch(value) else value.rpartition(b".")[2]


def _last_word(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _is_same(node: ast.AST | None, flag: str) -> bool:
    """Whether a value is what was passed as a flag before: ``flag``, ``self.flag``."""
    if isinstance(node, ast.Attribute):
        return node.attr == flag and isinstance(node.value, ast.Name) and node.value.id == "self"
    return isinstance(node, ast.Name) and node.id == flag


def _is_bound_otherwise(tree: ast.Module, flag: str) -> bool:
    """Whether a source may give a flag another value than a constant or its own, other than as a default."""
    harmless: set[int] = set()
    for node in walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Name):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            harmless.update(id(part) for part in targets if _is_same(node.value, flag) and _is_same(part, flag))
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            harmless.update(id(key) for key, value in pairs if _is_same(value, flag))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"getattr", "hasattr"}:
            harmless.update(map(id, node.args[1:2]))
    return any(_binds(node, flag) for node in walk(tree) if id(node) not in harmless)


def _binds(node: ast.AST, flag: str) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == flag and not isinstance(node.ctx, ast.Load)
        case ast.Constant(value=str(text)):  # ``setattr``, keywords
            return text == flag
        case ast.keyword(arg=name, value=value):
            return name == flag and not (isinstance(value, ast.Constant) or _is_same(value, flag))
        case ast.alias(name=name, asname=other):
            return (other or name) in {flag, "*"}
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return flag in names
        case _:
            return flag in (getattr(node, "name", None), getattr(node, "rest", None))


def _places_of(node: ast.AST, flag: str) -> Iterator[tuple[int, ast.expr | None]]:
    """Yield where a flag is among the parameters of a function, and its default; ``sys.maxsize`` if it is passed by
    keyword alone.
    """
    if not isinstance(node, (*_FUNCTIONS, ast.Lambda)):
        return
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    yield from ((place, defaults[place]) for place, part in enumerate(positional) if part.arg == flag)
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    yield from ((sys.maxsize, default) for part, default in keywords if part.arg == flag)
    yield from ((0, None) for part in (arguments.vararg, arguments.kwarg) if part and part.arg == flag)


def _may_pass(arguments: Sequence[ast.expr], most: int) -> bool:
    """Whether a call may pass so many arguments by position. ``*args`` is what the function around has got."""
    if most == sys.maxsize:
        return False
    stars = (part.value for part in arguments if isinstance(part, ast.Starred))
    return len(arguments) > most or any(not isinstance(it, ast.Name) or it.id != "args" for it in stars)


def _names_bound(tree: ast.AST) -> Iterator[str]:
    """Yield the names that parts of a source bind, each as often as they do."""
    for node in walk(tree):
        yield from (name for name, _ in bound_by(node))
        if isinstance(node, (ast.arg, ast.ExceptHandler)):
            yield (node.arg if isinstance(node, ast.arg) else node.name) or ""


def _modules_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]


def _asks_nothing(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, tree: ast.Module | None) -> bool:
    """Whether a function only looks at what it gets, by its words and by the names that it reads."""
    if isinstance(function, ast.ClassDef) or function.decorator_list or tree is None:
        return False
    standard = (part for part in walk(tree) if isinstance(part, _IMPORTS) and _is_standard(part))
    known = {name for part in (*standard, function) for name in _names_bound(part)}
    for node in walk(function):
        called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in _LOGGING and isinstance(called.value, ast.Name):
            known.add(called.value.id)
    read = {node.id for node in walk(function) if isinstance(node, ast.Name)}
    return (
        not any(isinstance(node, (*_IMPORTS, ast.Global, ast.Nonlocal)) for node in walk(function))
        and not are_guarding(function.body)
        and not is_of_torch(function)
        and read.isdisjoint({"ImportError", "ModuleNotFoundError", "self", "cls"})
        and all(name in known or hasattr(builtins, name) for name in read)
    )


def _is_standard(node: ast.Import | ast.ImportFrom) -> bool:
    is_absolute = not getattr(node, "level", 0)
    return is_absolute and all(name.partition(".")[0] in sys.stdlib_module_names for name in _modules_of(node))
