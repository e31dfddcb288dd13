"""Files that code loads with ``torch.load`` and leaves it to torch what they may hold: since 2.6.0, tensors and plain
values alone.

What is in a file is not known. But code that takes a configuration or a vocabulary from it shows that it is more than
the state of a module, which every torch takes; so does code that saves something else in the same place.
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
from abiscan.python.written import write_expression
from abiscan.regex import regex

_OF_OBJECTS: Final = regex(
    r"(model_|train(ing)?_)?(args|cfg|conf|config|opt|options)|h(yper_?)?param(eter)?s|\w*(vocab|tokenizer|transform)\w*"
    r"|(replay_)?buffer|attr_dict|attributes"
)
"""The keys under which checkpoints keep objects of classes beside their tensors."""
_OF_STATE: Final = regex(r"(?i)state|dict|weight|param|tensor|emb|checkpoint|ckpt|feat|logit|label|mask|idx|indic")
"""Words of what is saved that is made of tensors."""
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
    names, saves = _names_of(tree, "load"), _names_of(tree, "save")
    words = {name.rpartition(".")[2].encode() for name in names}
    saved = _saved_objects(tree, saves)
    for body in (tree, *(node for node in walk_with(tree, words) if isinstance(node, _FUNCTIONS))):
        parts = list(itertools.islice(_own_parts(body), _MOST_PARTS))
        calls = (part for part in parts if isinstance(part, ast.Call) and leaves_out(part, LOAD))
        loads = itertools.islice((call for call in calls if _name_of(call.func) in names), _MOST_LOADS)
        for load in loads:
            is_of_objects = saved and load.args and write_expression(load.args[0]) in saved
            if (is_of_objects and not _loads_state(load, parts)) or _keeps_objects(load, parts):
                yield load


def _saved_objects(tree: ast.Module, saves: Collection[str]) -> frozenset[str]:
    """Return where a source saves what may be more than tensors, by the text of the path."""
    paths = set[str]()
    for node in walk_with(tree, [b"save"]) if saves else ():
        if isinstance(node, ast.Call) and _name_of(node.func) in saves and len(node.args) > 1:
            path = node.args[1]
            # A name alone says nothing: in another function, it stands for another path.
            if not isinstance(path, ast.Name) and not _is_state(node.args[0]):
                paths.add(write_expression(path))
    return frozenset(paths)


def _is_state(value: ast.expr) -> bool:
    """Whether what is saved seems to be the state of a module, or tensors in plain containers, going by its words."""
    names = (getattr(part, "attr", getattr(part, "id", "")) for part in walk(value))
    return isinstance(value, (ast.Dict, ast.DictComp)) or any(map(_OF_STATE.search, names))


def _loads_state(load: ast.Call, parts: Collection[ast.AST]) -> bool:
    """Whether what is loaded is used as the state of a module, or as a dictionary with keys of its own."""
    bound = [part for part in parts if isinstance(part, ast.Assign) and _mentions(part.value, load, ())]
    targets = (node for part in bound for target in part.targets for node in walk(target))
    names = {node.id for node in targets if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    used = (
        (part.value if isinstance(part.slice, ast.Constant) and isinstance(part.slice.value, str) else None)
        if isinstance(part, ast.Subscript)
        else (part if isinstance(part, ast.Call) and "state" in write_expression(part.func) else None)
        for part in parts
    )
    return any(map(_OF_STATE.search, names)) or any(part is not None and _mentions(part, load, names) for part in used)


def _name_of(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else None


def _names_of(tree: ast.Module, function: str) -> frozenset[str]:
    """Return what a source calls a function of ``torch``."""
    names = set[str]()
    for node in walk_with(tree, [b"import"]):
        if isinstance(node, ast.Import):
            names.update(f"{alias.asname or alias.name}.{function}" for alias in node.names if alias.name == "torch")
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            names.update(alias.asname or alias.name for alias in node.names if alias.name == function)
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
