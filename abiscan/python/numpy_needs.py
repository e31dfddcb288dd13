"""The numpy that a package needs where its metadata allow newer ones: one that has the names which its code uses, and
one that its torch was compiled for.

A name counts where nothing around it asks for the version of numpy, or for the name, and the package does not set it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct

from abiscan.python.library import PythonCode
from abiscan.python.model import Answer, PythonLine, World
from abiscan.python.nodes import TryStar, child_nodes, walk
from abiscan.python.sources import is_for_users
from abiscan.python.torch_names import Companions, TorchNames
from abiscan.python.torch_texts import release_of
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
_TO_NUMPY: Final = regex(rb"\.numpy\(\)|\bfrom_numpy\(")


class NumpyNeed(Struct, frozen=True, kw_only=True):
    """What fails with newer numpys.

    :ivar below: the first minor version with which it fails
    :ivar name: what that lacks, ``numpy.float_``; None for the arrays that torch makes and takes
    """

    below: str
    name: str | None
    lines: tuple[PythonLine, ...]


def numpy_needs(code: PythonCode, world: World) -> Iterator[NumpyNeed]:
    """Yield what fails with a numpy that may be installed with a package, and not with an older one."""
    names = world.torch_names
    is_known = code.locate(_NUMPY) is not None or code.surroundings.version(_NUMPY) is not Answer.UNKNOWN
    if is_known or names is None or names.release is None or names.companions is None:
        return
    allowed = _allowed(code, world, names.companions())
    release = release_of(names.release)
    is_older = release is not None and release < _FIRST_FOR_NUMPY_2
    if is_older and _NUMPY_2 in allowed and (lines := tuple(_lines_with_arrays(code))):
        yield NumpyNeed(below=_NUMPY_2, name=None, lines=lines)
    if len(allowed) > 1:
        yield from _names_that_went(code, allowed)


def _names_that_went(code: PythonCode, allowed: Mapping[str, TorchNames]) -> Iterator[NumpyNeed]:
    oldest, *_, newest = allowed.values()
    lines: dict[str, dict[PythonLine, None]] = {}
    for file in filter(is_for_users, code.sources):
        uses = code.companion_uses(file, _NUMPY)
        went = {use for use in uses if newest.first_lacking(use) == use and oldest.first_lacking(use) is None}
        went = {use for use in went if newest.was_there(use) and not _is_asked_for(code, use.rpartition(".")[2])}
        tree = code.tree(file) if went else None
        found = _Uses(tree, went, postponed=code.postpones_annotations(file)) if tree else ()
        for name, line in sorted(found):
            lines.setdefault(name, {})[PythonLine(file=file, line=line)] = None
    for name in sorted(lines):
        below = next(version for version, has in allowed.items() if has.first_lacking(name) is not None)
        yield NumpyNeed(below=below, name=name, lines=tuple(lines[name]))


def _is_asked_for(code: PythonCode, name: str) -> bool:
    """Whether a package sets a name, or asks numpy for it by a text."""
    texts = [f'"{name}"'.encode(), f"'{name}'".encode()]
    asking = (source for source in map(code.source, code.sources) if _LOOKS_UP.search(source))
    return code.may_set(name) or any(text in source for source in asking for text in texts)


class _Uses:
    """The uses of names of numpy in a source that nothing around them guards, each with its line.

    :param went: the names, as ``numpy.float_``
    :param postponed: whether annotations are not evaluated
    """

    def __init__(self, tree: ast.Module, went: Collection[str], *, postponed: bool) -> None:
        self._tree, self._went, self._postponed = tree, went, postponed
        bound: dict[str, set[str]] = {}
        for node in walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    own = alias.asname or alias.name
                    bound.setdefault(own, set()).add(alias.name if isinstance(node, ast.Import) else "")
        self._aliases = {name for name, of in bound.items() if of == {_NUMPY}}
        """What stands for numpy, and for nothing else."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        waiting: list[ast.AST] = [self._tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Attribute):
                name = self._name_of(node)
                if name in self._went and isinstance(node.ctx, ast.Load):
                    yield name, node.lineno
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                taken = (f"{node.module}.{alias.name}" for alias in node.names)
                yield from ((name, node.lineno) for name in taken if name in self._went)
            if not _is_guard(node):
                waiting += (part for part in child_nodes(node) if not (self._postponed and _is_annotation(node, part)))

    def _name_of(self, node: ast.Attribute) -> str:
        names: list[str] = []
        value: ast.expr = node
        while isinstance(value, ast.Attribute):
            names.append(value.attr)
            value = value.value
        is_numpy = isinstance(value, ast.Name) and value.id in self._aliases
        return ".".join((_NUMPY, *reversed(names))) if is_numpy else ""


def _is_guard(node: ast.AST) -> bool:
    """Whether what stands in a statement may depend on the version of numpy, or may fail unnoticed."""
    if isinstance(node, (ast.If, ast.IfExp)):
        words = (getattr(part, "id", getattr(part, "attr", "")) for part in walk(node.test))
        return any(map(_ASKS.search, words))
    if isinstance(node, (ast.Try, TryStar)):
        kinds = [handler.type for handler in node.handlers]
        names = {getattr(part, "id", "") for kind in kinds if kind for part in walk(kind)}
        return None in kinds or not names.isdisjoint(_CATCHING)
    return isinstance(node, (ast.With, ast.AsyncWith)) and any(
        getattr(part, "id", getattr(part, "attr", "")) == "suppress" for item in node.items for part in walk(item)
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


def _lines_with_arrays(code: PythonCode) -> Iterator[PythonLine]:
    """Yield where torch makes an array of numpy, or a tensor of one, going by the text of the sources."""
    for file in filter(is_for_users, code.sources):
        match = _TO_NUMPY.search(code.source(file)) if b"torch" in code.source(file) else None
        if match is not None:
            yield PythonLine(file=file, line=code.source(file).count(b"\n", 0, match.start()) + 1)
