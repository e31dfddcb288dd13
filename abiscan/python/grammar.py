"""Python sources by the grammar of the Python that they are for, whichever Python runs abiscan.

What the running Python can parse, it parses; what it is too old for, ``newer_syntax`` does. What the target's Python is
too old for is found by the text of the source, and by its tree where that Python is older than all those that abiscan
runs on.
"""

from __future__ import annotations

import ast
import posixpath
import sys
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from abiscan.python.nodes import walk
from abiscan.regex import regex

NEWEST: Final = (3, 14)
"""The newest Python whose grammar is known here."""
OLDEST: Final = (3, 10)
"""The oldest Python that abiscan runs on: all newer ones accept what it accepts."""
FAILURES: Final = (SyntaxError, ValueError, RecursionError, MemoryError, LookupError)
"""What ``parse`` raises: besides SyntaxError, for null bytes, for what is nested too deep, and for encodings."""

# Each pattern begins with the letters or the sign that it is searched for by, at C's speed. It may match what is
# nothing newer: then the tokens tell.
_STATEMENTS: Final = (
    regex(rb"type[ \t]+[^\W\d]\w*[ \t\\\n]*[=\[]"),
    regex(rb"except(?:[ \t]*\*|[ \t][^\n:(#]*,)"),
)
_ANYWHERE: Final = (
    regex(rb"def[ \t]+\w+[ \t]*\["),
    regex(rb"class[ \t]+\w+[ \t]*\["),
    regex(rb"\[(?<=[\w\])\"'}]\[)(?:[^\[\]()\n]*,)?\s*\*"),
    regex(rb"\*\w+[ \t]*:[ \t]*\*"),
    *(
        regex(pattern.replace(b"Q", quote))
        for quote in (b'"', b"'")
        for pattern in (
            rb"Q(?:(?<=[^\w\"'\\.][tT]Q)|(?<=[^\w\"'\\.][tT][rR]Q)|(?<=[^\w\"'\\.][rR][tT]Q))",
            # A field that is not over where the text seems to be, or that has what it could not have.
            rb"Q(?:(?<=[fF]Q)|(?<=[fF][rR]Q))(?:[^Q\n]*\{[^{}Q\n]*[Q\n#\\]|[^Q\n]*![rsa]\s)",
            rb"QQQ(?:(?<=[fF]QQQ)|(?<=[fF][rR]QQQ))(?:[^Q{]|Q(?!QQ)|\{(?:[^{}#\\Q]|Q(?!QQ))*\}|\{\{)*\{",
        )
    ),
)


class Newer(Struct, frozen=True, kw_only=True):
    """Something that older Pythons reject.

    :ivar first: the version that accepts it
    :ivar line: the one that older ones name
    :ivar words: what one of them says, None if that depends on what is around
    """

    first: tuple[int, int]
    line: int
    words: Callable[[tuple[int, int]], str | None]


def parse(source: bytes | str) -> ast.Module:
    """Return the tree of a source by the newest grammar.

    :raises SyntaxError: no Python accepts it; see ``FAILURES`` for the other ones
    """
    try:
        return ast.parse(source)
    except SyntaxError:
        if sys.version_info >= NEWEST:
            raise
        from abiscan.python.newer_syntax import parse_newer  # few sources need it

        tree = parse_newer(source)
        if tree is None:
            raise
        return tree


def find_newer(source: bytes, python: tuple[int, int], tree: Callable[[], ast.AST | None]) -> Newer | None:
    """Return the first thing in a source that is too new for a Python; None if it accepts all.

    :param tree: gives the tree of the source
    """
    if python >= NEWEST:
        return None
    newer: list[Newer] = []
    if _may_have_newer(source):
        from abiscan.python.newer_syntax import newer_parts

        newer += newer_parts(source)
    if python < OLDEST and any(pattern.search(source) for pattern in _FORMS) and (parsed := tree()) is not None:
        newer += _newer_forms(parsed, source)
    return min((part for part in newer if python < part.first), key=lambda part: part.line, default=None)


def _may_have_newer(source: bytes) -> bool:
    return any(pattern.search(source) for pattern in _ANYWHERE) or any(
        _begins_statement(source, match.start()) for pattern in _STATEMENTS for match in pattern.finditer(source)
    )


def _begins_statement(source: bytes, position: int) -> bool:
    before = source[source.rfind(b"\n", 0, position) + 1 : position].rstrip()
    return not before or before.endswith((b";", b":"))


# ---- Pythons older than all that abiscan runs on


_FORMS: Final = (
    regex(rb":="),
    regex(rb"match[ \t(\[{\"'-]"),
    regex(rb"with[ \t]*\("),
    regex(rb"/[ \t]*[,):]"),
    regex(rb"@[\w.]*[^\w.(\s]"),
    regex(rb"@[\w.]+\([^\n]*\)[.\[(]"),
    regex(rb"(?:return|yield|in)[ \t][^\n(]*\*"),
)
"""What a source has to have, for its forms to be looked at."""


def _invalid(_python: tuple[int, int]) -> str:
    return "invalid syntax"


def _newer_forms(tree: ast.AST, source: bytes) -> Iterator[Newer]:
    """Yield what Pythons before 3.10 reject, by its form."""
    lines = source.split(b"\n")
    for node in walk(tree):
        first = _first_python(node, lines)
        if first is not None:
            yield Newer(first=first, line=getattr(node, "lineno", 1), words=_invalid)


def _first_python(node: ast.AST, lines: list[bytes]) -> tuple[int, int] | None:
    if isinstance(node, ast.Match):
        return 3, 10
    if isinstance(node, (ast.With, ast.AsyncWith)):
        header = b"\n".join(lines[node.lineno - 1 : node.body[0].lineno])[node.col_offset :]
        is_named = any(item.optional_vars is not None for item in node.items)
        return (3, 9) if is_named and _PARENTHESISED.match(header) and _closes_last(node, lines) else None
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        decorators = [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]
        if not all(map(_is_dotted_name, decorators)):
            return 3, 9
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and node.args.posonlyargs:
        return 3, 8
    if isinstance(node, ast.NamedExpr):
        return 3, 8
    if isinstance(node, (ast.Return, ast.Yield, ast.For)):
        value = node.iter if isinstance(node, ast.For) else node.value
        if isinstance(value, ast.Tuple) and any(isinstance(item, ast.Starred) for item in value.elts):
            is_bare = lines[value.lineno - 1][value.col_offset : value.col_offset + 1] != b"("
            return ((3, 9) if isinstance(node, ast.For) else (3, 8)) if is_bare else None
    return None


_PARENTHESISED: Final = regex(rb"(?:async\s+)?with\s*\(")


def _closes_last(node: ast.With | ast.AsyncWith, lines: list[bytes]) -> bool:
    """Whether a parenthesis closes after the last name of a ``with``, so that it is around all of them."""
    last = node.items[-1].optional_vars or node.items[-1].context_expr
    assert last.end_lineno is not None
    after = b"\n".join(lines[last.end_lineno - 1 :])[last.end_col_offset or 0 :].lstrip(b" \t\r\n,")
    return after.startswith(b")")


def _is_dotted_name(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


# ---- what Python says

_SAME_WORDS: Final = regex(
    "invalid syntax|unexpected indent|unexpected unindent|unindent does not match any outer indentation level"
    "|inconsistent use of tabs and spaces in indentation|unmatched '.'|'.' was never closed|expected ':'"
    "|closing parenthesis '.' does not match opening parenthesis '.'(?: on line [0-9]+)?|invalid decimal literal"
    "|expected an indented block after .* on line [0-9]+|expected 'except' or 'finally' block"
    "|unterminated (?:triple-quoted )?string literal \\(detected at line [0-9]+\\)"
    "|Missing parentheses in call to '(?:print|exec)'. Did you mean (?:print|exec)\\(\\.\\.\\.\\)\\?"
    "|unexpected character after line continuation character|positional argument follows keyword argument"
    "|leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers"
    "|invalid (?:non-printable )?character .*"
)
"""What Python 3.10 to 3.14 say of the same sources, but for those with ``_OTHER_WORDS``."""
_OTHER_WORDS: Final = regex(
    # after ``def`` (3.11), a keyword argument without a value (3.12), ``import`` and a star (3.13), a statement or two
    # names in brackets (3.14), or texts with ``f``
    r"\bdef\s+\w+\s*[^\s(\[]|\w\s*=\s*[,)]|\bimport\b\s*(?:[^\w\s*]|$)|\*\s*[,)=]|/\s*\*|\bf[rR]?[\"']|[rR][fF][\"']"
    r"|[(\[{]\s*(?:pass|break|continue|return|raise|del|assert|global|nonlocal|import|from|with|while|try|def|class)\b"
    r"|[(\[{,]\s*\w+\s+\w+\s*[)\]},]"
)


def words_of_newer(newer: Newer, path: str, python: tuple[int, int]) -> str | None:
    """Return what a Python says of a source that it is too old for, None if that is not known."""
    words = newer.words(python)
    return None if words is None else f"{words} ({posixpath.basename(path)}, line {newer.line})"


def words_of(error: Exception, source: bytes, path: str, python: tuple[int, int]) -> str | None:
    """Return what a Python says of a source that none accepts, where that does not depend on its version."""
    if not isinstance(error, SyntaxError) or not error.lineno or not OLDEST <= python <= NEWEST:
        return None
    line = source.decode("utf-8", "replace").split("\n")[error.lineno - 1 :][:1]
    if not _SAME_WORDS.fullmatch(error.msg) or any(map(_OTHER_WORDS.search, line)) or _may_have_newer(source):
        return None
    return f"{error.msg} ({posixpath.basename(path)}, line {error.lineno})"
