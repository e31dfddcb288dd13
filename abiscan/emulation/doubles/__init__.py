"""Doubles: replacements for the functions that an extension imports.

Each module of this package holds the doubles of one library. A double is a function of a ``Call`` that returns the
integer or pointer result, or None where there is none; it is found by its mangled name, exact or by a pattern for the
families of names that templates make. Those of torch share what torch knows in one process: they take that, too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable
from typing import Final, Generic, Protocol, TypeVar

from abiscan.emulation.process import Call, Double
from abiscan.regex import beginnings, regex

_D = TypeVar("_D")
_S = TypeVar("_S")


class Finder(Protocol):
    """The doubles of one library."""

    @property
    def names(self) -> Collection[str]:
        """The mangled names that have a double exactly."""

    @property
    def beginnings(self) -> tuple[str, ...]:
        """With one of these begins each other name that has one."""

    def find(self, name: str) -> Double | None:
        """Return the double for a mangled name; None if there is none."""


class _ByName(Generic[_D]):
    """Functions by the names that they replace, filled by decorators while a module is imported."""

    def __init__(self) -> None:
        self.by_name: Final[dict[str, _D]] = {}
        self.by_pattern: Final[list[tuple[str, _D]]] = []
        self._expressions: list[tuple[tuple[str, ...], re.Pattern[str], _D]] = []
        self.beginnings: tuple[str, ...] = ()

    @property
    def names(self) -> Collection[str]:
        """The mangled names that have a function exactly."""
        return self.by_name.keys()

    def named(self, *names: str) -> Callable[[_D], _D]:
        """Return the double of the functions with these mangled names."""

        def register(double: _D) -> _D:
            self.by_name.update(dict.fromkeys(names, double))
            return double

        return register

    def matching(self, *patterns: str) -> Callable[[_D], _D]:
        """Return the double of every function whose mangled name begins with one of these regular expressions."""

        def register(double: _D) -> _D:
            for pattern in patterns:
                starts, expression = beginnings(pattern), regex(pattern)
                self.by_pattern.append((pattern, double))
                self._expressions.append((starts, expression, double))
                self.beginnings += starts
            return double

        return register

    def _find(self, name: str) -> _D | None:
        exact = self.by_name.get(name)
        if exact is not None:
            return exact
        # Most names have no double in a module: one comparison for all of its expressions shows that.
        if not name.startswith(self.beginnings):
            return None
        for starts, expression, double in self._expressions:
            # Few of them are ever needed, and compiling one takes longer than comparing its beginning.
            if name.startswith(starts) and expression.match(name):
                return double
        return None


class Doubles(_ByName[Double]):
    """The doubles of a library without state."""

    def find(self, name: str) -> Double | None:
        """Return the double for a mangled name."""
        return self._find(name)


class SharedDoubles(_ByName[Callable[[_S, Call], "int | None"]], Generic[_S]):
    """The doubles of a library whose functions share state in each process, their first parameter."""

    def of(self, shared: _S) -> Finder:
        """Return the doubles of one process."""
        return _Bound(self, shared)


class _Bound(Generic[_S]):
    def __init__(self, doubles: SharedDoubles[_S], shared: _S) -> None:
        self._doubles, self._shared = doubles, shared
        self.names, self.beginnings = doubles.names, doubles.beginnings

    def find(self, name: str) -> Double | None:
        double = self._doubles._find(name)
        return None if double is None else functools.partial(double, self._shared)


def finder(libraries: Iterable[Finder]) -> Callable[[str], Double | None]:
    """Look a name up in several libraries; the first that has it wins."""
    finders = tuple(libraries)
    # Most names have a double in none of them: one look shows that, instead of one in each.
    names = frozenset[str]().union(*(library.names for library in finders))
    beginnings = tuple({start for library in finders for start in library.beginnings})

    def find(name: str) -> Double | None:
        if name not in names and not name.startswith(beginnings):
            return None
        return next((double for library in finders if (double := library.find(name)) is not None), None)

    return find
