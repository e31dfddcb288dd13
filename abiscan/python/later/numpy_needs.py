"""The numpy that a package needs where its metadata allow newer ones: one that has the names which its code uses, and
one that its torch was compiled for.

A name counts where nothing around or before it asks for the version of numpy, or for the name, and the package does not
set it.
"""

from __future__ import annotations

import ast
import bisect
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct

from abiscan.python.language.bound_names import names_bound_by
from abiscan.python.language.nodes import TryStar, attribute_chain, child_nodes, walk
from abiscan.python.language.private_names import written_name
from abiscan.python.language.scan import Outline
from abiscan.python.later.mentions import LaterUse
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, PythonLine, World
from abiscan.python.torch_api.torch_names import Companions, TorchNames
from abiscan.python.torch_api.torch_texts import release_of
from abiscan.regex import regex

_NUMPY: Final = "numpy"
_OLDEST_PYTHONS: Final = {
    "1.24": (3, 8), "1.25": (3, 9), "1.26": (3, 9), "2.0": (3, 9),
    "2.1": (3, 10), "2.2": (3, 10), "2.3": (3, 11), "2.4": (3, 11),
}  # fmt: skip
"""From which Python on there is a minor version, by its ``Requires-Python``."""
_FIRST_FOR_NUMPY_2: Final = (2, 3)
"""The first torch that was compiled for numpy 2: https://github.com/pytorch/pytorch/issues/107302."""
_NUMPY_2: Final = "2.0"
_LOOKS_UP: Final = regex(rb"(?:has|get|set)attr\(\s*(?:np|numpy)\b")
_ASKS: Final = regex(r"(?i)version|hasattr|numpy|(?:^|_)np_?\d|type_checking")
"""The words of conditions on the version of numpy, and on what there is."""
_CATCHING: Final = frozenset({"AttributeError", "ImportError", "Exception", "BaseException"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ENDS = (ast.Return, ast.Raise, ast.Assert, ast.Continue, ast.Break)
_ENDING: Final = frozenset({"exit", "_exit", "skip"})
"""What ends a block, and what functions that do are called."""
_OTHERS: Final = frozenset({"sys", "torch", "platform"})
_MOST_NAMES_BETWEEN: Final = 3
"""How many names an answer may go through before it decides."""
_TO_NUMPY: Final = regex(rb"\.numpy\(|\btorch\.from_numpy\(")
_OTHER_TENSORS: Final = frozenset({"cupy", "jax", "mindspore", "oneflow", "paddle", "tensorflow"})
"""Modules with tensors of their own, which have methods of the same names."""
_OF_TENSORS: Final = frozenset({"cpu", "detach"})
"""Methods of tensors whose result has a method ``numpy``."""


class NumpyNeed(Struct, frozen=True, kw_only=True):
    """What fails with newer numpys.

    :ivar below: the first minor version with which it fails
    :ivar name: what that lacks, ``numpy.float_``; None for the arrays that torch makes and takes
    :ivar lines: where modules use it as they are imported; for arrays, where one is
    :ivar calls: where functions do
    """

    below: str
    name: str | None
    lines: tuple[PythonLine, ...] = ()
    calls: tuple[LaterUse, ...] = ()


def numpy_needs(code: PythonCode, world: World) -> Iterator[NumpyNeed]:
    """Yield what fails with a numpy that may be installed with a package, and not with an older one."""
    names = world.torch_names
    is_known = code.locate(_NUMPY) is not None or code.surroundings.version(_NUMPY) is not Answer.UNKNOWN
    if is_known or names is None or names.release is None or names.companions is None:
        return
    allowed = _allowed(code, world, names.companions())
    release = release_of(names.release)
    is_older = release is not None and release < _FIRST_FOR_NUMPY_2
    if is_older and _NUMPY_2 in allowed and _has_numpy(code) and (line := _line_with_an_array(code)):
        yield NumpyNeed(below=_NUMPY_2, name=None, lines=(line,))
    if len(allowed) > 1:
        yield from _names_that_went(code, allowed)


def _names_that_went(code: PythonCode, allowed: Mapping[str, TorchNames]) -> Iterator[NumpyNeed]:
    oldest, *_, newest = allowed.values()
    lines: dict[str, dict[PythonLine, None]] = {}
    calls: dict[str, dict[LaterUse, None]] = {}
    for file in filter(code.is_for_users, code.sources):
        uses = code.companion_uses(file, _NUMPY)
        lacking = {name for name in map(newest.first_lacking, uses) if name and oldest.first_lacking(name) is None}
        went = {name for name in lacking if newest.was_there(name) and not _is_asked_for(code, name.rpartition(".")[2])}
        tree = code.tree(file) if went else None
        found = _Uses(tree, went, postponed=code.postpones_annotations(file)) if tree else ()
        functions = _functions_by_line(tree) if tree else {}
        for name, line, how in sorted(found):
            function = functions.get(line)
            if function:
                use = LaterUse(name=name, file=file, line=line, function=function, how=how)
                calls.setdefault(name, {})[use] = None
            else:
                lines.setdefault(name, {})[PythonLine(file=file, line=line)] = None
    for name in sorted(lines.keys() | calls.keys()):
        below = next(version for version, has in allowed.items() if has.first_lacking(name) is not None)
        yield NumpyNeed(below=below, name=name, lines=tuple(lines.get(name, ())), calls=tuple(calls.get(name, ())))


def _functions_by_line(tree: ast.Module) -> dict[int, str]:
    """Return the functions by the lines of their bodies: ``Layer.forward`` for each of its own."""
    definitions = [
        node for node in walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    paths: dict[int, str] = {}
    functions: dict[int, str] = {}
    for node in sorted(definitions, key=lambda node: node.lineno):
        path = ".".join(filter(None, (paths.get(node.lineno), written_name(node))))
        is_function = not isinstance(node, ast.ClassDef) or node.lineno in functions
        # Decorators and defaults stand before the body, and are evaluated outside.
        lines = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
        paths.update(dict.fromkeys(lines, path))
        functions.update(dict.fromkeys(lines, path) if is_function else {})
    return functions


def _is_asked_for(code: PythonCode, name: str) -> bool:
    """Whether a package sets a name, or asks numpy for it by a text."""
    texts = [f'"{name}"'.encode(), f"'{name}'".encode()]
    return code.may_set(name) or any(
        _LOOKS_UP.search(code.source(file)) for text in texts for file in code.sources_with(text)
    )


class _Uses:
    """The uses of names of numpy in a source that nothing around or before them guards, each with its line and how.

    :param went: the names, as ``numpy.float_``
    :param postponed: whether annotations are not evaluated
    """

    def __init__(self, tree: ast.Module, went: Collection[str], *, postponed: bool) -> None:
        self._went, self._unguarded = went, _Unguarded(tree, postponed=postponed)
        bound: dict[str, set[str | None]] = {}
        for node in walk(tree):
            for name, module in names_bound_by(node):
                bound.setdefault(name, set()).add(module)
        self._aliases = {name for name, of in bound.items() if of == {_NUMPY}}
        """What stands for numpy, and for nothing else."""

    def __iter__(self) -> Iterator[tuple[str, int, str]]:
        for node in self._unguarded:
            if isinstance(node, ast.Attribute):
                name = self._name_of(node)
                if name in self._went and isinstance(node.ctx, ast.Load):
                    yield name, node.lineno, "attribute"
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                taken = (f"{node.module}.{alias.name}" for alias in node.names)
                yield from ((name, node.lineno, "from") for name in taken if name in self._went)

    def _name_of(self, node: ast.Attribute) -> str:
        root, names = attribute_chain(node)
        is_numpy = isinstance(root, ast.Name) and root.id in self._aliases
        return ".".join((_NUMPY, *names)) if is_numpy else ""


class _Unguarded:
    """All nodes of a source that nothing around or before them guards: what asks for numpy, or may fail unnoticed.

    :param postponed: whether annotations are not evaluated
    """

    def __init__(self, tree: ast.Module, *, postponed: bool = False) -> None:
        self._tree, self._postponed = tree, postponed
        self._answers = _answers(tree)

    def __iter__(self) -> Iterator[ast.AST]:
        waiting: list[tuple[ast.AST, float]] = [(self._tree, math.inf)]
        while waiting:
            node, last = waiting.pop()
            if isinstance(node, (*_FUNCTIONS, ast.Module)):
                last = min(last, self._last_line(node))
            if getattr(node, "lineno", 0) > last:
                continue
            yield node
            if not (self._asks(node) or self._names_numpy(node) or _may_catch(node)):
                parts = (part for part in child_nodes(node) if not (self._postponed and _is_annotation(node, part)))
                waiting += ((part, last) for part in parts)

    def _last_line(self, body: ast.AST) -> float:
        """Return the last line of a module or function that is reached with every numpy."""
        ends, asking = list[int](), list[tuple[int, int]]()
        waiting = child_nodes(body)
        while waiting:
            part = waiting.pop()
            if isinstance(part, (ast.If, ast.Assert, ast.Match)) and self._asks(part):
                asking.append((part.lineno, part.end_lineno or part.lineno))
            if isinstance(part, _ENDS) or (isinstance(part, ast.Call) and _word_of(part.func) in _ENDING):
                ends.append(getattr(part, "lineno", 0))
            waiting += () if isinstance(part, _FUNCTIONS) else child_nodes(part)
        ends.sort()
        ending = (first for first, last in asking if bisect.bisect_left(ends, first) < bisect.bisect_right(ends, last))
        line = min(ending, default=math.inf)
        # What cannot be imported is not called either.
        return 0 if isinstance(body, ast.Module) and line < math.inf else line

    def _asks(self, node: ast.AST) -> bool:
        """Whether what decides in a node may depend on the version of numpy, or on what it has."""
        words = (word for condition in _conditions_of(node) for word in _words_of(condition))
        return any(word in self._answers or _is_asking(word) for word in words)

    def _names_numpy(self, node: ast.AST) -> bool:
        """Whether a statement is for a numpy that it asks in some other way."""
        return isinstance(node, (ast.If, ast.IfExp)) and any(map(_ASKS.search, map(_word_of, walk(node.test))))


def _answers(tree: ast.Module) -> frozenset[str]:
    """Return the names of values, and of functions that return them, that may depend on the version of numpy."""
    bound: list[tuple[list[str], frozenset[str]]] = []
    for node in walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [word for target in targets for word in map(_word_of, walk(target)) if word]
            bound.append((names, frozenset(_words_of(node.value))))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            returned = (part.value for part in walk(node) if isinstance(part, ast.Return) and part.value)
            bound.append(([node.name], frozenset(word for value in returned for word in _words_of(value))))
    answers = {word for _, words in bound for word in words if _is_asking(word)}
    for _ in range(_MOST_NAMES_BETWEEN):
        answers.update(name for names, words in bound if not answers.isdisjoint(words) for name in names)
    return frozenset(answers - {"self", "cls", ""})


def _is_asking(word: str) -> bool:
    return word != _NUMPY and _ASKS.search(word) is not None


def _words_of(expression: ast.AST) -> Iterator[str]:
    """Yield the names and attributes in an expression, but for what Python and torch say of themselves."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if not (isinstance(node, ast.Attribute) and _word_of(node.value) in _OTHERS):
            yield _word_of(node)
            waiting += child_nodes(node)


def _word_of(node: ast.AST) -> str:
    word = getattr(node, "id", getattr(node, "attr", ""))
    return word if isinstance(word, str) else ""


def _conditions_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what decides whether what stands in a node is reached."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        yield node.test
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.Match):
        yield node.subject
        yield from (part for case in node.cases for part in (case.pattern, case.guard) if part)
    elif isinstance(node, ast.Subscript):  # a table of functions by the version
        yield node.slice
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        yield from (condition for generator in node.generators for condition in generator.ifs)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield from node.decorator_list


def _may_catch(node: ast.AST) -> bool:
    """Whether what stands in a statement may fail unnoticed."""
    if isinstance(node, (ast.Try, TryStar)):
        kinds = [handler.type for handler in node.handlers]
        names = {getattr(part, "id", "") for kind in kinds if kind for part in walk(kind)}
        return None in kinds or not names.isdisjoint(_CATCHING)
    return isinstance(node, (ast.With, ast.AsyncWith)) and any(
        _word_of(part) == "suppress" for item in node.items for part in walk(item)
    )


def _is_annotation(node: ast.AST, part: ast.AST) -> bool:
    return part is getattr(node, "annotation", None) or part is getattr(node, "returns", None)


def _allowed(code: PythonCode, world: World, companions: Companions) -> dict[str, TorchNames]:
    """Return the names of each minor version that may be installed, the oldest first, as far as recorded."""
    specifier, newest = code.required_version(_NUMPY), world.newest_python
    allowed: dict[str, TorchNames] = {}
    for version in companions.versions(_NUMPY):
        is_there = newest is None or newest >= _OLDEST_PYTHONS.get(version, (0, 0))
        found = companions.matching(_NUMPY, ",".join(filter(None, (specifier, f"=={version}.*")))) if is_there else ()
        allowed.update((version, names) for names in found)
    return allowed


def _has_numpy(code: PythonCode) -> bool:
    """Whether numpy is there wherever a package is used: without it, what needs an array fails with any torch."""
    return code.requires(_NUMPY) or any(
        line.module.partition(".")[0] == _NUMPY and not line.nested
        for file in filter(code.is_for_users, code.sources_with(b"numpy"))
        for line in code.outline(file).imports
    )


def _line_with_an_array(code: PythonCode) -> PythonLine | None:
    """Return the first line that surely makes an array of a tensor, or a tensor of an array."""
    for file in filter(code.is_for_users, code.sources):
        source = code.source(file)
        imported = _imported(code.outline(file)) if _TO_NUMPY.search(source) else ()
        if "torch" not in imported or not _OTHER_TENSORS.isdisjoint(imported):
            continue
        tree = code.tree(file)
        lines = [
            node.func.end_lineno or node.lineno
            for node in (_Unguarded(tree) if tree else ())
            if isinstance(node, ast.Call) and _is_between_torch_and_numpy(node)
        ]
        if lines:
            return PythonLine(file=file, line=min(lines))
    return None


def _imported(source: Outline) -> Collection[str]:
    """Return the top-level modules of what a source imports, wherever it does."""
    return {line.module.partition(".")[0] for line in (*source.imports, *source.imports_in_functions)}


def _is_between_torch_and_numpy(call: ast.Call) -> bool:
    """Whether a call is ``torch.from_numpy(x)``, or ``numpy()`` of what only a tensor of torch can be."""
    if not isinstance(call.func, ast.Attribute):
        return False
    value = call.func.value
    if call.func.attr == "from_numpy":
        return isinstance(value, ast.Name) and value.id == "torch"
    while call.func.attr == "numpy" and isinstance(value, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(value, ast.Attribute) and value.attr in _OF_TENSORS:
            return True
        value = value.func if isinstance(value, ast.Call) else value.value
    return False
