"""Optimizers that code makes anew, or describes, by the defaults of another one: ``cls(params, **optimizer.defaults)``.

Since 2.7.0, ``AdamW`` is an ``Adam`` whose defaults have a keyword that its own constructor does not take
(torch/optim/adamw.py): it is the only one of torch that cannot be made so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from abiscan.python.library import PythonCode
from abiscan.python.mentions import LaterUse
from abiscan.python.nodes import walk
from abiscan.python.refusals import PassedArguments, refusal
from abiscan.python.sources import is_for_users
from abiscan.python.torch_names import TorchNames

_CLASS: Final = "torch.optim.AdamW"
_BASE: Final = "torch.optim.Adam"
_KEYWORD: Final = "decoupled_weight_decay"
_TEXT: Final = b".defaults"
_PLACES = (ast.Call, ast.For)
_PUTTING: Final = frozenset({"setdefault", "update"})


def passed_defaults(code: PythonCode, names: TorchNames) -> Iterator[LaterUse]:
    """Yield where the defaults of an optimizer become keywords, which ``AdamW`` of this torch refuses."""
    callee, base = names.callee(_CLASS), names.callee(_BASE)
    if callee is None or base is None or _KEYWORD not in base.signature.keywords:
        return
    arguments = PassedArguments(keywords=(_KEYWORD,), takes_more=True)
    error = refusal(callee.name, callee.signature, arguments)
    # Who takes it out again has its name as a text.
    if error is None or any(_KEYWORD.encode() in code.source(file) for file in code.sources):
        return
    for file in filter(is_for_users, code.sources):
        tree = code.tree(file) if _TEXT in code.source(file) else None
        nodes = walk(tree) if tree else ()
        for line in sorted({node.lineno for node in nodes if isinstance(node, _PLACES) and _passes_defaults(node)}):
            yield LaterUse(
                name=_CLASS,
                error=error,
                file=file,
                line=line,
                function="",
                how="call",
                arguments=arguments,
                doubtful=True,
            )


def _passes_defaults(node: ast.Call | ast.For) -> bool:
    if isinstance(node, ast.Call):
        keywords = (keyword.value for keyword in node.keywords if keyword.arg is None)
        puts = getattr(node.func, "attr", "") == "update"
        return any(map(_is_defaults, (*keywords, *(node.args if puts else ()))))
    if isinstance(node.iter, ast.Call):
        is_items = getattr(node.iter.func, "attr", "") == "items" and _is_defaults(
            getattr(node.iter.func, "value", None)
        )
        return is_items and any(map(_puts, walk(node)))
    return False


def _puts(node: ast.AST) -> bool:
    """Whether a part of a loop puts a pair into a dictionary."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", "") in _PUTTING
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)


def _is_defaults(node: ast.AST | None) -> bool:
    """Whether an expression is the defaults of an optimizer, by its name."""
    if not (isinstance(node, ast.Attribute) and node.attr == "defaults"):
        return False
    owner = getattr(node.value, "id", getattr(node.value, "attr", ""))
    return "optim" in owner.lower() or owner == "opt"
