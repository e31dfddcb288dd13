"""Optimizers that code makes anew, or describes, by the defaults of another one: ``cls(params, **optimizer.defaults)``.

Since 2.7.0, ``AdamW`` is an ``Adam`` whose defaults have a keyword that its own constructor does not take
(torch/optim/adamw.py): it is the only one of torch that cannot be made so.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Final

from abiscan.python.language.nodes import walk
from abiscan.python.language.refusals import PassedArguments, refusal
from abiscan.python.later.mentions import LaterUse, possible_call
from abiscan.python.package.library import PythonCode
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.regex import regex

_CLASS: Final = "torch.optim.AdamW"
_BASE: Final = "torch.optim.Adam"
_KEYWORD: Final = "decoupled_weight_decay"
_TEXT: Final = b".defaults"
_PLACES = (ast.Call, ast.For)
_PUTTING: Final = frozenset({"setdefault", "update"})
_OF_KEYWORDS: Final = regex(r"(?i)kw|args|arguments")
"""What is in the names of dictionaries that become keywords elsewhere."""


def passed_defaults(code: PythonCode, names: TorchNames) -> Iterator[LaterUse]:
    """Yield where the defaults of an optimizer become keywords, which ``AdamW`` of this torch refuses."""
    callee, base = names.callee(_CLASS), names.callee(_BASE)
    if callee is None or base is None or _KEYWORD not in base.signature.keywords:
        return
    arguments = PassedArguments(keywords=(_KEYWORD,), takes_more=True)
    error = refusal(callee.name, callee.signature, arguments)
    # Who takes it out again has its name as a text.
    if error is None or code.sources_with(_KEYWORD.encode()):
        return
    for file in filter(code.is_for_users, code.sources_with(_TEXT)):
        tree = code.tree(file)
        nodes = list(walk(tree)) if tree else []
        expanded = {_name_of(node.value) for node in nodes if isinstance(node, ast.keyword) and node.arg is None}
        places = (node for node in nodes if isinstance(node, _PLACES))
        for line in sorted({node.lineno for node in places if _passes_defaults(node, expanded)}):
            yield possible_call(_CLASS, error, file, line, arguments)


def _passes_defaults(node: ast.Call | ast.For, expanded: Collection[str]) -> bool:
    """Whether the defaults become keywords.

    :param expanded: the dictionaries that calls in the source expand
    """
    if isinstance(node, ast.Call):
        keywords = (keyword.value for keyword in node.keywords if keyword.arg is None)
        if getattr(node.func, "attr", "") == "update":
            is_passed = any(map(_is_defaults, (*keywords, *node.args)))
            return is_passed and _is_of_keywords(getattr(node.func, "value", None), expanded)
        return _name_of(node.func) != "dict" and any(map(_is_defaults, keywords))
    if isinstance(node.iter, ast.Call):
        is_items = getattr(node.iter.func, "attr", "") == "items" and _is_defaults(
            getattr(node.iter.func, "value", None)
        )
        return is_items and any(_is_of_keywords(_put_into(part), expanded) for part in walk(node))
    return False


def _put_into(node: ast.AST) -> ast.AST | None:
    """Return the dictionary that a part of a loop puts a pair into."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "value", None) if getattr(node.func, "attr", "") in _PUTTING else None
    return node.value if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else None


def _is_of_keywords(dictionary: ast.AST | None, expanded: Collection[str]) -> bool:
    """Whether what is put into a dictionary becomes keywords: others describe groups of parameters, or are logged."""
    name = _name_of(dictionary)
    return _OF_KEYWORDS.search(name) is not None or (bool(name) and name in expanded)


def _name_of(node: ast.AST | None) -> str:
    """Return the last part of a dotted name; nothing for any other expression."""
    return getattr(node, "id", getattr(node, "attr", ""))


def _is_defaults(node: ast.AST | None) -> bool:
    """Whether an expression is the defaults of an optimizer, by its name."""
    if not (isinstance(node, ast.Attribute) and node.attr == "defaults"):
        return False
    owner = _name_of(node.value)
    return "optim" in owner.lower() or owner == "opt"
