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

from abiscan.python.language.nodes import dotted_name, walk
from abiscan.python.language.private_names import has_private_names, replace_private_names
from abiscan.python.language.rejections import Newer, invalid_syntax, is_same_word
from abiscan.regex import regex

ANNOTATED_LAZILY: Final = (3, 14)
"""The Python that evaluates annotations only where somebody asks for them (PEP 649)."""
NEWEST: Final = (3, 14)
"""The newest Python whose grammar is known here."""
OLDEST: Final = (3, 10)
"""The oldest Python that abiscan runs on: all newer ones accept what it accepts."""
FAILURES: Final = (SyntaxError, ValueError, RecursionError, MemoryError, LookupError)
"""What ``parse`` raises: besides SyntaxError, for null bytes, for what is nested too deep or too large, and for
encodings."""
LARGEST_SOURCE: Final = 2_000_000
"""The bytes beyond which a source is not parsed: its tree takes more than a hundred times as many."""
_LONG: Final = 4096  # bytes: what is shorter fits into the least stack that abiscan runs with
_STACK: Final = 128
"""More bytes of stack than Python 3.10 needs for each byte of a source."""

# In these three, Q is a quote. A field is odd that is not over where the text seems to be, or has what only newer
# Pythons accept. What most quotes lack is asked first.
_TEMPLATE: Final = (
    rb"Q(?<=[tTrR]Q)(?:(?<=[^\w\"'\\.][tT]Q)|(?<=[^\w\"'\\.][tT][rR]Q)|(?<=[^\w\"'\\.][rR][tT]Q))"
    rb"(?=QQ|[^Q\\\n{]*(?:\\(?s:.)[^Q\\\n{]*)*[Q{])"  # it ends in its line, or has a field
)
_ODD_FIELD: Final = (
    rb"Q(?<=[fFrR]Q)(?:(?<=[fF]Q)|(?<=[fF][rR]Q))[^Q\n]*(?:\n(?<=\\\n)[^Q\n]*)*"
    rb"(?:\{(?:(?<!\{\{)|(?<=\{\{\{))(?!\{)[^{}Q\n]*(?:[Q\n#\\]|\{[^{}Q\n]*\{)|![rsa]\s)"
)
_ODD_FIELD_OF_THREE: Final = (
    rb"Q(?<=[fFrR]Q)QQ(?:(?<=[fF]QQQ)|(?<=[fF][rR]QQQ))(?:[^Q{]|Q(?!QQ)|\{(?:[^{}#\\Q]|Q(?!QQ))*\}|\{\{)*"
    rb"\{(?!\{)(?!(?:[^{}#\\Q]|Q(?!QQ))*\})"
)
# Each pattern begins with the letters or the sign that it is searched for by, at C's speed; a sign is faster. It may
# match what is nothing newer: then the tokens tell. With each, the Python that rejects none of what it finds.
_STATEMENTS: Final = (
    ((3, 13), regex(rb"type[ \t]+[A-Za-z_\x80-\xff][\w\x80-\xff]*[ \t\\\n]*[=\[]")),
    ((3, 14), regex(rb"except(?:[ \t]*\*|[ \t][^\n:(#]*,)")),
)
_ANYWHERE: Final = (
    ((3, 13), regex(rb"def[ \t]+[\w\x80-\xff]+[ \t]*\[")),
    ((3, 13), regex(rb"class[ \t]+[\w\x80-\xff]+[ \t]*\[")),
    ((3, 11), regex(rb"\[(?<=[\w\x80-\xff\])\"'}]\[)(?:[^\[\]()\n]*,)?\s*\*")),
    (
        (3, 11),
        regex(
            rb" \[(?<=[\w\])] \[)(?<!return \[)(?<!in \[)(?<!or \[)(?<!and \[)(?<!else \[)(?<!yield \[)(?<!if \[)\s*\*"
        ),
    ),
    ((3, 11), regex(rb"\*[\w\x80-\xff]+[ \t]*:[ \t]*\*")),
    *(
        (version, regex(pattern.replace(b"Q", quote)))
        for quote in (b'"', b"'")
        for version, pattern in (((3, 14), _TEMPLATE), ((3, 12), _ODD_FIELD), ((3, 12), _ODD_FIELD_OF_THREE))
    ),
)


def parse(source: bytes | str) -> ast.Module:
    """Return the tree of a source by the newest grammar, in which private names have the names of their classes.

    :raises SyntaxError: no Python accepts it; see ``FAILURES`` for the other ones
    :raises MemoryError: it has more than ``LARGEST_SOURCE`` bytes
    """
    if len(source) > LARGEST_SOURCE:
        raise MemoryError(f"{len(source)} bytes are too many to parse")
    tree = _parse(source)
    if has_private_names(source):
        replace_private_names(tree.body, "")
    return tree


def _parse(source: bytes | str) -> ast.Module:
    try:
        return parse_natively(source)
    except SyntaxError:
        if sys.version_info >= NEWEST:
            raise
        from abiscan.python.language.newer_syntax import parse_newer  # few sources need it

        tree = parse_newer(source)
        if tree is None:
            raise
        tree.__dict__["is_newer"] = True
        return tree


def accepts_tree(python: tuple[int, int], tree: ast.Module) -> bool:
    """Whether a Python accepts the source of a tree because the one that runs did, which is no newer."""
    return python >= sys.version_info[:2] and "is_newer" not in tree.__dict__


def parse_natively(source: bytes | str) -> ast.Module:
    """Return the tree of a source by the grammar of the running Python, as ``ast.parse`` does.

    :raises MemoryError: there is no room for a stack that is large enough; see ``FAILURES`` for the other ones
    """
    if sys.version_info < (3, 11) and len(source) >= _LONG:
        return _parse_on_large_stack(source)
    return ast.parse(source)


def _parse_on_large_stack(source: bytes | str) -> ast.Module:
    # Python 3.10 does not count how deep a tree is that it turns into objects (Parser/asdl_c.py): the tree of a sum of
    # 150,000 terms overflows 8 MB of stack. No tree is deeper than its source is long.
    import threading
    from concurrent.futures import ThreadPoolExecutor

    size = threading.stack_size(_STACK * len(source) + (1 << 20))
    try:
        with ThreadPoolExecutor(1) as executor:
            return executor.submit(ast.parse, source).result()
    except RuntimeError as error:  # the thread cannot start
        raise MemoryError(str(error)) from error
    finally:
        threading.stack_size(size)


def find_newer(source: bytes, python: tuple[int, int], tree: Callable[[], ast.AST | None]) -> Newer | None:
    """Return the first thing in a source that is too new for a Python; None if it accepts all.

    :param tree: gives the tree of the source
    """
    if python >= NEWEST:
        return None
    newer: list[Newer] = []
    if _may_have_newer(source, python) and not _accepts_at_once(source, python):
        from abiscan.python.language.newer_syntax import newer_parts

        newer += newer_parts(source)
    if python < OLDEST and any(pattern.search(source) for pattern in _FORMS) and (parsed := tree()) is not None:
        newer += _newer_forms(parsed, source)
    return min((part for part in newer if python < part.first), key=lambda part: part.line, default=None)


def _accepts_at_once(source: bytes, python: tuple[int, int]) -> bool:
    """Whether a Python accepts a source because the one that runs does, which is no newer; that takes no tokens."""
    if python < sys.version_info[:2]:
        return False
    try:
        parse_natively(source)
    except FAILURES:
        return False
    return True


def _may_have_newer(source: bytes, python: tuple[int, int] = OLDEST) -> bool:
    source = b"\n" + source  # some patterns ask what is before
    return any(python < version and pattern.search(source) for version, pattern in _ANYWHERE) or any(
        python < version and _begins_statement(source, match.start())
        for version, pattern in _STATEMENTS
        for match in pattern.finditer(source)
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


def _newer_forms(tree: ast.AST, source: bytes) -> Iterator[Newer]:
    """Yield what Pythons before 3.10 reject, by its form."""
    lines = source.split(b"\n")
    for node in walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            if not dotted_name(decorator.func if isinstance(decorator, ast.Call) else decorator):
                yield Newer(first=(3, 9), line=decorator.lineno, words=invalid_syntax)
        first = _first_python(node, lines)
        if first is not None:
            yield Newer(first=first, line=getattr(node, "lineno", 1), words=invalid_syntax)


def _first_python(node: ast.AST, lines: list[bytes]) -> tuple[int, int] | None:
    if isinstance(node, ast.Match):
        return 3, 10
    if isinstance(node, (ast.With, ast.AsyncWith)):
        header = b"\n".join(lines[node.lineno - 1 : node.body[0].lineno])[node.col_offset :]
        is_named = any(item.optional_vars is not None for item in node.items)
        return (3, 9) if is_named and _PARENTHESISED.match(header) and _closes_last(node, lines) else None
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and node.args.posonlyargs:
        return 3, 8
    if isinstance(node, ast.NamedExpr):
        return 3, 8
    if isinstance(node, ast.Subscript) and _is_bare_walrus(node.slice, lines):
        return 3, 10
    if isinstance(node, ast.Set) and any(_is_bare_walrus(item, lines) for item in node.elts):
        return 3, 9
    if isinstance(node, (ast.Return, ast.Yield, ast.For)):
        value = node.iter if isinstance(node, ast.For) else node.value
        if isinstance(value, ast.Tuple) and any(isinstance(item, ast.Starred) for item in value.elts):
            is_bare = lines[value.lineno - 1][value.col_offset : value.col_offset + 1] != b"("
            return ((3, 9) if isinstance(node, ast.For) else (3, 8)) if is_bare else None
    return None


def _is_bare_walrus(node: ast.expr, lines: list[bytes]) -> bool:
    before = lines[node.lineno - 1][: node.col_offset].rstrip()
    return isinstance(node, ast.NamedExpr) and not before.endswith(b"(")


_PARENTHESISED: Final = regex(rb"(?:async\s+)?with\s*\(")


def _closes_last(node: ast.With | ast.AsyncWith, lines: list[bytes]) -> bool:
    """Whether a parenthesis closes after the last name of a ``with``, so that it is around all of them."""
    last = node.items[-1].optional_vars or node.items[-1].context_expr
    assert last.end_lineno is not None
    after = b"\n".join(lines[last.end_lineno - 1 :])[last.end_col_offset or 0 :].lstrip(b" \t\r\n,")
    return after.startswith(b")")


# ---- what Python says


def words_of_newer(newer: Newer, path: str, python: tuple[int, int]) -> str | None:
    """Return what a Python says of a source that it is too old for, None if that is not known."""
    words = newer.words(python)
    return None if words is None else f"{words} ({posixpath.basename(path)}, line {newer.line})"


def words_of(error: Exception, source: bytes, path: str, python: tuple[int, int]) -> str | None:
    """Return what a Python says of a source that none accepts, where that does not depend on its version."""
    if not isinstance(error, SyntaxError) or not error.lineno or not OLDEST <= python <= NEWEST:
        return None
    lines = source.decode("utf-8", "replace").split("\n")
    line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
    if not is_same_word(error.msg, line) or _may_have_newer(source):
        return None
    return f"{error.msg} ({posixpath.basename(path)}, line {error.lineno})"
