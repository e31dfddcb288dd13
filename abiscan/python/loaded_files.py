"""Files that code loads with ``torch.load`` and leaves it to torch what they may hold: since 2.6.0, tensors and plain
values alone.

What is in a file is not known. But code that takes a configuration or a vocabulary from it shows that it is more than
the state of a module, which every torch takes.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator
from typing import Final

from abiscan.python.changed_defaults import LOAD, leaves_out
from abiscan.python.late_bodies import walk_with
from abiscan.python.library import PythonCode
from abiscan.python.model import PythonLine
from abiscan.python.nodes import child_nodes, walk
from abiscan.python.sources import is_for_users
from abiscan.python.torch_names import TorchNames
from abiscan.regex import regex

_OF_OBJECTS: Final = regex(
    r"(model_|train(ing)?_)?(args|cfg|conf|config|opt|options)|h(yper_?)?param(eter)?s|\w*(vocab|tokenizer|transform)\w*"
    r"|(replay_)?buffer|attr_dict|attributes"
)
"""The keys under which checkpoints keep objects of classes beside their tensors."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_MOST_LOADS: Final = 20
_MOST_PARTS: Final = 20_000
"""How many calls of a function are looked at, and how many parts it may have."""
_MOST_NAMES_BETWEEN: Final = 8
"""How many names what is loaded may go through before it is asked for something."""


def refuses_objects(names: TorchNames) -> bool:
    """Whether the default of a torch refuses objects in files."""
    return names.has(*LOAD.sign) is True


def open_loads(code: PythonCode) -> Iterator[PythonLine]:
    """Yield where code loads files by the default, and takes objects from them."""
    files = [file for file in code.files_using(LOAD.function) if is_for_users(file)]
    if not files or any(word in code.source(file) for file in code.sources for word in LOAD.handled):
        return
    for file in files:
        tree = code.tree(file)
        yield from (PythonLine(file=file, line=load.lineno) for load in _loads_of_objects(tree)) if tree else ()


def _loads_of_objects(tree: ast.Module) -> Iterator[ast.Call]:
    names = _names_of(tree)
    words = {name.rpartition(".")[2].encode() for name in names}
    for body in (tree, *(node for node in walk_with(tree, words) if isinstance(node, _FUNCTIONS))):
        parts = list(itertools.islice(_own_parts(body), _MOST_PARTS))
        calls = (part for part in parts if isinstance(part, ast.Call) and leaves_out(part, LOAD))
        loads = itertools.islice((call for call in calls if _name_of(call.func) in names), _MOST_LOADS)
        yield from (load for load in loads if _keeps_objects(load, parts))


def _name_of(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else None


def _names_of(tree: ast.Module) -> frozenset[str]:
    """Return what a source calls ``torch.load``."""
    names = set[str]()
    for node in walk_with(tree, [b"import"]):
        if isinstance(node, ast.Import):
            names.update(f"{alias.asname or alias.name}.load" for alias in node.names if alias.name == "torch")
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            names.update(alias.asname or alias.name for alias in node.names if alias.name == "load")
    return frozenset(names)


def _own_parts(body: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a module or function, without those of the functions inside of it."""
    waiting = list(child_nodes(body))
    while waiting:
        part = waiting.pop()
        yield part
        waiting += () if isinstance(part, _FUNCTIONS) else child_nodes(part)


def _keeps_objects(load: ast.Call, parts: Collection[ast.AST]) -> bool:
    """Whether what a file is asked for is an object of some class, going by its key."""
    # What it is bound to, and what is made of that in turn.
    names = set[str]()
    for _ in range(_MOST_NAMES_BETWEEN):
        for part in parts:
            if isinstance(part, ast.Assign) and _mentions(part.value, load, names):
                names.update(node.id for target in part.targets for node in walk(target) if isinstance(node, ast.Name))
    keys = (
        part.slice if isinstance(part, ast.Subscript) else part.args[0]
        for part in parts
        if (isinstance(part, ast.Subscript) and _mentions(part.value, load, names))
        or (isinstance(part, ast.Call) and part.args and _mentions(part.func, load, names))
    )
    texts = (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
    return any(map(_OF_OBJECTS.fullmatch, texts))


def _mentions(expression: ast.expr, load: ast.Call, names: Collection[str]) -> bool:
    return any(node is load or (isinstance(node, ast.Name) and node.id in names) for node in walk(expression))
