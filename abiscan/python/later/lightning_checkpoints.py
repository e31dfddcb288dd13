"""What checkpoints of Lightning keep beside tensors: the hyperparameters of a module, as it got them.

``save_hyperparameters(config)`` keeps a configuration of OmegaConf as it is, and the items of any other; without
arguments, it keeps those of the constructor, whatever they are (lightning/pytorch/core/mixins/hparams_mixin.py,
``_dump_checkpoint``). Since 2.6.0, the default of ``torch.load`` refuses their classes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from abiscan.python.language.late_bodies import walk_with
from abiscan.python.language.nodes import walk
from abiscan.python.package.library import PythonCode
from abiscan.regex import regex

_SAVING: Final = b".save_hyperparameters("
_SAVES: Final = regex(rb"\.save_hyperparameters\(")
_OMEGACONF: Final = b"omegaconf"
_CONFIGURATION: Final = regex(r"(model_|train(ing)?_)?(args|cfg|conf|config|opt|options)")
_PLAIN: Final = frozenset({"Any", "Dict", "Mapping", "bool", "dict", "float", "int", "str"})
"""What annotations have of parameters that need not be objects of other classes."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def keeps_configurations(code: PythonCode) -> bool:
    """Whether a module of the package keeps a configuration in its checkpoints that is an object of some class."""
    is_of_omegaconf = bool(code.sources_with(_OMEGACONF))
    for file in filter(code.is_for_users, code.sources_with(_SAVING)):
        tree = code.tree(file)
        for function in walk_with(tree, _SAVES) if tree else ():
            if not isinstance(function, _FUNCTIONS):
                continue
            calls = filter(_is_saving, walk(function))
            kept = (name for call in calls for name in _kept_by(call, function, is_of_omegaconf=is_of_omegaconf))
            if any(map(_CONFIGURATION.fullmatch, kept)):
                return True
    return False


def _is_saving(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "save_hyperparameters"


def _kept_by(
    call: ast.AST, function: ast.FunctionDef | ast.AsyncFunctionDef, *, is_of_omegaconf: bool
) -> Iterator[str]:
    """Yield the names of what a call keeps as an object."""
    match call:
        case ast.Call(args=[]):
            left_out = {part.value for word in call.keywords for part in walk(word) if isinstance(part, ast.Constant)}
            for parameter in (*function.args.args, *function.args.kwonlyargs):
                words = {getattr(part, "id", "") for part in walk(parameter)}
                if parameter.arg not in left_out and _PLAIN.isdisjoint(words):
                    yield parameter.arg
        case ast.Call(args=[ast.Name(id=name)]) if is_of_omegaconf:
            yield name
