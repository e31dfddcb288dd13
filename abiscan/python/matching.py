"""How many steps a search for a regular expression takes at most: known before it is made, which nothing could stop.

A backtracking search goes on after a part of a pattern in each way that the part can be left. Where the next character
says whether a repetition goes on, there is one; where it may do either, there are as many as rounds.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

if sys.version_info >= (3, 11):
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as codes
    import sre_parse as parser

TOO_MANY: Final = 10**12
_ASCII: Final = frozenset(range(128))
_BEYOND_SPACE, _BEYOND_DIGIT, _BEYOND_WORD, _BEYOND = range(128, 132)
_OTHERS: Final = frozenset({_BEYOND_SPACE, _BEYOND_DIGIT, _BEYOND_WORD, _BEYOND})
"""Stand for the characters beyond ASCII, by their categories."""
_ALL: Final = _ASCII | _OTHERS
_END: Final = len(_ALL)
_SPACE: Final = frozenset(map(ord, " \t\n\r\f\v\x1c\x1d\x1e\x1f")) | {_BEYOND_SPACE}
_DIGITS: Final = frozenset(map(ord, "0123456789")) | {_BEYOND_DIGIT}
_WORD: Final = _DIGITS | frozenset(code for code in _ASCII if chr(code).isalpha()) | {ord("_"), _BEYOND_WORD}
_CATEGORIES: Final = {
    codes.CATEGORY_DIGIT: _DIGITS,
    codes.CATEGORY_NOT_DIGIT: _ALL - _DIGITS,
    codes.CATEGORY_SPACE: _SPACE,
    codes.CATEGORY_NOT_SPACE: _ALL - _SPACE,
    codes.CATEGORY_WORD: _WORD,
    codes.CATEGORY_NOT_WORD: _ALL - _WORD,
}
_MOST_ROUNDS: Final = 40
_TWO_SIDED: Final = "iksIKS"
_POSSESSIVE: Final = getattr(codes, "POSSESSIVE_REPEAT", None)
_ATOMIC: Final = getattr(codes, "ATOMIC_GROUP", None)


class _Unbounded(Exception):  # noqa: N818 - says that no bound is known, which is no error
    """A pattern has something that this does not look into."""


class _Part(NamedTuple):
    """A part of a pattern.

    :ivar first: the characters that it may begin with; what follows it, where it may be empty
    :ivar is_empty: whether it may be empty
    :ivar work: how many steps it takes, until it is left in each way
    :ivar ways: how many ways there are
    """

    first: frozenset[int]
    is_empty: bool
    work: int
    ways: int


def most_steps(pattern: str, flags: int, text: str) -> int:
    """Return how many steps a search may take in a text, ``TOO_MANY`` if that is not known."""
    parsed = _parsed(pattern, flags)
    # With that flag, letters beyond ASCII are none.
    if parsed is None or (parsed.state.flags & re.ASCII and not text.isascii()):
        return TOO_MANY
    try:
        part = _Bounds(text, parsed.state.flags).sequence(parsed, frozenset({_END}))
    except (_Unbounded, RecursionError):
        return TOO_MANY
    return min(len(text) + _count_starts(parsed, text) * (part.work + part.ways), TOO_MANY)


@lru_cache(maxsize=64)
def _parsed(pattern: str, flags: int) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parser.parse(pattern, flags)
    except (re.error, OverflowError, RecursionError):
        return None


def _count_starts(parsed: Any, text: str) -> int:
    """Return at how many places a match may begin, or more."""
    flags, prefix = parsed.state.flags, ""
    is_anchored = bool(parsed) and parsed[0] in ((codes.AT, codes.AT_BEGINNING), (codes.AT, codes.AT_BEGINNING_STRING))
    for code, argument in parsed[1:] if is_anchored else parsed:
        if code is not codes.LITERAL or flags & re.IGNORECASE:
            break
        prefix += chr(argument)
    if is_anchored and not flags & re.MULTILINE:
        return 1
    if is_anchored:
        return text.count("\n" + prefix) + 1
    return text.count(prefix) + 1


class _Bounds:
    """Bounds of the parts of a pattern for one text."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags, self._is_ascii = text, flags, text.isascii()

    def sequence(self, parts: Sequence[tuple[Any, Any]], after: frozenset[int]) -> _Part:
        """Return the bounds of parts one after the other.

        :param after: the characters that may follow them
        """
        first, is_empty, work, ways = after, True, 1, 1
        for code, argument in reversed(parts):
            part = self._part(code, argument, first)
            first = part.first | first if part.is_empty else part.first
            is_empty = is_empty and part.is_empty
            work, ways = part.work + part.ways * work, part.ways * ways
            if work > TOO_MANY:
                raise _Unbounded
        return _Part(first, is_empty, work, ways)

    def _part(self, code: Any, argument: Any, after: frozenset[int]) -> _Part:
        characters = self._characters(code, argument)
        if characters is not None:
            return _Part(characters, is_empty=False, work=1, ways=1)
        if code is codes.AT:
            return _Part(frozenset(), is_empty=True, work=1, ways=1)
        if code is codes.SUBPATTERN:
            return self.sequence(argument[3], after)
        if code is _ATOMIC:
            return self.sequence(argument, after)._replace(ways=1)
        if code is codes.BRANCH:
            return self._branch(argument[1], after)
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, _POSSESSIVE):
            part = self._repeated(argument, after)
            return part._replace(ways=1) if code is _POSSESSIVE else part
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            inner = self.sequence(argument[1], _ALL | {_END})
            return _Part(frozenset(), is_empty=True, work=inner.work + inner.ways, ways=1)
        raise _Unbounded

    def _branch(self, branches: Sequence[Any], after: frozenset[int]) -> _Part:
        parts = [self.sequence(branch, after) for branch in branches]
        total = sum(len(part.first) for part in parts)
        first = frozenset[int]().union(*(part.first for part in parts))
        ways = [part.ways for part in parts]
        return _Part(
            first,
            is_empty=any(part.is_empty for part in parts),
            work=sum(part.work for part in parts),
            ways=max(ways) if total == len(first) else sum(ways),
        )

    def _repeated(self, argument: tuple[int, int, Any], after: frozenset[int]) -> _Part:
        least, most, inner = argument
        once = most == 1
        part = self.sequence(inner, after)
        if not once:
            part = self.sequence(inner, after | part.first)
        if part.is_empty:
            raise _Unbounded
        may_do_either = not part.first.isdisjoint(after)
        if once:
            return _Part(part.first, least == 0, part.work + 1, part.ways + 1 if may_do_either else part.ways)
        rounds = min(most, self._longest_run(inner))
        if part.ways > 1:
            work = part.work * part.ways**rounds if rounds < _MOST_ROUNDS else TOO_MANY
            return _Part(part.first, least == 0, work, work)
        return _Part(part.first, least == 0, 2 * part.work * (rounds + 1), rounds + 1 if may_do_either else 1)

    def _longest_run(self, inner: Sequence[tuple[Any, Any]]) -> int:
        """Return how often a part may match in a row."""
        only = self._characters(*inner[0]) if len(inner) == 1 else None
        if only is None:
            return len(self._text)
        other = "".join(re.escape(chr(code)) for code in _ASCII - only)
        beyond = "" if only & _OTHERS else "\x80-\U0010ffff"
        runs = re.split(f"[{other}{beyond}]", self._text) if other or beyond else [self._text]
        return max(map(len, runs))

    def _characters(self, code: Any, argument: Any) -> frozenset[int] | None:
        """Return the characters that a part matches one of; None if it is something else than one character."""
        characters: frozenset[int]
        if code is codes.LITERAL:
            characters = _of(argument)
        elif code is codes.NOT_LITERAL:
            characters = _ALL - (_of(argument) & _ASCII)
        elif code is codes.ANY:
            characters = _ALL if self._flags & re.DOTALL else _ALL - {ord("\n")}
        elif code is codes.IN:
            characters = _set_of(argument)
        else:
            return None
        if self._flags & re.IGNORECASE:
            letters = {chr(code) for code in characters & _ASCII}
            characters |= {ord(letter.swapcase()) for letter in letters}
            # Letters beyond ASCII have a counterpart in it: those of "i", "k" and "s".
            characters |= {_BEYOND_WORD} if letters & set(_TWO_SIDED) else set()
            characters |= set(map(ord, _TWO_SIDED)) if _BEYOND_WORD in characters else set()
        return characters - _OTHERS if self._is_ascii else characters


def _of(code: int) -> frozenset[int]:
    """Return a character; one beyond ASCII with all others of its category."""
    letter = chr(code)
    if code in _ASCII:
        return frozenset({code})
    if letter.isspace():
        return frozenset({_BEYOND_SPACE})
    return frozenset({_BEYOND_DIGIT if letter.isdecimal() else _BEYOND_WORD if letter.isalnum() else _BEYOND})


def _set_of(items: Sequence[tuple[Any, Any]]) -> frozenset[int]:
    characters, whole = set[int](), set[int]()
    for code, argument in items:
        if code is codes.LITERAL:
            characters |= _of(argument)
        elif code is codes.RANGE:
            characters.update(range(argument[0], min(argument[1] + 1, len(_ASCII))))
            characters |= _OTHERS if argument[1] not in _ASCII else set()
        elif code is codes.CATEGORY:
            characters |= _CATEGORIES[argument]
            whole |= _CATEGORIES[argument]
    if items and items[0][0] is codes.NEGATE:
        # Of the others beyond ASCII, a category is excluded only as a whole.
        return _ALL - (characters & _ASCII) - whole
    return frozenset(characters)
