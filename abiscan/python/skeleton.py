"""The skeleton of a module: its source without the bodies of functions, which is parsed in a fraction of the time."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from typing import Final

from abiscan.python.grammar import FAILURES, parse
from abiscan.regex import regex

# Three levels of parentheses inside of the header's own, since a regular expression cannot count. A function whose
# header has more keeps its body.
_INSIDE: Final = rb"[^()]*(?:\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)[^()]*)*"
_FUNCTION: Final = regex(
    # from the start of a line to the colon that ends the header, and all lines that are indented deeper
    rb"\n([ \t]*)((?:async[ \t]+)?def[ \t]+\w+)[ \t]*(\(" + _INSIDE + rb"\)[^:\n]*:)[ \t]*(?:#[^\n]*)?"
    rb"(?:\n(?:\1[ \t]+[^\n]*|[ \t]*(?=\n)|[ \t]*#[^\n]*))+"
)
_CALL: Final = regex(rb"\w[ \t\n]*\(")
_NAME_AS_DEFAULT: Final = regex(rb"=[ \t\n]*(?!None\b|True\b|False\b)[A-Za-z_\[{]")
_BEFORE_FORMAT: Final = regex(rb"(?:^|\W)(?:[fF][rR]?|[rR][fF])\Z")


def make_skeleton(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a source in which functions do nothing and long texts are empty.

    None if it cannot be made: the source is no Python, or quotes stand in comments.
    """
    text = _without_texts(b"\n" + source.replace(b"\r\n", b"\n"))
    if text is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse(_FUNCTION.sub(_without_body, text))
    except FAILURES:
        return None


def function_in(source: bytes, path: Sequence[str]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return a function or method, by the names of the classes that it is in and its own, without parsing the rest.

    The last one of that name, without its decorators; None if it was not found.
    """
    content = _without_texts(b"\n" + source.replace(b"\r\n", b"\n"))
    if content is None:
        return None
    *classes, name = (re.escape(part.encode()) for part in path)
    indent = b""
    # From block to block: what is left of the text is the body of the innermost class so far.
    for cls in classes:
        block = _last_block(content, rb"\n([ \t]*)class[ \t]+" + cls + rb"\b")
        if block is None:
            return None
        content = block[1][block[1].find(b"\n", 1) :]
    block = _last_block(content, rb"\n([ \t]*)(?:async[ \t]+)?def[ \t]+" + name + rb"\b")
    if block is None:
        return None
    indent, text = block
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse(b"if 1:" + text if indent else text)
    except FAILURES:
        return None
    node = tree.body[0].body[0] if isinstance(tree.body[0], ast.If) else tree.body[0]
    return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _last_block(text: bytes, header: bytes) -> tuple[bytes, bytes] | None:
    """Return the last block with a header that is indented least: its indentation, and its lines."""
    matches = list(re.finditer(header, text))
    if not matches:
        return None
    match = min(reversed(matches), key=lambda match_: len(match_[1]))
    # The lines of a block: those that are indented deeper than its header, empty ones, comments, and closing brackets
    # at its own indentation.
    inside = rb"%b[ \t]+[^\n]*|[ \t]*(?=\n|\Z)|[ \t]*#[^\n]*|%b[)\]}][^\n]*" % (match[1], match[1])
    block = re.compile(rb"[^\n]*(?:\n(?:" + inside + rb"))*").match(text, match.start() + 1)
    return match[1], b"\n" + (block[0] if block else b"")


def _without_body(match: re.Match[bytes]) -> bytes:
    indent, name, header = match.groups()
    return b"\n%b%b%b pass" % (indent, name, header if _is_evaluated(header) else b"():")


def _is_evaluated(header: bytes) -> bool:
    """Whether evaluating the header of a function may do more than bind names: a call, or a name as a default."""
    # Most headers have neither a parenthesis besides their own nor a default: only the others are searched.
    calls = b"(" in header[1:] and _CALL.search(header) is not None
    return calls or (b"=" in header and (b":=" in header or _NAME_AS_DEFAULT.search(header) is not None))


def _without_texts(source: bytes) -> bytes | None:
    """Return the source without what is inside of triple quotes, formatted texts apart."""
    for quotes, opposite in ((b'"""', b"'''"), (b"'''", b'"""')):
        if quotes not in source:
            continue
        # Outside and inside take turns, so that an odd number of parts means that each quote has its counterpart. A
        # quote in a comment or in another text upsets that; then there is no skeleton.
        parts = source.split(quotes)
        if len(parts) % 2 == 0:
            return None
        if opposite in source and any(part.count(opposite) % 2 for part in parts):
            return source  # one kind stands inside of the other
        for number in range(1, len(parts), 2):
            if not _BEFORE_FORMAT.search(parts[number - 1][-3:]):
                parts[number] = b""
        source = quotes.join(parts)
    return source
