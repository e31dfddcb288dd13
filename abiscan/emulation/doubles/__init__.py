"""Doubles: what stands in for the functions that an extension imports.

Each module of this package holds the doubles of one library. A double is a function of a ``Call`` that returns the
integer or pointer result, or None where there is none; it is found by its mangled name, exact or by a pattern for the
families of names that templates make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from abiscan.emulation.process import Double

_GROUP: Final = re.compile(r"\([^()]*\)")
_LITERAL: Final = re.compile(r"[\w ]+(?![*+?{])")


class Doubles:
    """The doubles of one library, filled by its ``named`` and ``matching`` decorators as its module is read."""

    def __init__(self) -> None:
        self.by_name: Final[dict[str, Double]] = {}
        self.by_pattern: Final[list[tuple[str, str, Double]]] = []

    def named(self, *names: str) -> Callable[[Double], Double]:
        """The double of the functions with these mangled names."""

        def register(double: Double) -> Double:
            self.by_name.update(dict.fromkeys(names, double))
            return double

        return register

    def matching(self, *patterns: str) -> Callable[[Double], Double]:
        """The double of every function whose mangled name begins as one of these regular expressions say."""

        def register(double: Double) -> Double:
            self.by_pattern.extend((beginning(pattern), pattern, double) for pattern in patterns)
            return double

        return register

    def find(self, name: str) -> Double | None:
        """The double for a mangled name."""
        exact = self.by_name.get(name)
        if exact is not None:
            return exact
        for start, pattern, double in self.by_pattern:
            # Few of the expressions are ever needed, and to compile one takes longer than to compare its beginning.
            if name.startswith(start) and re.match(pattern, name):
                return double
        return None


def beginning(pattern: str) -> str:
    """The characters with which everything begins that a regular expression matches, as far as that is plain to see."""
    outside, inner = pattern, None
    while inner != outside:
        inner, outside = outside, _GROUP.sub("", outside)
    found = _LITERAL.match(pattern) if "|" not in outside else None
    return found[0] if found else ""


def finder(libraries: Iterable[Doubles]) -> Callable[[str], Double | None]:
    """Look a name up in several libraries, the first that knows it."""
    known = tuple(libraries)

    def find(name: str) -> Double | None:
        return next((double for library in known if (double := library.find(name)) is not None), None)

    return find
