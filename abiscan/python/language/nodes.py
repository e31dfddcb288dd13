"""The nodes of a syntax tree, gone through in less time than ``ast.walk`` takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

_WITHOUT_NODES = frozenset({
    "arg", "attr", "ctx", "conversion", "id", "is_async", "kind", "level", "lineno", "module", "op", "ops", "rest",
    "simple", "type_comment", "type_params",
})  # fmt: skip
"""The fields that have no node, one that says only which operator it is, or nodes that are evaluated on demand."""


def _stand_in(name: str, base: type[ast.AST], *fields: str) -> Any:
    """Return a class of ``ast``, or one that stands in for it where the running Python does not have it."""
    cls = getattr(ast, name, None)
    return cls if cls is not None else type(name, (base,), {"_fields": fields, "__match_args__": fields})


TryStar: Final = _stand_in("TryStar", ast.stmt, "body", "handlers", "orelse", "finalbody")
TypeAlias: Final = _stand_in("TypeAlias", ast.stmt, "name", "type_params", "value")
TemplateStr: Final = _stand_in("TemplateStr", ast.expr, "values")
Interpolation: Final = _stand_in("Interpolation", ast.expr, "value", "str", "conversion", "format_spec")
TypeVar: Final = _stand_in("TypeVar", ast.AST, "name", "bound", "default_value")
TypeVarTuple: Final = _stand_in("TypeVarTuple", ast.AST, "name", "default_value")
ParamSpec: Final = _stand_in("ParamSpec", ast.AST, "name", "default_value")

_fields: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: (), ast.Name: ()}


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    fields = _fields[kind] = tuple(name for name in kind._fields if name not in _WITHOUT_NODES)
    return fields


def child_nodes(node: ast.AST) -> list[ast.AST]:
    """Return the nodes inside of one, without operators and contexts."""
    # ``ast.iter_child_nodes`` looks into every field, and most fields cannot hold a node that matters here.
    kind = type(node)
    fields = _fields.get(kind)
    if fields is None:
        fields = _fields_of(kind)
    nodes: list[ast.AST] = []
    for name in fields:
        value = getattr(node, name, None)
        if type(value) is list:
            nodes += [child for child in value if isinstance(child, ast.AST)]
        elif isinstance(value, ast.AST):
            nodes.append(value)
    return nodes


def attribute_chain(node: ast.AST) -> tuple[ast.AST, list[str]]:
    """Return what the attributes ``x.a.b`` are taken of, and their names in that order; any other node with none."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    names.reverse()
    return node, names


def dotted_name(node: ast.AST) -> str:
    """Return the text of a name and its attributes (``torch.nn.Linear``); nothing for any other expression."""
    root, names = attribute_chain(node)
    return ".".join([root.id, *names]) if isinstance(root, ast.Name) else ""


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node, and all that are inside of it; in no order that matters."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        kind = type(current)
        fields = _fields.get(kind)
        if fields is None:
            fields = _fields_of(kind)
        for name in fields:
            value = getattr(current, name, None)
            if type(value) is list:
                waiting += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                waiting.append(value)
