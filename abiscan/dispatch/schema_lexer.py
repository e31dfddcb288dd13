"""The tokens of a schema, with torch's messages for unexpected ones.

Schemas share the lexer of TorchScript, a Python-like language: see ``torch/csrc/jit/frontend/lexer.h``. So there are
keywords and comments, and newlines matter outside brackets. Errors show the source as ``source_range.cpp`` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from abiscan.errors import AbiscanError
from abiscan.regex import regex


class SchemaError(AbiscanError):
    """A schema that torch rejects. The text is torch's message (without the source line of a failed assertion).

    :param problem: the reason in one line
    :param position: the offset into the schema at which torch noticed
    """

    def __init__(self, message: str, *, problem: str, position: int) -> None:
        super().__init__(message)
        self.problem = problem
        self.position = position


_KEYWORDS: Final = frozenset(
    word
    for line in (
        "def if else elif while return is True False None and or not global for in raise assert break continue del",
        "pass class import with as Ellipsis NoneType",
    )
    for word in line.split()
)

_BLANK: Final = r"(?:[ \t\r\f\v]|\#(?!\ type:)[^\n]*|\\\n)*"
_BLANKS: Final = regex(_BLANK, re.VERBOSE)
_TOKEN: Final = regex(
    rf"""{_BLANK}(?:
      (?P<ident>is\ not|not\ in|[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>(?:0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?
                |(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)j?)
    | (?P<string_literal>\"\"\"(?s:[^\\]|\\.)*?\"\"\"|'''(?s:[^\\]|\\.)*?'''
                |\"(?!\"\")(?:[^\"\\\n]|\\(?s:.))*\"|'(?!'')(?:[^'\\\n]|\\(?s:.))*')
    | (?P<operator>->|\.\.\.|<=>|[=!<>/+\-*%|&^]=|//|\*\*=?|<<=?|>>=?|\#\ type:|[-+*/%@()\[\]:,={{}}><.?!&^|~])
    | (?P<newline>\n)
    | (?P<fresh_set>\$[0-9]+)
    | (?P<eof>\Z)
    )""",
    re.VERBOSE,
)
# A line break outside brackets includes the empty lines after it, and yields the indentation of the next line.
_INDENT: Final = regex(
    r"(?:[ \t\r\f\v]*(?:#(?! type:)[^\n]*)?\n)*(?P<indent>[ \t\r\f\v]*)(?P<comment>#(?! type:)[^\n]*)?"
)

# Torch's names for tokens, where they differ from the tokens' text.
_NAMES: Final = {
    "->": "arrow",
    "...": "dots",
    "<=>": "equivalent",
    "==": "eq",
    "!=": "ne",
    "<=": "le",
    ">=": "ge",
    "//": "floordiv",
    "**": "pow operator",
    "# type:": "type comment",
}
INVALID: Final = "invalid"
_C_BLANKS: Final = " \t\n\v\f\r"
_CONTEXT: Final = 2  # lines that torch shows before and after the one with the error

Span = tuple[int, int]


class Tokens:
    """The tokens of one schema, read from left to right.

    All tokens are created first. If one is invalid, the list ends with it. torch would find it when it looks one token
    ahead, so any error at the token before is reported for the invalid token instead.

    ``strict`` rejects ``$0``, which torch prints as the name of an alias set but cannot parse.
    """

    __slots__ = ("_at", "_kinds", "_spans", "_strict", "_text")

    def __init__(self, text: str, *, strict: bool) -> None:
        self._text = text
        self._strict = strict
        self._kinds: list[str] = []
        self._spans: list[Span] = []
        self._at = 0
        if not text.isascii():
            self._check_encoding()
        self._split_tokens()

    def _check_encoding(self) -> None:
        """Reject a text that has no bytes: a lone surrogate that stands for none."""
        try:
            self._text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            problem = "the schema is not a text"
            raise SchemaError(problem, problem=problem, position=error.start) from None

    def _split_tokens(self) -> None:
        """Split the whole text. An invalid token is the last one."""
        text = self._text
        # Invariant: ``position`` is where the next token or the blanks before it begin, ``last`` is where the last one
        # ended, and ``nesting`` counts open brackets.
        kinds, spans = self._kinds, self._spans
        nesting = 0
        first = _INDENT.match(text)
        assert first is not None  # it matches the empty string
        indents = [first.end("indent") - first.start("indent")]
        position = last = first.end()  # where to go on, and the end of the last token
        kind = ""
        while kind != "eof":
            token = _TOKEN.match(text, position)
            kind = (token and token.lastgroup) or INVALID
            if token is None or (kind == "fresh_set" and self._strict):
                kinds.append(INVALID)
                spans.append((last, position))
                return
            start, end = span = token.span(kind)
            if kind == "ident":
                word = text[start:end]
                if word in _KEYWORDS or " " in word:
                    kind = word
            elif kind == "operator":
                word = text[start:end]
                kind = _NAMES.get(word, word)
                if kind in "([{":
                    nesting += 1
                elif kind in ")]}":
                    nesting -= 1  # below zero it wraps around in torch, so there newlines count as nested too
            elif kind == "newline":
                if not nesting:
                    indent = _INDENT.match(text, end)
                    assert indent is not None
                    end = indent.end()
                    if not self._add_indent(indents, indent.start("indent"), end):
                        return
                    last = end
                position = end
                continue
            kinds.append(kind)
            spans.append(span)
            position = last = end

    def _add_indent(self, indents: list[int], start: int, end: int) -> bool:
        """Add the tokens for the beginning of a line; return False if torch throws while it determines them."""
        # As in Python, a deeper line opens a block, and a shallower one closes blocks until one is as deep. torch calls
        # the end of the text a line of the first one's depth.
        width = indents[0] if end == len(self._text) else end - start
        kinds = ["newline"]
        if width > indents[-1]:
            indents.append(width)
            kinds = ["indent"]
        while indents and indents[-1] != width:
            indents.pop()
            kinds.append("dedent")
        if not indents:
            kinds = [f"{INVALID} indent level {width}"]
        self._kinds += kinds
        self._spans += [(start, end)] * len(kinds)
        return bool(indents)

    def _kind(self) -> str:
        """Return the kind of the current token."""
        return self._kinds[self._at]

    def _last_span(self) -> Span:
        """Return the place of the token that was read last."""
        return self._spans[self._at - 1]

    def _next_if(self, kind: str) -> bool:
        """Read the current token if it is of a kind; tell whether it was."""
        if self._kinds[self._at] != kind:
            return False
        self._at += 1
        return True

    def _next(self) -> str:
        """Read the current token; return its text."""
        start, end = self._spans[self._at]
        self._at += 1
        return self._text[start:end]

    def _expect(self, kind: str) -> str:
        """Read a token of a kind; anything else is an error."""
        if self._kinds[self._at] != kind:
            raise self._unexpected(kind)
        return self._next()

    def _list(self, begin: str, end: str) -> Iterator[None]:
        """Stop at each element of a list, for the caller to read it."""
        self._expect(begin)
        if self._kinds[self._at] != end:
            yield
            while self._next_if(","):
                yield
        self._expect(end)

    def _unexpected(self, kind: str) -> SchemaError:
        """Build the error for a token of the wrong kind."""
        problem = f"expected {kind} but found '{self._kind()}'"
        return self._make_error(problem, self._spans[self._at], f"{problem} here:\n")

    def _fault(self, problem: str, span: Span | None = None, advice: str = "") -> SchemaError:
        """Build an error that torch reports with its place (``ErrorReport``), by default the current token.

        :param advice: what torch adds to the problem
        """
        return self._make_error(problem, span or self._spans[self._at], f"\n{problem}{advice}:\n")

    def _refusal(self, problem: str, span: Span | None = None) -> SchemaError:
        """Build an error that torch reports without its place (``TORCH_CHECK``, and exceptions of the C++ library)."""
        return self._make_error(problem, span or self._spans[self._at], None)

    def _make_error(self, problem: str, span: Span, before_source: str | None) -> SchemaError:
        """Build an error; if the current token is invalid, torch has noticed that first."""
        kind = self._kind()
        # torch's lexer is one token ahead, so it meets an invalid token before its parser rejects the one before.
        if kind.startswith(INVALID):
            span = self._spans[self._at]
            problem, before_source = kind, f"{kind}:\n"
            if kind == INVALID:
                # torch shows the character after the last token, even a space, but points at the one that is invalid.
                blanks = _BLANKS.match(self._text, span[1])
                assert blanks is not None
                problem = f"expected a valid token but found '{_first_byte(self._text[span[0]])}'"
                before_source, span = f"{problem} here:\n", (blanks.end(), blanks.end() + 1)
        message = problem if before_source is None else before_source + _highlight(self._text, span)
        return SchemaError(message.partition("\0")[0], problem=problem.strip(), position=span[0])


def _encode(text: str) -> bytes:
    """Encode a text; bytes that are no text keep their values."""
    return text.encode("utf-8", "surrogateescape")


def _first_byte(character: str) -> str:
    """Return what torch shows of a character that is no token, since it reads bytes; the message ends before a NUL."""
    return _encode(character)[:1].decode("utf-8", "backslashreplace")


def _highlight(text: str, span: Span) -> str:
    """Show the lines around a place in the text, and underline it: torch counts bytes, and blanks as C does."""
    start, end = span
    # SourceRange::print_with_context of source_range.cpp, in its order: what is all of the text is not underlined.
    if end - start == len(text):
        return text
    line_begin = text.rfind("\n", 0, start) + 1
    first = line_begin
    for _ in range(_CONTEXT):
        first = text.rfind("\n", 0, max(first - 1, 0)) + 1
    line_end = text.find("\n", end)
    last = line_end = len(text) if line_end < 0 else line_end
    for _ in range(_CONTEXT):
        after = text.find("\n", last + 1)
        last = len(text) if after < 0 else after
    excerpt, tail_start = text[first:start], start
    if start < end:
        excerpt += f"{text[start:line_end]}\n"
        tail_start = line_end + 1
        if text[start:end].strip(_C_BLANKS):
            # A single character that is not ASCII is no token, so only its first byte is in question.
            size = len(_encode(text[start:end])) if end - start > 1 else 1
            excerpt += f"{' ' * len(_encode(text[line_begin:start]))}{'~' * size} <--- HERE\n"
    tail = text[tail_start:last]
    return excerpt + tail + ("\n" if tail and not tail.endswith("\n") else "")
