"""The tokens of a Python source by the newest grammar: the tokenizer of the running Python only knows its own.

Texts with ``f`` and ``t`` are taken apart as PEP 701 does it: their fields may have any text, comment or line inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from abiscan.regex import regex

_TOKEN: Final = regex(
    rb"(?P<space>[ \t\f\r]+|\\\n)|(?P<comment>#[^\n]*)|(?P<newline>\n)"
    rb"|(?P<text>(?P<prefix>(?:[bBfFtT][rR]?|[rR][bBfFtT]?|[uU])?)(?P<quote>\"\"\"|'''|\"|'))"
    rb"|(?P<name>[A-Za-z_\x80-\xff][\w\x80-\xff]*)|(?P<number>\.?[0-9][\w.]*)"
    rb"|(?P<operator>:=|->|[!=<>]=|\*\*|//|<<|>>|(?s:.))"
)
_QUOTES: Final = (b'"', b"'", b'"""', b"'''")
_INSIDE: Final = {
    quote: rb"[^\\{}\n%b]" % quote if len(quote) == 1 else rb"[^\\{}%b]|%b(?!%b)" % (quote[:1], quote[:1], quote[1:])
    for quote in _QUOTES
}
"""A character inside of quotes, but for backslashes and braces."""
_PLAIN: Final = {quote: regex(rb"(?:%b|[{}]|\\(?s:.))*%b" % (_INSIDE[quote], quote)) for quote in _QUOTES}
_BETWEEN: Final = {
    quote: regex(rb"(?:%b|\{\{|\}\}|\\N\{[^{}]*\}|\\(?![{}])(?s:.)|\\(?=[{}]))*" % _INSIDE[quote]) for quote in _QUOTES
}
_BETWEEN_RAW: Final = {
    quote: regex(rb"(?:%b|\{\{|\}\}|\\(?![{}])(?s:.)|\\(?=[{}]))*" % _INSIDE[quote]) for quote in _QUOTES
}
"""What stands between two fields. A backslash before a brace is one, and the brace begins a field."""
_SPECIFICATION: Final = {quote: regex(rb"(?:%b|\\(?![{}])(?s:.)|\\(?=[{}]))*" % _INSIDE[quote]) for quote in _QUOTES}
_OPENING: Final = frozenset({b"(", b"[", b"{"})
_CLOSING: Final = frozenset({b")", b"]", b"}"})
_MOST_NESTED: Final = 50


class ReplacementField(Struct, frozen=True, kw_only=True):
    """A field of an f-string, ``{value = !r:>5}``.

    :ivar value: where its expression is
    :ivar shown: where the text is that ``=`` shows; None without one
    :ivar colon: where its format specification begins, if it has one
    :ivar parts: those of its format specification, None without one
    :ivar tokens: those of its expression
    """

    start: int
    end: int
    value: tuple[int, int]
    shown: tuple[int, int] | None
    conversion: bytes
    colon: int
    parts: tuple[Part, ...] | None
    tokens: tuple[Token, ...]


class Literal(Struct, frozen=True):
    """What stands between the fields."""

    start: int
    end: int


Part = Literal | ReplacementField


class Token(Struct, frozen=True):
    """A token, with the parts of an f-string or t-string."""

    kind: str
    start: int
    end: int
    text: bytes
    prefix: bytes = b""
    quote: bytes = b""
    parts: tuple[Part, ...] | None = None


class NoTokens(Exception):  # noqa: N818 - whoever parses says what is wrong
    """Raised where a source is not made of tokens, such as a text without its end."""


def tokens_of(data: bytes, position: int = 0, *, depth: int = 0) -> Iterator[Token]:
    """Yield the tokens from a position on, without spaces.

    :param depth: how many f-strings are around it
    """
    if depth > _MOST_NESTED:
        raise NoTokens
    while position < len(data):
        match = _TOKEN.match(data, position)
        assert match is not None
        kind = match.lastgroup or ""
        token = None
        if match["text"] is not None:
            token = _read_text(data, match.start(), match["prefix"].lower(), match["quote"], depth)
        elif kind != "space":
            token = Token(kind, match.start(), match.end(), match[0])
        if token is not None:
            yield token
        position = token.end if token is not None else match.end()


def lone_texts(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the texts begin and end that are a statement and stand in lines of their own, as docstrings do."""
    depth = count = 0
    first = None
    for token in tokens_of(data):
        if token.kind == "newline" and not depth:
            if count == 1 and first is not None and first.kind == "text" and first.parts is None:
                yield first.start, first.end
            count = 0
        elif token.kind not in {"newline", "comment"}:
            first = token if not count else first
            count += 1
            if token.kind == "operator":
                depth += (token.text in _OPENING) - (token.text in _CLOSING)


def _read_text(data: bytes, start: int, prefix: bytes, quote: bytes, depth: int) -> Token:
    inside = start + len(prefix) + len(quote)
    if b"f" not in prefix and b"t" not in prefix:
        match = _PLAIN[quote].match(data, inside)
        if match is None:
            raise NoTokens
        return Token("text", start, match.end(), data[start : match.end()], prefix, quote)
    between = (_BETWEEN_RAW if b"r" in prefix else _BETWEEN)[quote]
    parts, position = _read_parts(data, inside, between, quote, depth)
    if not data.startswith(quote, position):
        raise NoTokens
    end = position + len(quote)
    return Token("text", start, end, data[start:end], prefix, quote, parts)


def _read_parts(data: bytes, position: int, between: object, quote: bytes, depth: int) -> tuple[tuple[Part, ...], int]:
    """Return literals and fields in turn, and the position after them."""
    parts: list[Part] = []
    while True:
        match = between.match(data, position)  # type: ignore[attr-defined]
        if match.end() > position:
            parts.append(Literal(position, match.end()))
        position = match.end()
        if not data.startswith(b"{", position):
            return tuple(parts), position
        field = _read_field(data, position, quote, depth)
        parts.append(field)
        position = field.end


def _read_field(data: bytes, start: int, quote: bytes, depth: int) -> ReplacementField:
    inside: list[Token] = []
    brackets = 0
    shown = None
    for token in tokens_of(data, start + 1, depth=depth + 1):
        sign = token.text
        if token.kind == "operator":
            if not brackets and sign in {b"!", b":", b":=", b"}"}:
                break
            brackets += (sign in _OPENING) - (sign in _CLOSING)
        inside.append(token)
    else:
        raise NoTokens
    value = start + 1, token.start
    code = [item for item in inside if item.kind not in {"newline", "comment"}]
    if not code:
        raise NoTokens
    if code[-1].text == b"=" and len(code) > 1:
        shown, value = value, (start + 1, code[-1].start)
        inside.remove(code[-1])
    position, conversion, parts = token.start, b"", None
    if token.text == b"!":
        name = next(tokens_of(data, token.end, depth=depth + 1), None)
        if name is None or name.start > token.end or name.text not in {b"r", b"s", b"a"}:
            raise NoTokens
        conversion, position = name.text, name.end
        while data[position : position + 1] in {b" ", b"\t", b"\n"}:
            position += 1
    colon = position
    if data.startswith(b":", position):
        parts, position = _read_parts(data, position + 1, _SPECIFICATION[quote], quote, depth + 1)
    if not data.startswith(b"}", position):
        raise NoTokens
    return ReplacementField(
        start=start,
        end=position + 1,
        value=value,
        shown=shown,
        conversion=conversion,
        colon=colon,
        parts=parts,
        tokens=tuple(inside),
    )


def is_new_text(token: Token, data: bytes) -> bool:
    """Whether a text needs Python 3.12: before, a field was cut out of a text that had been read to its end."""
    return any(
        _is_new_field(part, token, data, nested=0) for part in token.parts or () if isinstance(part, ReplacementField)
    )


def _is_new_field(field: ReplacementField, token: Token, data: bytes, *, nested: int) -> bool:
    start, end = field.shown or field.value
    code = data[start:end]
    return bool(
        nested > 1
        or (field.conversion and data[field.colon - 1 : field.colon].isspace())
        or token.quote in code
        or b"\\" in code
        or (len(token.quote) == 1 and b"\n" in code)
        or any(inner.kind == "comment" or is_new_text(inner, data) for inner in field.tokens)
        or any(
            _is_new_field(part, token, data, nested=nested + 1)
            for part in field.parts or ()
            if isinstance(part, ReplacementField)
        )
    )
