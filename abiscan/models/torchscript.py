"""The calls of operators in TorchScript's code, as torch prints it (``torch/csrc/jit/serialization/python_print.cpp``).

The code looks like Python, and nearly all of it parses as Python. What does not is searched for names of operators, and
the arguments of these are then not known.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Final

from abiscan.models.model import OperatorCall
from abiscan.models.opcodes import Pairs
from abiscan.python.language.grammar import parse_natively
from abiscan.regex import regex

_STRING: Final = regex(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
_CALL: Final = regex(r"(?<![\w.])(?:torch\.(?P<aten>\w+)|ops\.(?P<namespace>\w+)\.(?P<name>\w+))\(")
_CLASS: Final = regex(r"__torch__\.torch\.classes\.(\w+)\.(\w+)")
_MOBILE_OPERATORS: Final = "operators"


def calls_in(source: str, path: str) -> tuple[list[OperatorCall], bool]:
    """Return the calls of operators in a file, and whether it parses, so that their arguments are known."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in strings
            # Where TorchScript's syntax is not Python's, the file is searched as text instead.
            tree = parse_natively(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(_search_calls(source, path)), False
    return [call for node in ast.walk(tree) if isinstance(node, ast.Call) and (call := _read_call(node, path))], True


def classes_in(source: str) -> Iterator[str]:
    """Return the custom classes that a file names: ``torchvision.Video``."""
    return (f"{match[1]}.{match[2]}" for match in _CLASS.finditer(_STRING.sub('""', source)))


def _read_call(node: ast.Call, path: str) -> OperatorCall | None:
    operator = _find_operator(node.func)
    if operator is None:
        return None
    # The length of what a star unpacks is only known when the code runs.
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    return OperatorCall(
        operator=operator,
        overload=None,
        positional=None if starred else len(node.args),
        names=tuple(keyword.arg for keyword in node.keywords if keyword.arg),
        at=f"{path}:{node.lineno}",
    )


def _find_operator(node: ast.expr) -> str | None:
    """Return the operator that ``torch.name`` or ``ops.namespace.name`` stands for; None if it is neither."""
    match node:
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return f"aten::{name}"
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="ops"), attr=namespace), attr=name):
            return f"{namespace}::{name}"
    return None


def _search_calls(source: str, path: str) -> Iterator[OperatorCall]:
    # A string may say anything, also what looks like a call.
    text = _STRING.sub('""', source)
    for match in _CALL.finditer(text):
        yield OperatorCall(operator=_name_operator(match), overload=None, positional=None, at=path)


def _name_operator(match: re.Match[str]) -> str:
    return f"aten::{match['aten']}" if match["aten"] else f"{match['namespace']}::{match['name']}"


def mobile_calls(value: object, path: str) -> Iterator[OperatorCall]:
    """Yield the operators in the bytecode of a mobile model: triples of a name, an overload and a number of arguments.

    :param value: what ``bytecode.pkl`` builds
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        # The tables of a function are pairs of a name and a tuple (torch/csrc/jit/serialization/export_module.cpp).
        if isinstance(item, tuple) and len(item) == 2 and item[0] == _MOBILE_OPERATORS and isinstance(item[1], tuple):
            for entry in item[1]:
                if isinstance(entry, tuple) and len(entry) in (2, 3) and all(isinstance(x, str) for x in entry[:2]):
                    # The number counts arguments with names, too.
                    yield OperatorCall(operator=entry[0], overload=entry[1], positional=None, at=path)
        elif isinstance(item, tuple | list) and not isinstance(item, Pairs):
            waiting += item
