"""How many steps a search takes at most: no fewer than a plain backtracking search takes."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from abiscan.python.interpreter.matching import _parse, lacks_literal, most_steps

if sys.version_info >= (3, 11):
    from re import _constants as codes  # type: ignore[attr-defined]
else:
    import sre_constants as codes

ATOMS = ("a", "b", "ab", ".", r"\w", r"\s", r"\d", "[ab]", "[^a]", r"[^\s)]", "é", "(a)", "(?:b|ab)", r"\b", "$")
SIGNS = ("", "", "*", "+", "?", "{1,3}", "{2}", "*?", "+?")
LETTERS = "ab 1)é"


class _Search:
    """A search as ``re`` documents it: each way is tried, in order, until one matches; the trials are counted."""

    def __init__(self, flags: int, text: str) -> None:
        self.flags, self.text, self.count = flags, text, 0

    def ends(self, items: tuple[Any, ...], place: int) -> Iterator[int]:
        """Yield where items end that begin at a place."""
        if not items:
            yield place
            return
        (code, argument), rest = items[0], items[1:]
        if code is codes.AT:
            # As many trials as an assertion is; where it holds does not matter for the most that there may be.
            self.count += 1
            yield from self.ends(rest, place)
        elif code is codes.BRANCH:
            for way in argument:
                yield from self.ends(way + rest, place)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            least, most, atom = argument
            reached = place
            while reached - place < most and self._fits(atom, reached):
                reached += 1
            places = range(place + least, reached + 1)
            for end in places if code is codes.MIN_REPEAT else reversed(places):
                yield from self.ends(rest, end)
        elif self._fits((code, argument), place):
            yield from self.ends(rest, place + 1)

    def _fits(self, atom: tuple[Any, Any], place: int) -> bool:
        self.count += 1
        if place >= len(self.text):
            return False
        letter = self.text[place]
        code, argument = atom
        if code is codes.LITERAL:
            return letter == chr(argument)
        if code is codes.ANY:
            return letter != "\n"
        categories = {codes.CATEGORY_WORD: r"\w", codes.CATEGORY_SPACE: r"\s", codes.CATEGORY_DIGIT: r"\d"}
        found = any(
            (kind is codes.LITERAL and letter == chr(value))
            or (kind is codes.CATEGORY and re.match(categories[value], letter) is not None)
            for kind, value in (argument if code is codes.IN else [(codes.LITERAL, argument)])
            if kind is not codes.NEGATE
        )
        return found is not (code is codes.NOT_LITERAL or argument[0][0] is codes.NEGATE)


def test_no_search_takes_more() -> None:
    choose = random.Random(58)
    told = 0
    for _ in range(3_000):
        pattern = "".join(choose.choice(ATOMS) + choose.choice(SIGNS) for _ in range(choose.randint(1, 4)))
        text = "".join(choose.choice(LETTERS) for _ in range(choose.randint(0, 24))) * choose.choice([1, 1, 4])
        try:
            re.compile(pattern)
        except re.error:
            continue
        most, parsed = most_steps(pattern, 0, text), _parse(pattern, 0)
        if most is None or parsed is None:
            continue
        told += 1
        search = _Search(0, text)
        for place in range(len(text) + 1):
            for _end in search.ends(parsed[0], place):
                pass  # also what comes after a match: as if it was refused at the end
        # A place where not even the first character fits is none of a search.
        assert search.count <= 4 * (most + len(text) + 1), (pattern, text)
    assert told > 1_000


@pytest.mark.parametrize(
    ("pattern", "flags", "text"),
    [
        (r"^class\s+\w+\s*\([^)]*\bBackend\b", re.MULTILINE, "class A(Backend):\n    pass\n" * 2_000),
        (r"(\w+)\s*=\s*(\d+);", 0, "name = 12;\n" * 1_000),
    ],
)
def test_what_ends_a_repetition_is_seen(pattern: str, flags: int, text: str) -> None:
    steps = most_steps(pattern, flags, text)
    assert steps is not None
    assert steps < 200 * len(text)


@pytest.mark.parametrize("pattern", ["a*a*a*b", "(?:a|a)*b", "(a*)*b", r"(?=a+)a*b", r"(a)\1*b"])
def test_what_multiplies_is_not_few_steps(pattern: str) -> None:
    steps = most_steps(pattern, 0, "a" * 3_000)
    assert steps is None or steps > 10**9


@pytest.mark.parametrize("flags", [0, re.IGNORECASE, re.VERBOSE])
def test_no_text_matches_that_lacks_a_part(flags: int) -> None:
    choose = random.Random(7)
    for _ in range(2_000):
        pattern = "".join(choose.choice(ATOMS) + choose.choice(SIGNS) for _ in range(choose.randint(1, 4)))
        text = "".join(choose.choice(LETTERS + "AB") for _ in range(choose.randint(0, 6)))
        try:
            match = re.search(pattern, text, flags)
        except re.error:
            continue
        assert match is None or not lacks_literal(pattern, flags, text), (pattern, text)


def test_a_part_that_a_text_lacks() -> None:
    assert lacks_literal(r"^class\s+\w+\(Backend\b", re.MULTILINE, "class A(Other):")
    assert not lacks_literal("(?i)backend", 0, "BACKEND")
    assert not lacks_literal("(?:one|two)", 0, "two")


def test_a_text_of_many_letters_is_gone_through_in_little_time() -> None:
    # A set of 40,000 letters took seconds to compile, for each of the repetitions.
    text = "".join(map(chr, range(0x4E00, 0x9FFF))) + "".join(map(chr, range(0xAC00, 0xD7A0)))
    pattern = "".join(f"[{letter}{letter.upper()}]*" for letter in "abcdefghijklmnopqrstuvwxyz")
    before = time.process_time()
    assert most_steps(pattern, 0, text) is not None
    assert time.process_time() - before < 2
