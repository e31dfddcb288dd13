"""Learning rates that are numbers of numpy: ``LambdaLR(optimizer, lambda step: numpy.exp(-step))``.

The rate is the product of a number and of what the function returns (torch/optim/lr_scheduler.py, ``LambdaLR.get_lr``).
It is in the state of the scheduler and in that of the optimizer, and ``torch.load`` refuses it by its default since
2.6.0.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from abiscan.python.language.late_bodies import statements_with, walk_with
from abiscan.python.language.nodes import dotted_name, walk
from abiscan.python.package.library import PythonCode
from abiscan.regex import regex

_SIGN: Final = b"LambdaLR("
_MAKING: Final = regex(rb"LambdaLR\(")
_IMPORTING: Final = regex(rb"import")
_NUMPY: Final = b"numpy"
_PLAIN: Final = frozenset({"float", "int"})
_PLAIN_METHODS: Final = frozenset({"item", "tolist"})
_FUNCTIONS = (ast.FunctionDef, ast.Lambda)


def sets_numpy_rates(code: PythonCode) -> bool:
    """Whether a package makes a scheduler with a function that returns a number of numpy."""
    for file in filter(code.is_for_users, code.sources_with(_SIGN)):
        tree = code.tree(file) if code.searcher(file)(_NUMPY) else None
        if tree is None:
            continue
        imports = [node for node in statements_with(tree, _IMPORTING) if isinstance(node, ast.Import)]
        numpy = {alias.asname or alias.name for node in imports for alias in node.names if alias.name == "numpy"}
        nodes = list(walk_with(tree, _MAKING))
        functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
        for given in (passed for node in nodes for passed in _functions_in(node)):
            function = functions.get(given.id) if isinstance(given, ast.Name) else given
            if isinstance(function, _FUNCTIONS) and _returns_numpy(function, numpy):
                return True
    return False


def _functions_in(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what is passed for ``lr_lambda``."""
    if isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] == "LambdaLR":
        yield from node.args[1:2]
        yield from (word.value for word in node.keywords if word.arg == "lr_lambda")


def _results_of(function: ast.FunctionDef | ast.Lambda) -> Iterator[ast.expr]:
    if isinstance(function, ast.Lambda):
        yield function.body
    else:
        yield from (part.value for part in walk(function) if isinstance(part, ast.Return) and part.value)


def _returns_numpy(function: ast.FunctionDef | ast.Lambda, numpy: set[str]) -> bool:
    return any(_is_of_numpy(result, function, numpy) for result in _results_of(function))


def _is_of_numpy(result: ast.expr, function: ast.FunctionDef | ast.Lambda, numpy: set[str]) -> bool:
    """Whether a result is computed by a function of numpy, there or in an assignment of the function."""
    names = {part.id for part in walk(result) if isinstance(part, ast.Name)}
    bound = [
        part.value
        for part in walk(function)
        if isinstance(part, ast.Assign) and any(getattr(target, "id", None) in names for target in part.targets)
    ]
    return any(_calls_numpy(value, numpy) for value in (result, *bound)) and not _is_plain(result)


def _calls_numpy(node: ast.expr, numpy: set[str]) -> bool:
    if _is_plain(node):
        return False
    called = (part.func for part in walk(node) if isinstance(part, ast.Call))
    return any(dotted_name(function).partition(".")[0] in numpy for function in called)


def _is_plain(node: ast.expr) -> bool:
    """Whether a value is certainly a number of Python."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "id", "") in _PLAIN or getattr(function, "attr", "") in _PLAIN_METHODS
