"""Files that code loads with ``torch.load`` and leaves it to torch what they may hold: since 2.6.0, tensors and plain
values alone.

What is in a file is not known. But code that takes a configuration or a vocabulary from it shows that it is more than
the state of a module, which every torch takes; so does code that saves something else in the same place, or under the
keys that it asks for. A package that says in other places what files may hold knows that it matters: where it does not
say so, and hands on what it loaded as a whole, that may be anything, too.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

from abiscan.python.language.late_bodies import statements_with, walk_with
from abiscan.python.language.nodes import child_nodes, walk
from abiscan.python.language.written import write_expression
from abiscan.python.later.kept_values import kept_and_asked
from abiscan.python.later.lightning_checkpoints import keeps_configurations
from abiscan.python.later.numpy_rates import sets_numpy_rates
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import PythonLine
from abiscan.python.torch_api.changed_defaults import LOAD, leaves_out
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.regex import regex

_IMPORTING: Final = regex(rb"import")
_SAID: Final = regex(rb"\bweights_only\s*=\s*(True|False)\b")
_OF_CHECKPOINTS: Final = regex(rb"(?i)checkpoint|ckpt|state|save|loaded")
"""What is in the text of functions that make, or read, a checkpoint."""
_OF_OBJECTS: Final = regex(
    r"(model_|train(ing)?_)?(args|cfg|conf|config|opt|options)|h(yper_?)?param(eter)?s|\w*(vocab|tokenizer|transform)\w*"
    r"|(replay_)?buffer|attr_dict|attributes"
)
"""The keys under which checkpoints keep objects of classes beside their tensors."""
_OF_RATES: Final = regex(r"(lr_?)?(optim(izer)?|sched(uler)?)s?(_state)?s?(_dict)?")
"""The keys under which checkpoints keep the states of optimizers and schedulers."""
_OF_STATE: Final = regex(
    r"(?i)state|dict|weight|param|tensor|variable|counter|size|emb|checkpoint|ckpt|feat|logit|label|mask|idx|indic"
)
"""Words of what is saved that is made of tensors and plain values."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_MOST_LOADS: Final = 20
_MOST_PARTS: Final = 20_000
"""How many calls that load, and that save, a function is looked at for, and how many parts it may have."""
_MOST_NAMES_BETWEEN: Final = 8
"""How many names what is loaded may go through before it is asked for something."""
_MOST_LINKS: Final = 8
"""How far a chain of calls is followed."""
_LONGEST_PLACE: Final = 40
"""Of how many parts the place may be written where a file is."""
_IN_PLACES: Final = (
    ast.Attribute, ast.BinOp, ast.Call, ast.Constant, ast.FormattedValue, ast.JoinedStr, ast.Name, ast.Subscript,
)  # fmt: skip
_Place: TypeAlias = tuple[int, str]
"""The line of the class whose object has a file there, or 0, and the expression."""


def refuses_objects(names: TorchNames) -> bool:
    """Whether the default of a torch refuses objects in files."""
    return names.has(*LOAD.sign) is True


def open_loads(code: PythonCode) -> Iterator[PythonLine]:
    """Yield where code loads files by the default, and takes objects from them."""
    files = [file for file in code.files_using(LOAD.function) if code.is_for_users(file)]
    if not files or any(map(code.sources_with, LOAD.handled)):
        return
    # Who passes it in one place of a module knows it in the others of that.
    said: dict[str, set[bytes]] = {}
    for file in files:
        said.setdefault(file.partition("/")[0], set()).update(match[1] for match in _SAID.finditer(code.source(file)))
    in_lightning, has_rates = (
        functools.cache(functools.partial(ask, code)) for ask in (keeps_configurations, sets_numpy_rates)
    )
    for file in files:
        tree = code.tree(file)
        loads = _loads_of_objects(tree, said[file.partition("/")[0]], in_lightning, has_rates) if tree else ()
        yield from (PythonLine(file=file, line=load.lineno) for load in loads)


def _loads_of_objects(
    tree: ast.Module, said: Collection[bytes], in_lightning: Callable[[], bool], has_rates: Callable[[], bool]
) -> Iterator[ast.Call]:
    """Yield the loads of what may be more than tensors.

    :param said: what the package passes in other places for what files may hold
    :param in_lightning: whether its checkpoints are those of Lightning, with a configuration in them
    :param has_rates: whether its learning rates are numbers of numpy
    """
    names, saves = names_of(tree, "load"), names_of(tree, "save")
    words = {re.escape(name.rpartition(".")[2].encode()) for name in (*names, *saves)}
    nodes = list(walk_with(tree, re.compile(b"|".join(sorted(words)) or b"(?!)")))
    modules = _modules_of(nodes)
    owners = {id(inner): node for node in nodes if isinstance(node, ast.ClassDef) for inner in node.body}
    functions = (node for node in nodes if isinstance(node, _FUNCTIONS))
    bodies = [_Body(node, owners.get(id(node)), modules) for node in (tree, *functions)]
    saved = {
        place
        for body in bodies
        for save in itertools.islice(body.calls(saves), _MOST_LOADS)
        if len(save.args) > 1 and (place := body.place(save.args[1])) and body.is_object(save.args[0])
    }
    open_loads = [
        (body, load)
        for body in bodies
        for load in itertools.islice((load for load in body.calls(names) if leaves_out(load, LOAD)), _MOST_LOADS)
    ]
    keeps_numpy = bool(open_loads) and any(map(_has_calls(saves), nodes)) and _keeps_numpy(tree, saves)
    for body, load in open_loads:
        is_of_objects = bool(saved and load.args) and body.place(load.args[0]) in saved
        if (
            (is_of_objects and not body.loads_state(load))
            or body.keeps_objects(load)
            or (keeps_numpy and not body.is_state(load))
            or (said and body.hands_on(load, is_for_objects=b"False" in said))
            or (body.may_be_checkpoint(load) and in_lightning())
            or (body.loads_rates(load) and has_rates())
        ):
            yield load


def _has_calls(functions: Collection[str]) -> Callable[[ast.AST], bool]:
    return lambda node: isinstance(node, ast.Call) and _name_of(node.func) in functions


def _keeps_numpy(tree: ast.Module, saves: Collection[str]) -> bool:
    """Whether a source asks checkpoints for what it saves in them as values of numpy."""
    imports = [node for node in statements_with(tree, _IMPORTING) if isinstance(node, ast.Import)]
    aliases = [alias for node in imports for alias in node.names]
    numpy = {alias.asname or alias.name for alias in aliases if alias.name == "numpy"}
    return bool(kept_and_asked(list(walk_with(tree, _OF_CHECKPOINTS)), saves, numpy))


class _Body:
    """A module or function, without the functions inside of it.

    :param cls: the class of which it is a method
    :param modules: what the source calls modules that it imports
    """

    def __init__(self, node: ast.AST, cls: ast.ClassDef | None, modules: Collection[str]) -> None:
        self._node, self._cls, self._modules = node, cls, modules
        self._self = _first_parameter(node) if cls else None
        self._parents: dict[ast.AST, ast.AST] = {}
        self._parts: list[ast.AST] = []
        waiting = [node]
        while waiting and len(self._parts) < _MOST_PARTS:
            part = waiting.pop()
            self._parts.append(part)
            if part is node or not isinstance(part, _FUNCTIONS):
                inner = child_nodes(part)
                self._parents.update(dict.fromkeys(inner, part))
                waiting += inner

    def calls(self, names: Collection[str]) -> Iterator[ast.Call]:
        """Yield the calls of some functions."""
        return (part for part in self._parts if isinstance(part, ast.Call) and _name_of(part.func) in names)

    @functools.cached_property
    def _bound(self) -> list[tuple[frozenset[str], ast.expr]]:
        """The names that are bound, with what they are bound to."""
        bound: list[tuple[frozenset[str], ast.expr]] = []
        for part in self._parts:
            if isinstance(part, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and part.value is not None:
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                nodes = (node for target in targets for node in walk(target) if isinstance(node, ast.Name))
                names = frozenset(node.id for node in nodes if isinstance(node.ctx, ast.Store))
                bound += [(names, part.value)] if names else ()
        return bound

    @functools.cached_property
    def _values(self) -> dict[str, list[ast.expr]]:
        values: dict[str, list[ast.expr]] = {}
        for names, value in self._bound:
            for name in names:
                values.setdefault(name, []).append(value)
        return values

    def place(self, path: ast.expr) -> _Place | None:
        """Return where a file is, if that is the same place for all who write it so; None if that is not certain."""
        # A parameter and a name of this function's own stand for another place elsewhere.
        parts = list(itertools.islice(walk(path), _LONGEST_PLACE))
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        is_plain = len(parts) < _LONGEST_PLACE and all(isinstance(part, (*_IN_PLACES, ast.keyword)) for part in parts)
        if not is_plain or isinstance(path, ast.Name) or not names <= {self._self, *self._modules}:
            return None
        try:
            return (self._cls.lineno if self._cls and self._self in names else 0), write_expression(path)
        except ValueError:  # a number of more digits than Python writes
            return None

    def is_object(self, value: ast.expr) -> bool:
        """Whether what is saved seems to be, or to hold, an object of some class: this one, one that is made here, or
        what a method of this one makes.
        """
        waiting, seen = [value], set[ast.AST]()
        while waiting and len(seen) < _LONGEST_PLACE:
            node = waiting.pop()
            if node in seen or _is_state(node):
                continue
            seen.add(node)
            if isinstance(node, (ast.Tuple, ast.List)):
                waiting += node.elts
            elif isinstance(node, ast.ListComp):
                waiting.append(node.elt)
            elif isinstance(node, ast.Call) and self._makes_object(node.func):
                return True
            elif isinstance(node, ast.Name):
                if node.id == self._self:
                    return True
                waiting += self._values.get(node.id, ())
        return False

    def _makes_object(self, function: ast.expr) -> bool:
        owner, _, name = (_name_of(function) or "").rpartition(".")
        is_method = self._self is not None and owner == self._self
        return is_method or (name[:1].isupper() and owner != "torch")

    def loads_state(self, load: ast.Call) -> bool:
        """Whether what is loaded is used as the state of a module, or as a dictionary with keys of its own."""
        around = self._around(load, ())
        names = {name for bound, value in self._bound if value in around for name in bound}
        if any(map(_OF_STATE.search, names)):
            return True
        around = self._around(load, names)
        return any(
            part.value in around and isinstance(part.slice, ast.Constant) and isinstance(part.slice.value, str)
            if isinstance(part, ast.Subscript)
            else isinstance(part, ast.Call) and part in around and _is_for_state(part.func)
            for part in self._parts
        )

    def is_state(self, load: ast.Call) -> bool:
        """Whether what is loaded is certainly a state: it is passed to another object's ``load_state_dict``, and asked
        for no key here.
        """
        names = {name for bound, value in self._bound if value is load for name in bound}
        users = [
            (self._parents.get(part), part)
            for part in self._parts
            if part is load or (isinstance(part, ast.Name) and part.id in names)
        ]
        return any(map(self._takes_state, (user for user, _ in users))) and not any(
            (isinstance(user, ast.Subscript) and user.value is part and isinstance(user.ctx, ast.Load))
            or isinstance(user, ast.Attribute)
            for user, part in users
        )

    def _takes_state(self, call: ast.AST | None) -> bool:
        # A method of this class may ask for the keys itself.
        function = getattr(call, "func", None)
        owner = getattr(function, "value", None)
        is_own = isinstance(owner, ast.Name) and owner.id == self._self
        return not is_own and "state_dict" in getattr(function, "attr", "")

    def hands_on(self, load: ast.Call, *, is_for_objects: bool) -> bool:
        """Whether what is loaded is only returned as a whole, or passed to a method or function of a module, which is
        not for states.

        :param is_for_objects: whether the package loads objects in other places, so that names say little
        """
        outer = self._parents.get(load)
        names = {name for bound, value in self._bound if value is load for name in bound}
        if isinstance(outer, ast.Return):
            return is_for_objects or not _OF_STATE.search(getattr(self._node, "name", ""))
        if not isinstance(outer, ast.Assign) or len(names) != 1:
            return False
        uses = [part for part in self._parts if isinstance(part, ast.Name) and part.id in names]
        reads = [part for part in uses if isinstance(part.ctx, ast.Load)]
        return bool(reads) and len(uses) == len(reads) + 1 and all(map(self._is_passed_whole, reads))

    def _is_passed_whole(self, part: ast.AST) -> bool:
        """Whether an object is returned, or an argument of a function of a class that is not for states."""
        user = self._parents.get(part)
        if isinstance(user, ast.keyword):
            if user.arg is None or user.arg.endswith(("state", "state_dict", "weights")):
                return False
            user = self._parents.get(user)
        if isinstance(user, ast.Call):
            return not _is_for_state(user.func) and (_name_of(user.func) or "")[:1].isupper()
        return isinstance(user, ast.Return)

    def keeps_objects(self, load: ast.Call) -> bool:
        """Whether what a file is asked for is an object of some class, going by its key."""
        return any(map(_OF_OBJECTS.fullmatch, self._asked_keys(load)))

    def may_be_checkpoint(self, load: ast.Call) -> bool:
        """Whether what is loaded is asked for the key under which Lightning keeps a state, or is handed on."""
        return "state_dict" in self._asked_keys(load) or self.hands_on(load, is_for_objects=True)

    def loads_rates(self, load: ast.Call) -> bool:
        """Whether what is loaded is asked for the state of an optimizer or a scheduler."""
        return any(map(_OF_RATES.fullmatch, self._asked_keys(load)))

    def _asked_keys(self, load: ast.Call) -> list[str]:
        """Return the keys that a file is asked for."""
        # What it is bound to, and what is made of that in turn.
        names = set[str]()
        around = self._around(load, names)
        for _ in range(_MOST_NAMES_BETWEEN):
            more = {name for bound, value in self._bound if value in around for name in bound}
            if more <= names:
                break
            names |= more
            around = self._around(load, names)
        keys = (
            part.slice if isinstance(part, ast.Subscript) else part.args[0]
            for part in self._parts
            if (isinstance(part, ast.Subscript) and part.value in around)
            or (isinstance(part, ast.Call) and part.args and part.func in around)
        )
        return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]

    def _around(self, load: ast.Call, names: Collection[str]) -> set[ast.AST]:
        """Return all parts in which a load is, or one of some names."""
        around = set[ast.AST]()
        for part in self._parts:
            if part is load or (isinstance(part, ast.Name) and part.id in names):
                outer: ast.AST | None = part
                while outer is not None and outer not in around:
                    around.add(outer)
                    outer = self._parents.get(outer)
        return around


def _first_parameter(function: ast.AST) -> str | None:
    """Return what a method calls its object, or its class."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    is_static = any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in function.decorator_list)
    parameters = [*function.args.posonlyargs, *function.args.args]
    return parameters[0].arg if parameters and not is_static else None


def _is_state(value: ast.AST) -> bool:
    """Whether what is saved seems to be the state of a module, or tensors in plain containers, going by its words."""
    names = (getattr(part, "attr", getattr(part, "id", "")) for part in walk(value))
    return isinstance(value, (ast.Dict, ast.DictComp)) or any(map(_OF_STATE.search, names))


def _is_for_state(function: ast.expr) -> bool:
    """Whether a function is called, or one before it in a chain of calls, that has to do with a state by its name."""
    node: ast.AST | None = function
    for _ in range(_MOST_LINKS):
        if "state" in getattr(node, "attr", getattr(node, "id", "")):
            return True
        node = getattr(node, "func", getattr(node, "value", None))
    return False


def _modules_of(nodes: Collection[ast.AST]) -> frozenset[str]:
    """Return what a source calls modules that it imports."""
    aliases = (alias for node in nodes if isinstance(node, ast.Import) for alias in node.names)
    return frozenset(alias.asname or alias.name.partition(".")[0] for alias in aliases)


def _name_of(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else None


def names_of(tree: ast.Module, function: str) -> frozenset[str]:
    """Return what a source calls a function of ``torch``."""
    names = set[str]()
    for node in statements_with(tree, _IMPORTING):
        if isinstance(node, ast.Import):
            names.update(f"{alias.asname or alias.name}.{function}" for alias in node.names if alias.name == "torch")
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            names.update(alias.asname or alias.name for alias in node.names if alias.name == function)
    return frozenset(names)
