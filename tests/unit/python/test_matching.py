"""The bound of a search is one: a matcher that counts its steps never takes more."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.version import VERSION_PATTERN

from abiscan.python import matching
from abiscan.python.matching import TOO_MANY, codes, most_steps  # type: ignore[attr-defined]

VERSION = rf"^\s*{VERSION_PATTERN}\s*$"


class Counting:
    """A backtracking matcher, as plain as it can be, that finds no match and so goes every way."""

    def __init__(self, text: str, most: int) -> None:
        self.text, self.most, self.steps = text, most, 0

    def ways(self, parts: list[Any], place: int) -> Iterator[int]:
        if not parts:
            yield place
            return
        (code, argument), *others = parts
        for end in self.part(code, argument, place):
            yield from self.ways(others, end)

    def part(self, code: Any, argument: Any, place: int) -> Iterator[int]:
        self.steps += 1
        if self.steps > self.most:
            raise OverflowError
        if code is codes.BRANCH:
            for branch in argument[1]:
                yield from self.ways(list(branch), place)
        elif code is codes.SUBPATTERN:
            yield from self.ways(list(argument[3]), place)
        elif code is codes.MAX_REPEAT:
            yield from self.repeated(argument, place)
        else:
            characters = [argument] if code is codes.LITERAL else [letter for _, letter in argument]
            if place < len(self.text) and ord(self.text[place]) in characters:
                yield place + 1

    def repeated(self, argument: tuple[int, int, Any], place: int) -> Iterator[int]:
        least, most, inner = argument
        if most > 0:
            for end in self.ways(list(inner), place):
                yield from self.repeated((max(least - 1, 0), most - 1, inner), end)
        if least == 0:
            yield place


def random_pattern(chance: random.Random, depth: int = 0) -> str:
    parts = []
    for _ in range(chance.randint(1, 3)):
        part = chance.choice("abc") if chance.random() < 0.6 else chance.choice(["[ab]", "[bc]", "[ac]"])
        if depth < 2 and chance.random() < 0.3:
            inner = "|".join(random_pattern(chance, depth + 1) for _ in range(chance.randint(1, 2)))
            part = f"({inner})"
        parts.append(part + chance.choice(["", "", "?", "*", "+", "{1,3}"]))
    return "".join(parts)


@pytest.mark.parametrize("seed", range(4))
def test_no_search_takes_more_steps(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(40):
        pattern = random_pattern(chance)
        text = "".join(chance.choice("abc") for _ in range(chance.randint(0, 12)))
        bound = most_steps(pattern, 0, text)
        if bound == TOO_MANY:
            continue
        matcher, parts = Counting(text, bound), list(matching.parser.parse(pattern))  # type: ignore[attr-defined]
        for place in range(len(text) + 1):
            for _end in matcher.ways(parts, place):
                pass


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"(a|aa)+b", r"(\w+\s*)+:", r"(?<!a)(b)\1", "("])
def test_what_may_take_for_ever_is_not_bounded(pattern: str) -> None:
    assert most_steps(pattern, 0, "a" * 60) == TOO_MANY


@pytest.mark.parametrize(
    ("pattern", "flags", "text", "longer"),
    [
        (VERSION, re.VERBOSE | re.IGNORECASE, "2.13.0.dev20260101+cu130", "2.13.0.dev20260101+cu130.git123456789"),
        (r"^class\s+\w+\s*\([^)]*\bBackend\b", re.MULTILINE, "class A(B):\n" * 100, "class A(B):\n" * 200),
        (r'__version__ = "(.*?)"', 0, "x = 1\n" * 100, "x = 1\n" * 200),
        (r"(?>\s+)\w+" if sys.version_info >= (3, 11) else r"\s+\w+", re.DOTALL, " a" * 100, " a" * 200),
    ],
)
def test_the_bound_grows_as_the_text_does(pattern: str, flags: int, text: str, longer: str) -> None:
    assert most_steps(pattern, flags, longer) <= 3 * most_steps(pattern, flags, text) < 3_000_000
