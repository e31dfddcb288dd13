r"""How many steps a search for a regular expression takes at most.

A repetition of a character takes up to as many characters as there are, and tries what follows after each number of
them. Where what follows cannot begin with such a character, it fails at once but after the last: ``\w+\s*\(``. So only
the other repetitions multiply what those after them take. Groups that are repeated are not looked at.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

if sys.version_info >= (3, 11):
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as codes
    import sre_parse as parser

_ASCII: Final = 128
_OTHERS: Final = "\u2003\u0663\u00e9\u20ac"
"""One character for each kind beyond ASCII: a blank, a digit, another one of words, anything else."""
_CHARACTERS: Final = (*map(chr, range(_ASCII)), *_OTHERS)
_ALL: Final = (1 << len(_CHARACTERS)) - 1
_BEYOND: Final = _ALL ^ ((1 << _ASCII) - 1)
_REPEATS: Final = frozenset({codes.MAX_REPEAT, codes.MIN_REPEAT})
_SINGLE: Final = frozenset({codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN})
_MOST_SEQUENCES: Final = 200
"""How many sequences of alternatives are gone through."""
_LONGEST: Final = 500
_MOST: Final = 10**18
_LOOKED_AT: Final = 10_000
"""How many steps one place of a search may take without a look at the text."""
_Item = tuple[Any, Any]
_Set = tuple[int, int]
"""Which characters may be in a set, and which certainly are: the bits of their numbers in ``_CHARACTERS``."""


def most_steps(pattern: str, flags: int, text: str) -> int | None:
    """Return how many steps a search takes at most; None if that cannot be told from the pattern."""
    parsed = _parse(pattern, flags)
    if parsed is None:
        return None
    items, flags = parsed
    work = _Work(flags, text, is_rough=True).of(items)
    if work is not None and work > _LOOKED_AT:
        work = _Work(flags, text, is_rough=False).of(items)
    if work is None:
        return None
    # What begins with a text is only looked for where that is; two of its places may overlap.
    parts = [item for item in items if item[0] is not codes.AT]
    begin = "" if flags & re.IGNORECASE else next(_literals(parts), "")
    is_first = bool(begin) and parts[0][0] is codes.LITERAL
    places = text.count(begin) * len(begin) if is_first else len(text) + 1
    return len(text) + places * work


def lacks_literal(pattern: str, flags: int, text: str) -> bool:
    """Whether a text lacks one that each match of a pattern has in it: nothing matches then."""
    parsed = _parse(pattern, flags)
    if parsed is None or parsed[1] & re.IGNORECASE:
        return False
    longest = max(_literals(parsed[0]), key=len, default="")
    return longest not in text


def _literals(items: Sequence[_Item]) -> Iterator[str]:
    """Yield the texts that stand in a pattern, outside of alternatives."""
    for is_literal, run in itertools.groupby(items, lambda item: item[0] is codes.LITERAL):
        if is_literal:
            yield "".join(chr(character) for _code, character in run)


@functools.lru_cache(maxsize=256)
def _parse(pattern: str, flags: int) -> tuple[tuple[_Item, ...], int] | None:
    """Return the parts of a pattern, without groups, and its flags."""
    if len(pattern) > _LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = parser.parse(pattern, flags)
        items = _without_groups(tuple(parsed))
    except (re.error, RecursionError, OverflowError):
        return None
    return None if items is None else (items, parsed.state.flags)


def _without_groups(items: tuple[_Item, ...]) -> tuple[_Item, ...] | None:
    flat: list[_Item] = []
    for code, argument in items:
        if code is codes.SUBPATTERN:
            _group, added, removed, inside = argument
            parts = None if added or removed else _without_groups(tuple(inside))
            if parts is None:
                return None
            flat += parts
        elif code is codes.BRANCH:
            ways = [_without_groups(tuple(way)) for way in argument[1]]
            if None in ways:
                return None
            flat.append((code, ways))
        elif code in _REPEATS:
            least, most, inside = argument
            if len(inside) != 1 or inside[0][0] not in _SINGLE:
                return None
            flat.append((code, (least, most, inside[0])))
        elif code in _SINGLE or code is codes.AT:
            flat.append((code, argument))
        else:
            return None
    return tuple(flat)


class _Work:
    """What is tried from one place on in a text.

    :param is_rough: whether a repetition may go on through all of it; else it is looked at how far each can go
    """

    def __init__(self, flags: int, text: str, *, is_rough: bool) -> None:
        self._flags, self._text, self._is_rough = flags, text, is_rough
        self._sequences = 0
        self._runs: dict[int, int] = {}

    def of(self, items: tuple[_Item, ...]) -> int | None:
        """Return how many steps it takes at most; None for too many alternatives."""
        self._sequences += 1
        if self._sequences > _MOST_SEQUENCES:
            return None
        work = 1
        for index in range(len(items) - 1, -1, -1):
            code, argument = items[index]
            rest = items[index + 1 :]
            if code is codes.BRANCH:
                ways = [self.of(way + rest) for way in argument]
                if None in ways:
                    return None
                work = sum(way for way in ways if way is not None)
            elif code not in _REPEATS:
                # A text is compared at once, and most often ends at its first character.
                work += code is not codes.LITERAL or not rest or rest[0][0] is not codes.LITERAL
            elif argument[0] == argument[1]:
                work += min(argument[0], len(self._text))
            else:
                repeated = self._set_of(argument[2])[0]
                most = min(argument[1], self._longest_run(repeated)) + 1
                can_follow = repeated & self._first(rest)
                work = most * (work + 1) if can_follow else most * (len(items) + 1) + work
            work = min(work, _MOST)
        return work

    def _longest_run(self, characters: int) -> int:
        """Return how many characters of a set there are one after the other in the text, or more."""
        if self._is_rough:
            return len(self._text)
        if characters not in self._runs:
            # What is beyond ASCII counts as one kind of character: a set of each that there is would be as large as the
            # text.
            others = [re.escape(chr(number)) for number in range(_ASCII) if not characters >> number & 1]
            others += () if characters & _BEYOND else ["\\x80-\\U0010ffff"]
            runs = re.split(f"[{''.join(others)}]+", self._text) if others else [self._text]
            self._runs[characters] = max(map(len, runs))
        return self._runs[characters]

    def _first(self, items: tuple[_Item, ...]) -> int:
        """Return what items may begin with."""
        characters = 0
        for index, (code, argument) in enumerate(items):
            if code is codes.BRANCH:
                for way in argument:
                    characters |= self._first(way + items[index + 1 :])
                return characters
            if code in _REPEATS:
                characters |= self._set_of(argument[2])[0]
                if argument[0]:
                    return characters
            elif code is not codes.AT:
                return characters | self._set_of((code, argument))[0]
        return characters

    def _set_of(self, item: _Item) -> _Set:
        code, argument = item
        if code is codes.ANY:
            known = _ALL if self._flags & re.DOTALL else _ALL ^ 1 << ord("\n")
            return known, known
        if code is not codes.IN:
            one = _one(argument)
            return self._in_any_case(one) if code is codes.LITERAL else _opposite(self._in_any_case(one))
        perhaps = certainly = 0
        is_negated = False
        for kind, value in argument:
            if kind is codes.NEGATE:
                is_negated = True
                continue
            if kind is codes.CATEGORY:
                parts = _category(value, self._flags & re.ASCII)
            elif kind is codes.RANGE:
                low, high = value
                inside = sum(1 << number for number in range(low, min(high + 1, _ASCII)))
                parts = inside | (_BEYOND if high >= _ASCII else 0), inside
            else:
                parts = _one(value)
            perhaps, certainly = perhaps | parts[0], certainly | parts[1]
        found = self._in_any_case((perhaps, certainly))
        return _opposite(found) if is_negated else found

    def _in_any_case(self, found: _Set) -> _Set:
        # Some letters beyond ASCII are those of ASCII in the other case.
        perhaps, certainly = found
        is_any = self._flags & re.IGNORECASE and perhaps & _LETTERS
        return (perhaps | _LETTERS, certainly) if is_any else found


def _one(code: int) -> _Set:
    return (1 << code, 1 << code) if code < _ASCII else (_BEYOND, 0)


def _opposite(found: _Set) -> _Set:
    return _ALL ^ found[1], _ALL ^ found[0]


def _that_match(pattern: str, flags: int = 0) -> int:
    matching = re.compile(pattern, flags)
    return sum(1 << number for number, character in enumerate(_CHARACTERS) if matching.match(character))


_LETTERS: Final = _that_match("[A-Za-z]") | _BEYOND


@functools.cache
def _category(code: Any, ascii_only: int) -> _Set:
    """Return the characters of a category, such as digits, or of what is in none."""
    signs = {
        codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
        codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
    }  # fmt: skip
    known = _that_match(signs[code], ascii_only)
    return known, known
