"""Names of torch that functions look up one after the other, and that a torch lacks:
``for name in NAMES: getattr(torch, name)``.

That raises at the first of them that is missing. What decides whether the loop is run is not followed, so that each is
doubtful; a lookup does not count where something may ask for the name, or catch the error.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from abiscan.python.language.nodes import TryStar, child_nodes, walk
from abiscan.python.language.private_names import written_name
from abiscan.python.language.source_parts import SourceParts
from abiscan.python.later.mentions import LaterUse
from abiscan.python.later.version_guards import are_guarding
from abiscan.python.later.version_names import finder_inside, full_name_found, module_finder
from abiscan.python.later.version_tests import Find
from abiscan.python.package.library import PythonCode
from abiscan.python.torch_api.torch_names import DEVICE_MODULES, TorchNames, lacking_part
from abiscan.regex import regex

_TORCH: Final = "torch"
_SIGN: Final = b"getattr(torch"
_LOOKING_UP: Final = regex(rb"getattr\(torch[\w.]*\s*,\s*[A-Za-z_]\w*\s*,?\s*\)")
"""A lookup of a name that is computed, without a default."""
_COLLECTIONS: Final = frozenset({"frozenset", "list", "set", "sorted", "tuple"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Place(Struct, frozen=True, kw_only=True):
    """A place in a source.

    :ivar parts: of the source
    :ivar find: finds what the names there stand for
    :ivar path: what the function or class around is called, with those around it
    :ivar loops: what the variables of the loops around go through
    """

    parts: SourceParts
    find: Find
    path: str = ""
    in_function: bool = False
    loops: Mapping[str, ast.expr] = {}


class _Lookup(Struct, frozen=True, kw_only=True):
    """Names that a function takes of torch, or of a module in it, in full."""

    names: Sequence[str]
    line: int
    function: str


def looked_up_names(code: PythonCode, names: TorchNames) -> Iterator[LaterUse]:
    """Yield the names that functions look up in a loop, and that a torch certainly lacks."""
    for file in filter(code.is_for_users, code.sources_with(_SIGN)):
        tree = code.tree(file) if _LOOKING_UP.search(code.source(file)) else None
        if tree is None:
            continue
        place = _Place(parts=code.parts(file), find=module_finder(code, file))
        with suppress(RecursionError):  # what is nested this deeply is not looked at
            for lookup in _lookups(tree, place):
                for name in filter(names.was_there, lookup.names):
                    if lacking_part(names, name) == name and name.split(".")[1] not in DEVICE_MODULES:
                        yield LaterUse(
                            name=name,
                            file=file,
                            line=lookup.line,
                            function=lookup.function,
                            how="attribute",
                            doubtful=True,
                        )


def _lookups(node: ast.AST, place: _Place) -> Iterator[_Lookup]:
    if isinstance(node, (ast.Try, TryStar)) or _is_guarding(node):
        return
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        if not place.parts.may_have(node, _LOOKING_UP):
            return
        path = f"{place.path}.{written_name(node)}" if place.path else written_name(node)
        place = replace(place, path=path)
        if isinstance(node, _FUNCTIONS):
            place = replace(place, in_function=True, find=finder_inside(node, place.find))
    elif isinstance(node, (ast.For, ast.AsyncFor, *_COMPREHENSIONS)):
        if any(map(_is_guarding, walk(node))):
            return
        loops = node.generators if isinstance(node, _COMPREHENSIONS) else [node]
        own = {loop.target.id: loop.iter for loop in loops if isinstance(loop.target, ast.Name)}
        place = replace(place, loops={**place.loops, **own})
    elif isinstance(node, ast.Call) and place.in_function:
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Name(id=name)]) if name in place.loops:
                module = full_name_found(owner, place.find)
                texts = _texts(place.loops[name], place.find) if module and module.partition(".")[0] == _TORCH else ()
                names = [f"{module}.{text}" for text in texts]
                yield _Lookup(names=names, line=node.lineno, function=place.path)
    for part in child_nodes(node):
        yield from _lookups(part, place)


def _is_guarding(node: ast.AST) -> bool:
    """Whether the words of a condition, or of a context, are those of something that asks for a version."""
    if isinstance(node, (ast.If, ast.IfExp)):
        return are_guarding([node.test])
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return are_guarding([item.context_expr for item in node.items])
    return isinstance(node, ast.comprehension) and are_guarding(node.ifs)


def _texts(node: ast.expr, find: Find) -> Sequence[str]:
    """Return the texts in a collection of nothing else, which a constant may be; none of anything else."""
    if isinstance(node, ast.Name):
        found = find(node.id)
        match found.statement if found else None:
            case ast.Assign(value=ast.expr() as value) | ast.AnnAssign(value=ast.expr() as value):
                return _texts_in(value)
        return ()
    return _texts_in(node)


def _texts_in(node: ast.expr) -> Sequence[str]:
    match node:
        case ast.Call(func=ast.Name(id=kind), args=[inner], keywords=[]) if kind in _COLLECTIONS:
            return _texts_in(inner)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            return texts if len(texts) == len(items) else ()
    return ()
