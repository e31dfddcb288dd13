"""Modules that code loads as a whole, which an older torch may have saved.

Unpickling an object calls no constructor: it has the attributes that it was saved with. A class whose ``forward`` reads
an attribute that its constructor only sets since some release raises ``AttributeError`` with the modules of before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from abiscan.python.language.nodes import walk
from abiscan.python.later.loaded_files import names_of
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import PythonLine
from abiscan.python.torch_api.changed_defaults import kept_as_modules, used_as_modules
from abiscan.python.torch_api.torch_names import TorchNames

LOAD: Final = "torch.load"


class AddedAttribute(Struct, frozen=True, kw_only=True):
    """An attribute that the ``forward`` of a class of torch reads, and that its constructor only sets since a release,
    which is the first one where it is a parameter of that.
    """

    cls: str
    name: str
    since: str


# torch/nn/modules/upsampling.py of 1.11.0, activation.py of 1.12.0; neither class has a ``__setstate__`` that sets it.
_ADDED: Final = (
    AddedAttribute(cls="torch.nn.GELU", name="approximate", since="1.12"),
    AddedAttribute(cls="torch.nn.Upsample", name="recompute_scale_factor", since="1.11"),
)


def added_attributes(names: TorchNames) -> tuple[AddedAttribute, ...]:
    """Return the attributes that this torch reads and that modules lack which an older one has saved."""
    callees = ((item, names.callee(item.cls)) for item in _ADDED)
    return tuple(item for item, callee in callees if callee is not None and item.name in callee.signature.keywords)


def loads_of_modules(code: PythonCode) -> Iterator[PythonLine]:
    """Yield where code loads what it uses as a module."""
    for file in filter(code.is_for_users, code.files_using(LOAD)):
        tree = code.tree(file)
        if tree is not None:
            names = names_of(tree, "load")
            used = {id(call): call for call in _used(tree)}
            lines = sorted(call.lineno for call in used.values() if _written(call.func) in names)
            yield from (PythonLine(file=file, line=line) for line in lines)


def _used(tree: ast.Module) -> Iterator[ast.Call]:
    for node in walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from kept_as_modules(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from used_as_modules(node.body)


def _written(function: ast.expr) -> str:
    return ast.unparse(function) if isinstance(function, (ast.Attribute, ast.Name)) else ""
