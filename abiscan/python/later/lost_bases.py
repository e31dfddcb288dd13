"""Classes of torch that the others of their kind once derived from: where code still asks for their subclasses.

Torch keeps the name for code that derives from it. ``isinstance`` and ``issubclass`` then say no of what torch has.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan.python.language.bound_names import full_name, names_bound_by
from abiscan.python.language.nodes import child_nodes, walk
from abiscan.python.later.version_guards import EXITS, are_guarding, asks_by_words
from abiscan.python.package.library import PythonCode
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.regex import regex


class LostBase(Struct, frozen=True, kw_only=True):
    """One class of torch.

    :ivar module: the module that has it
    :ivar successor: the class of the same module that the others derive from since there is one
    """

    module: str
    name: str
    successor: str

    @property
    def full_name(self) -> str:
        """The name of the class."""
        return f"{self.module}.{self.name}"


# https://github.com/pytorch/pytorch/pull/88503, in 2.0.0: torch/optim/lr_scheduler.py, "Including _LRScheduler for
# backwards compatibility".
_LOST: Final = (LostBase(module="torch.optim.lr_scheduler", name="_LRScheduler", successor="LRScheduler"),)
_ASKING: Final = frozenset({"isinstance", "issubclass"})
_OF_SUBCLASSES: Final = regex(r"(?:sub|super)_?class", re.IGNORECASE)
"""What is in the names of functions, and of parameters, that get a class to look for those that derive from it."""
_CONDITIONS = (ast.If, ast.IfExp, ast.Assert)
_BLOCKS: Final = ("body", "orelse", "finalbody")


class BaseQuestion(Struct, frozen=True, order=True, kw_only=True):
    """Where code asks whether something derives from such a class.

    :ivar name: the class
    :ivar successor: the class to ask for, by its full name
    :ivar no_longer: the classes of torch that no longer derive from it, as far as they are known
    """

    name: str
    file: str
    line: int
    successor: str
    no_longer: tuple[str, ...]


def base_questions(code: PythonCode, names: TorchNames) -> Iterator[BaseQuestion]:
    """Yield where a package asks for a base that the classes of this torch lost, and nowhere for its successor."""
    for lost in _LOST:
        if names.has(lost.module, lost.successor) is not True:
            continue
        files = [file for file in code.files_using(lost.full_name) if code.is_for_users(file)]
        if not files or _is_handled(code, lost):
            continue
        no_longer = tuple(_made_like_it(lost, names))
        for file in files if no_longer else ():
            yield from (
                BaseQuestion(
                    name=lost.full_name,
                    file=file,
                    line=line,
                    successor=f"{lost.module}.{lost.successor}",
                    no_longer=no_longer,
                )
                for line in _lines_asking(code.tree(file), lost)
            )


def _is_handled(code: PythonCode, lost: LostBase) -> bool:
    """Whether a package has the name of the class to ask for, other than in its texts for people."""
    named = re.compile(rb"""[.'"]%b\b""" % lost.successor.encode())
    is_used = f"{lost.module}.{lost.successor}" in code.all_torch_uses
    return is_used or any(named.search(code.source(file)) for file in code.sources)


def _made_like_it(lost: LostBase, names: TorchNames) -> Iterator[str]:
    """Yield the classes next to it that are made with the same first argument as its successor."""
    module = names.source.module(lost.module)
    signatures: Mapping[str, str] = module.signatures if module else {}
    first = signatures.get(f"{lost.successor}.__init__", "").partition(",")[0]
    for function, parameters in sorted(signatures.items()):
        cls, _, method = function.partition(".")
        if method == "__init__" and cls != lost.successor and first and parameters.partition(",")[0] == first:
            yield cls


def _lines_asking(tree: ast.Module | None, lost: LostBase) -> Iterator[int]:
    if tree is None:
        return
    origins = _origins_in(tree)
    for node in _parts_for_any_version(tree):
        if isinstance(node, ast.Call) and any(
            full_name(cls, origins) == lost.full_name for cls in (*_asked_for(node), *_looked_for_below(node))
        ):
            yield node.lineno


def _asked_for(call: ast.Call) -> Sequence[ast.expr]:
    """Return the classes that a call asks for, of an object or of a class."""
    if getattr(call.func, "id", "") not in _ASKING or len(call.args) != 2:
        return ()
    return call.args[1].elts if isinstance(call.args[1], ast.Tuple) else call.args[1:]


def _looked_for_below(call: ast.Call) -> Iterator[ast.expr]:
    """Yield what a call may look for the subclasses of, by its words: ``from_subclasses(A)``, ``f(superclass=A)``."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "__subclasses__" and isinstance(function, ast.Attribute):
        yield function.value
    elif _OF_SUBCLASSES.search(name):
        yield from call.args
    yield from (item.value for item in call.keywords if item.arg and _OF_SUBCLASSES.search(item.arg))


def _parts_for_any_version(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the parts of a source, without what a condition on the version of torch decides about: what stands in it,
    and what follows one that leaves.
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if not _asks_for_version(node):
            yield node
            left = _left_out(node)
            waiting += (part for part in child_nodes(node) if id(part) not in left)


def _left_out(node: ast.AST) -> Collection[int]:
    """Return the statements, by identity, that the blocks of a node may not get to because of the version."""
    blocks = (block for field in _BLOCKS if isinstance(block := getattr(node, field, None), list))
    left: set[int] = set()
    for block in blocks:
        first = next((number for number, statement in enumerate(block) if _leaves(statement)), len(block))
        left.update(map(id, block[first + 1 :]))
    return left


def _leaves(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assert):
        return asks_by_words(statement.test, ())
    if not isinstance(statement, ast.If) or not asks_by_words(statement.test, ()):
        return False
    return any(isinstance(block[-1], EXITS) for block in (statement.body, statement.orelse) if block)


def _asks_for_version(node: ast.AST) -> bool:
    """Whether a condition may depend on the version of torch."""
    tests = node.values if isinstance(node, ast.BoolOp) else [node.test] if isinstance(node, _CONDITIONS) else []
    return are_guarding(tests)


def _origins_in(tree: ast.Module) -> Mapping[str, str | None]:
    """Return what a source imports, by the name that it has there; None for what has other meanings, too."""
    origins: dict[str, str | None] = {}
    for node in walk(tree):
        for name, origin in names_bound_by(node):
            origins[name] = origin if origins.get(name, origin) == origin else None
    return origins
