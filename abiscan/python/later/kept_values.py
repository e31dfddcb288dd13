"""What the checkpoints that a source makes itself keep beside tensors: values of numpy, which ``torch.load`` refuses by
its default since 2.6.0, as it does objects of classes.

A checkpoint is a dictionary that is saved, or that holds the state of something. Only keys count that the source asks
for again: it loads what it has saved.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from abiscan.python.language.nodes import dotted_name, walk
from abiscan.regex import regex

_MEASURED: Final = regex(
    r"_?best_(?!epoch|iter|step|model|state|weight|path|it$)\w+|\w*(performance|scores?|metrics?|rewards?|logging|stats)"
)
"""The keys under which checkpoints keep what was measured, which mostly is computed with numpy."""
_CHECKPOINT: Final = regex(r"(?i)\w*(checkpoint|ckpt|state|saved|loaded)\w*")
"""What sources call what they loaded, and hand to the function that asks it for its keys."""
_PLAIN: Final = frozenset({"bool", "float", "id", "int", "len", "str"})
_PLAIN_METHODS: Final = frozenset({"format", "isoformat", "item", "join", "time", "tolist"})
_TENSORS: Final = frozenset({"cpu", "detach", "state_dict"})
_ADDING: Final = frozenset({"append", "appendleft", "extend", "insert"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST_STEPS: Final = 60
"""How many expressions are looked at to tell what one value is."""


def kept_and_asked(nodes: Sequence[ast.AST], saves: Collection[str], numpy: Collection[str]) -> frozenset[str]:
    """Return the keys of checkpoints that may have values of numpy, and that a source asks for again.

    :param nodes: the parts of the source
    :param saves: what it calls ``torch.save``
    :param numpy: what it calls numpy
    """
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    functions = [node for node in nodes if isinstance(node, _FUNCTIONS)]
    owners = {id(part): cls for cls in classes for part in cls.body}
    values = {id(cls): _bound_attributes(cls) for cls in classes}
    kept: set[str] = set()
    for function in functions:
        parts = list(walk(function))
        checkpoints = list(_checkpoints_in(parts, saves))
        if checkpoints:
            owner = owners.get(id(function))
            bound = {**_bound_names(function, parts), **(values[id(owner)] if owner else {})}
            of_checkpoints = [item for checkpoint in checkpoints for item in _items_of(checkpoint)]
            kept.update(key for key, value in of_checkpoints if _may_be_numpy(key, value, bound, numpy))
    return frozenset(kept & set(_asked_keys(nodes))) if kept else frozenset()


def _checkpoints_in(parts: Sequence[ast.AST], saves: Collection[str]) -> Iterator[ast.Dict]:
    saved = {
        ast.dump(part.args[0]) if isinstance(part.args[0], ast.Name) else id(part.args[0])
        for part in parts
        if isinstance(part, ast.Call) and part.args and dotted_name(part.func) in saves
    }
    for part in parts:
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Dict):
            names = {target.id for target in part.targets if isinstance(target, ast.Name)}
            if any(ast.dump(ast.Name(id=name, ctx=ast.Load())) in saved for name in names):
                yield part.value
        elif isinstance(part, ast.Dict) and (id(part) in saved or any(map(_is_state, part.values))):
            yield part


def _is_state(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "state_dict"


def _items_of(checkpoint: ast.Dict) -> Iterator[tuple[str, ast.expr]]:
    for key, value in zip(checkpoint.keys, checkpoint.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value


def _asked_keys(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the keys that anything is asked for that may be what was loaded, by its name."""
    yield from (key for key in map(_asked_key, nodes) if key is not None)


def _asked_key(node: ast.AST) -> str | None:
    owner, key = None, None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        owner, key = node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"get", "pop"}:
        owner, key = node.func.value, node.args[0] if node.args else None
    text = getattr(key, "value", None) if isinstance(owner, ast.Name) and _CHECKPOINT.fullmatch(owner.id) else None
    return text if isinstance(text, str) else None


def _may_be_numpy(key: str, value: ast.expr, bound: Mapping[str, Sequence[ast.expr]], numpy: Collection[str]) -> bool:
    if _is_of_numpy(value, bound, numpy):
        return True
    is_kept = isinstance(value, ast.Attribute) and dotted_name(value) in bound
    return is_kept and _MEASURED.fullmatch(key) is not None and not _is_plain(value, bound)


def _is_of_numpy(value: ast.expr, bound: Mapping[str, Sequence[ast.expr]], numpy: Collection[str]) -> bool:
    """Whether a value is, or holds, what a function of numpy returned."""
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < _MOST_STEPS:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ast.Call):
            root, last = _root_of(node.func), getattr(node.func, "attr", "")
            if root in numpy and last not in _PLAIN_METHODS:
                return True
        elif isinstance(node, (ast.Name, ast.Attribute)):
            waiting += bound.get(dotted_name(node), ())
        elif isinstance(node, (ast.Tuple, ast.List)):
            waiting += node.elts
        elif isinstance(node, ast.IfExp):
            waiting += (node.body, node.orelse)
        elif isinstance(node, ast.BinOp):
            waiting += (node.left, node.right)
    return False


def _is_plain(value: ast.expr, bound: Mapping[str, Sequence[ast.expr]]) -> bool:
    """Whether a value is certainly a number, a text, a state, or tensors."""
    waiting, seen = [value], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if len(seen) > _MOST_STEPS:
            return False
        if isinstance(node, ast.Call):
            last = getattr(node.func, "attr", "")
            if last not in _PLAIN_METHODS | _TENSORS and getattr(node.func, "id", "") not in _PLAIN:
                return False
        elif isinstance(node, (ast.Name, ast.Attribute)):
            values = bound.get(dotted_name(node))
            if not values:
                return False
            waiting += values
        elif isinstance(node, ast.Subscript):
            return False
        else:
            waiting += (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    return True


def _bound_attributes(cls: ast.ClassDef) -> dict[str, list[ast.expr]]:
    """Return what the attributes of an object get in its class, and what is added to lists in them."""
    bound: dict[str, list[ast.expr]] = {}
    for node in walk(cls):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                # What is taken back from a checkpoint is what was kept in it.
                if isinstance(target, ast.Attribute) and _asked_key(node.value) is None:
                    bound.setdefault(dotted_name(target), []).append(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _ADDING and node.args:
            owner = getattr(node.func, "value", None)
            if isinstance(owner, ast.Attribute):
                bound.setdefault(dotted_name(owner), []).append(node.args[-1])
    return {name: values for name, values in bound.items() if name.startswith("self.")}


def _bound_names(
    function: ast.FunctionDef | ast.AsyncFunctionDef, parts: Sequence[ast.AST]
) -> dict[str, list[ast.expr]]:
    parameters = {part.arg for part in walk(function.args) if isinstance(part, ast.arg)}
    bound: dict[str, list[ast.expr]] = {}
    for node in parts:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id not in parameters:
                    bound.setdefault(target.id, []).append(node.value)
    return bound


def _root_of(node: ast.AST) -> str:
    return dotted_name(node).partition(".")[0]
