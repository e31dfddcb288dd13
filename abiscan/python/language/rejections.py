"""What the versions of Python say of sources that they reject."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from abiscan.regex import regex


class Newer(Struct, frozen=True, kw_only=True):
    """Something that older Pythons reject.

    :ivar first: the version that accepts it
    :ivar line: the one that older ones name
    :ivar words: what one of them says, None if that depends on what is around
    """

    first: tuple[int, int]
    line: int
    words: Callable[[tuple[int, int]], str | None]


def invalid_syntax(_python: tuple[int, int]) -> str:
    """Return what is said of most of it."""
    return "invalid syntax"


def unknown_words(_python: tuple[int, int]) -> None:
    """Return None: it depends on more than the version."""


def expected_parenthesis(python: tuple[int, int]) -> str:
    """Return what is said of what stands between a function's name and its parameters."""
    return "expected '('" if python >= (3, 11) else "invalid syntax"


def assigned_in_brackets(python: tuple[int, int]) -> str:
    """Return what is said of a default in the brackets of ``type``."""
    return "invalid syntax" + ". Maybe you meant '==' or ':=' instead of '='?" * (python >= (3, 12))


def star_error(python: tuple[int, int]) -> str | None:
    """Return what is said of a star in brackets."""
    return None if python >= (3, 10) else "invalid syntax"  # "Perhaps you forgot a comma?" depends on what is around


def not_parenthesised(python: tuple[int, int]) -> str:
    """Return what is said of ``except A, B``."""
    return "multiple exception types must be parenthesized" if python >= (3, 10) else "invalid syntax"


def backslash_in_field(_python: tuple[int, int]) -> str:
    """Return what is said of a backslash in a field of an f-string."""
    return "f-string expression part cannot include a backslash"


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


def is_same_word(message: str, line: str) -> bool:
    """Whether Python 3.10 to 3.14 say the same of a line."""
    return _SAME_WORDS.fullmatch(message) is not None and _OTHER_WORDS.search(line) is None
