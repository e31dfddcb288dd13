"""What a package shows of its own conditions: those that certainly say nothing of the version of torch.

There are flags for other packages, and functions that check values. Whatever is not recognised may depend on the
version of torch.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan.python.language.bound_names import names_bound_by, names_bound_in
from abiscan.python.language.late_bodies import definitions_in
from abiscan.python.language.nodes import walk
from abiscan.python.language.source_parts import having
from abiscan.python.later.known_torch import known_torch
from abiscan.python.later.version_guards import (
    MAY_ASK,
    are_guarding,
    asks_if_torch_is_there,
    checking,
    denying,
    found,
    found_with_torch,
    is_guard,
    is_module_of_torch,
    is_of_torch,
    root_of,
    says_torch,
    says_version,
)
from abiscan.python.later.version_names import full_name_found, module_finder
from abiscan.python.later.version_tests import EITHER, VERSION, Find, FullName, Truth, truth_of
from abiscan.python.package.library import PythonCode
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.regex import regex

_MOST_PARSED: Final = 2_000_000
"""Of the sources that mention one function, in bytes."""
_LOGGING: Final = frozenset({"debug", "info", "warning", "error", "exception"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_OF_PYTHON: Final = frozenset({"self", "cls", *dir(builtins)})
_STAR: Final = regex(rb"import[ \t]*\*")
_BINDING: Final = rb"%b(?<!\w%b)[ \t]*(?::[^=\n]{0,99})?=(?!=)((?:[ \t(\\]*\n)?[^\n]{0,300})"
"""A name, and what it is bound to: ten times as fast as with ``\\b`` before the name."""
_DEFINING: Final = regex(rb"\bdef[ \t]+\Z")
_ASSIGNMENT: Final = regex(rb"[^=\n]*=(?!=)")
_FURTHEST_WORD: Final = 200
"""How far before a name the word may stand that defines it, or the beginning of its line."""
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


class _Bindings(Struct, frozen=True, kw_only=True):
    """How often a source binds a name, in whatever scopes, and the imports among what does."""

    count: int
    imports: Sequence[ast.Import | ast.ImportFrom]


class SettledConditions:
    """The conditions of one package in one torch: see above.

    :param facts: see ``KnownTorch``
    """

    def __init__(self, code: PythonCode, names: TorchNames, facts: Mapping[str, object]) -> None:
        self._code, self._names = code, names
        self._torch = known_torch(names, facts)
        self._flags: dict[str, frozenset[str]] = {}
        self._checking: dict[str, bool] = {}
        self._asking: dict[str, bool] = {}
        self._denying: dict[str, bool] = {}
        self._bound: dict[tuple[str, str], _Bindings] = {}

    def marks_among(self, nodes: Iterable[ast.AST], file: str) -> frozenset[str]:
        """Return what stands for them among the values of some parts of a source: see ``version_guards``."""
        tree = self._code.tree(file)
        return self._flags_of(tree, file).union(self._marks_in(tree, nodes, file)) if tree else frozenset()

    def truth(
        self, test: ast.expr, find: Find, values: Collection[str], full_name: FullName = full_name_found
    ) -> Truth:
        """Whether a condition holds in this torch; None if its version may decide, and that is not known.

        :param values: what stands for values in it
        """

        def is_value(node: ast.expr) -> bool:
            return not is_guard(node, values)

        # Most conditions have nothing in them that could be found, and to look for it takes longer.
        names = {node.id for node in walk(test) if isinstance(node, ast.Name)}
        is_open = names - _OF_PYTHON <= {*values}
        truth = None if is_open else truth_of(test, self._torch, find, full_name, is_value)
        return EITHER if truth is None and is_value(test) else truth

    def find_in(self, file: str) -> Find:
        """Return what finds the names in a source, there or where it imports them from."""
        return module_finder(self._code, file)

    def may_ask(self, name: str) -> bool:
        """Whether any source binds a name to something whose words may ask for a version:
        ``self.flash = hasattr(F, "sdpa")``.
        """
        if name not in self._asking:
            word = name.encode()
            binding = re.compile(_BINDING % (re.escape(word), re.escape(word)))
            self._asking[name] = any(
                MAY_ASK.search(match[1].decode(errors="replace"))
                for source in map(self._code.source, self._code.sources_with(word))
                for match in binding.finditer(source)
            )
        return self._asking[name]

    def _flags_of(self, tree: ast.Module, file: str) -> frozenset[str]:
        if file not in self._flags:
            by_others = map(found, self._found_by_imports(tree, file, self._imports_others))
            self._flags[file] = frozenset(
                (*by_others, *map(found_with_torch, self._found_by_imports(tree, file, self._imports_torch)))
            )
        return self._flags[file]

    def _marks_in(self, tree: ast.Module, nodes: Iterable[ast.AST], file: str) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, ast.Name) and asks_if_torch_is_there(node.id) and self._denies(node.id):
                yield denying(node.id)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and are_guarding([node.value.func]):
                name = _last_word(node.value.func)
                if name is not None and self._is_own(node.value.func, tree, file) and self._only_checks(name):
                    yield checking(name)
            # What a decorator is passed to check the arguments: ``@register(constraints=[_check_device])``.
            for part in _passed_to_decorators(node) if isinstance(node, _FUNCTIONS) else ():
                if are_guarding([part]) and self._is_own(part, tree, file) and self._only_checks(part.id):
                    yield checking(part.id)

    # ---- flags for torch

    def _denies(self, flag: str) -> bool:
        """Whether the package says that this torch is none, since it is too old: ``torch_version >= "2.6"``."""
        if flag not in self._denying:
            self._denying[flag] = False  # for those that are made of each other
            named = (file for file in self._code.sources_with(flag.encode()) if self._code.is_for_users(file))
            files = [file for file in named if _may_make(self._code.source(file), flag.encode())]
            self._denying[flag] = any(
                self._is_denied(value) for file in files for value in _made_of(flag, self._code.tree(file))
            )
        return self._denying[flag]

    def _is_denied(self, value: ast.expr) -> bool:
        parts = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
        return any(
            self._denies(part.id)
            if isinstance(part, ast.Name) and asks_if_torch_is_there(part.id)
            else truth_of(part, self._torch, lambda _: None, _version_named) is False
            for part in parts
        )

    # ---- flags for other packages

    def _found_by_imports(self, tree: ast.Module, file: str, decide: Callable[[ast.Try], bool]) -> frozenset[str]:
        """Return the flags of a module that only imports decide, of what one of its statements may import."""
        tries = [node for node in tree.body if isinstance(node, ast.Try) and decide(node)]
        inside = Counter(name for node in tries for name in names_bound_in(node))
        if not inside or self._bindings("*", tree, file).count:
            return frozenset()
        return frozenset(name for name in inside if inside[name] == self._bindings(name, tree, file).count)

    def _imports_others(self, node: ast.Try) -> bool:
        """Whether a statement only imports packages other than torch, and this one, or says that they are not there."""
        return self._only_imports(node) and not says_torch(node)

    def _imports_torch(self, node: ast.Try) -> bool:
        """Whether a statement only imports torch, perhaps with other packages, or says that one of them is not there,
        whatever their versions.
        """
        is_taken = any(isinstance(part, ast.Import) and _modules_of(part) == [self._names.top] for part in node.body)
        return is_taken and self._only_imports(node) and not says_version(node)

    def _only_imports(self, node: ast.Try) -> bool:
        parts, imports = list(walk(node)), [part for part in walk(node) if isinstance(part, _IMPORTS)]
        return (
            all(isinstance(part, (ast.Assign, *_IMPORTS)) for part in (*node.body, *node.orelse))
            and all(isinstance(part.value, ast.Constant) for part in parts if isinstance(part, ast.Assign))
            and not any(isinstance(part, (ast.If, ast.IfExp)) for part in parts)
            and all(map(self._says_nothing_of_torch, imports))
        )

    def _says_nothing_of_torch(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import is one of another package, or of what this torch certainly has."""
        modules = _modules_of(node)
        if modules == [self._names.top] and isinstance(node, ast.Import):
            return True
        if isinstance(node, ast.ImportFrom) and not node.level and modules[0].partition(".")[0] == self._names.top:
            return all(self._names.has(modules[0], alias.name) is True for alias in node.names)
        is_own = getattr(node, "level", 0) or any(map(self._code.locate, modules))
        return not is_own and not any(map(is_module_of_torch, modules))

    # ---- functions that check values

    def _is_own(self, called: ast.expr, tree: ast.Module, file: str) -> bool:
        """Whether what is called is certainly a function of the package."""
        root = root_of(called)
        if root is None:
            return False
        bindings = self._bindings(root, tree, file)
        if not bindings.imports:
            return isinstance(called, ast.Name) and any(getattr(part, "name", "") == root for part in tree.body)
        is_own = (
            getattr(part, "level", 0) or all(map(self._code.locate, _modules_of(part))) for part in bindings.imports
        )
        return bindings.count == len(bindings.imports) and all(is_own)

    def _bindings(self, name: str, tree: ast.Module, file: str) -> _Bindings:
        """Return what binds a name in a source, which is asked for once for each of its calls."""
        if (file, name) not in self._bound:
            parts = self._code.parts(file).walk_having(tree, _STAR if name == "*" else having([name]))
            binding = [part for part in parts for bound, _ in names_bound_by(part) if bound == name]
            imports = [part for part in dict.fromkeys(binding) if isinstance(part, _IMPORTS)]
            self._bound[file, name] = _Bindings(count=len(binding), imports=imports)
        return self._bound[file, name]

    def _mentioning(self, name: str) -> list[str]:
        """Return the sources that mention a name; none if they are too large."""
        # Ten times as fast as with ``\b`` before the name.
        word = re.compile(rb"%b(?<!\w%b)\b" % (re.escape(name.encode()), re.escape(name.encode())))
        named = (file for file in self._code.sources_with(name.encode()) if self._code.is_for_users(file))
        files = [file for file in named if word.search(self._code.source(file))]
        return files if sum(len(self._code.source(file)) for file in files) <= _MOST_PARSED else []

    def _only_checks(self, name: str) -> bool:
        """Whether all functions of a name ask nothing but what they get."""
        if name not in self._checking:
            # Few of them define it, and the others need not be parsed.
            definition = re.compile(rb"\b(?:def|class)[\s\\]+%b\b" % re.escape(name.encode()))
            files = (file for file in self._mentioning(name) if definition.search(self._code.source(file)))
            trees = [self._code.tree(file) for file in files]
            functions = [
                _asks_nothing(node, tree) for tree in trees for node in (definitions_in(tree, name) if tree else ())
            ]
            self._checking[name] = bool(functions) and None not in trees and all(functions)
        return self._checking[name]


def _may_make(source: bytes, flag: bytes) -> bool:
    """Whether a source may define a function or a variable of a name, going by what is around it: that is looked for
    ten times as fast as a line that begins so.
    """
    for match in re.finditer(rb"%b(?!\w)" % re.escape(flag), source):
        before = source[max(match.start() - _FURTHEST_WORD, 0) : match.start()]
        is_function = _DEFINING.search(before) is not None
        is_first = not before.rstrip(b" \t").rpartition(b"\n")[2]
        if is_function or (is_first and _ASSIGNMENT.match(source, match.end())):
            return True
    return False


def _made_of(flag: str, tree: ast.Module | None) -> Iterator[ast.expr]:
    """Yield what a function may return, and what is assigned to a flag of its name."""
    if tree is None:
        return
    for function in definitions_in(tree, flag):
        yield from (part.value for part in walk(function) if isinstance(part, ast.Return) and part.value)
    for part in (
        part for statement in tree.body if not isinstance(statement, _DEFINITIONS) for part in walk(statement)
    ):
        if isinstance(part, ast.Assign) and any(getattr(target, "id", None) == flag for target in part.targets):
            yield part.value


def _version_named(node: ast.expr, _find: object) -> str | None:
    """Return the version if a part of what says if there is a torch is that, as it is found in the metadata."""
    return VERSION if isinstance(node, ast.Name) and node.id.lower().endswith("version") else None


def _passed_to_decorators(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Name]:
    for decorator in function.decorator_list:
        passed = (
            [*decorator.args, *(item.value for item in decorator.keywords)] if isinstance(decorator, ast.Call) else []
        )
        yield from (part for argument in passed for part in walk(argument) if isinstance(part, ast.Name))


def _last_word(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _modules_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]


def _asks_nothing(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, tree: ast.Module | None) -> bool:
    """Whether a function only looks at what it gets, by its words and by the names that it reads."""
    if isinstance(function, ast.ClassDef) or function.decorator_list or tree is None:
        return False
    standard = (part for part in walk(tree) if isinstance(part, _IMPORTS) and _is_standard(part))
    known = {name for part in (*standard, function) for name in names_bound_in(part)}
    for node in walk(function):
        called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in _LOGGING and isinstance(called.value, ast.Name):
            known.add(called.value.id)
    # What annotations say is not asked.
    body = [*function.body, *function.args.defaults, *filter(None, function.args.kw_defaults)]
    read = {node.id for part in body for node in walk(part) if isinstance(node, ast.Name)}
    return (
        not any(isinstance(node, (*_IMPORTS, ast.Global, ast.Nonlocal)) for node in walk(function))
        and not are_guarding(function.body)
        and not any(map(is_of_torch, body))
        and read.isdisjoint({"ImportError", "ModuleNotFoundError", "self", "cls"})
        and all(name in known or hasattr(builtins, name) for name in read)
    )


def _is_standard(node: ast.Import | ast.ImportFrom) -> bool:
    is_absolute = not getattr(node, "level", 0)
    return is_absolute and all(name.partition(".")[0] in sys.stdlib_module_names for name in _modules_of(node))
