"""Expressions as text: as ``ast.unparse`` writes them, but alike on every Python."""

from __future__ import annotations

import ast
import copy
import sys
from typing import Final

from abiscan.python.language.nodes import TemplateStr, walk
from abiscan.regex import regex

_HEXVERSION: Final = "hexversion"
_QUOTES: Final = ("'", '"', '"""', "'''")
_TUPLE: Final = regex(r"\bfor \(([^()]*(?:\([^()]*\)[^()]*)*)\) in\b")


def write_expression(node: ast.AST) -> str:
    """Return the text of an expression or statement."""
    # Which quotes an f-string gets depends on the Python: from 3.12 on, those inside may be the same.
    if any(isinstance(inner, (ast.JoinedStr, TemplateStr)) or _is_hexversion(inner) for inner in walk(node)):
        node = _Texts().visit(copy.deepcopy(node))
    text = ast.unparse(node)
    if sys.version_info < (3, 11):  # which puts a space before the colon, and parentheses around names
        text = _TUPLE.sub(r"for \1 in", text.replace("lambda :", "lambda:"))
    return text


def _is_hexversion(node: ast.AST) -> bool:
    return _HEXVERSION in (getattr(node, "attr", None), getattr(node, "id", None))


class _Texts(ast.NodeTransformer):
    """Puts names with the text of f-strings, and of the numbers of Pythons, in their places: names are written as they
    are.
    """

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = [node.left, *node.comparators]
        if any(map(_is_hexversion, sides)):
            node.left, *node.comparators = map(_in_digits, sides)
        return self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Name(_quote("f", _write_parts(node.values)), ast.Load())

    def visit_TemplateStr(self, node: ast.AST) -> ast.AST:
        values: list[ast.expr] = getattr(node, "values", [])
        return ast.Name(_quote("t", _write_parts(values)), ast.Load())


def _in_digits(side: ast.expr) -> ast.expr:
    """Return a number as PY_VERSION_HEX is written: 0x030b04f0 is Python 3.11.4."""
    if isinstance(side, ast.Constant) and type(side.value) is int:
        return ast.Name(f"0x{side.value:08x}", ast.Load())
    return side


def _quote(prefix: str, text: str) -> str:
    quotes = [quote for quote in _QUOTES if quote not in text] or ["'''"]
    quote = min(quotes, key=lambda quote: quote[0] == text[-1:])
    return f"{prefix}{quote}{text}{quote}"


def _write_parts(values: list[ast.expr]) -> str:
    parts = []
    for value in values:
        if isinstance(value, ast.Constant):
            text = str(value.value).replace("{", "{{").replace("}", "}}")
            parts.append("".join(map(_escape, text)))
        else:
            parts.append(_write_field(value))
    return "".join(parts)


def _write_field(node: ast.AST) -> str:
    value: ast.expr = getattr(node, "value")  # noqa: B009 - of a FormattedValue or an Interpolation
    text = write_expression(value)
    if isinstance(value, (ast.IfExp, ast.Lambda)):
        text = f"({text})"
    conversion = getattr(node, "conversion", -1)
    spec = getattr(node, "format_spec", None)
    return "".join((
        "{ " if text.startswith("{") else "{",
        text,
        f"!{chr(conversion)}" if conversion >= 0 else "",
        "" if spec is None else ":" + _write_parts(spec.values),
        "}",
    ))  # fmt: skip


def _escape(character: str) -> str:
    if character == "\\" or not character.isprintable():
        return character.encode("unicode_escape").decode("ascii")
    return character
