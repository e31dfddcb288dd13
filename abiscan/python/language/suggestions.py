"""The name that Python suggests in place of one that is not there.

As ``_Py_CalculateSuggestions`` in Python/suggestions.c does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MOST_NAMES: Final = 750
_LONGEST: Final = 40
_MOVE: Final = 2
_CASE: Final = 1


def closest_name(name: str, names: Sequence[str]) -> str | None:
    """Return the name that is nearest to another one; None if none is near enough."""
    if len(names) >= _MOST_NAMES:
        return None
    closest, distance = None, len(name) * _MOVE + _LONGEST * _MOVE
    for candidate in names:
        if candidate == name:
            continue
        # A third of the letters may be different, and each name must be nearer than the last.
        limit = min((len(name) + len(candidate) + 3) * _MOVE // 6, distance - 1)
        current = _edit_distance(name, candidate, limit)
        if current <= limit:
            closest, distance = candidate, current
    return closest


def _edit_distance(first: str, second: str, limit: int) -> int:
    """Return the Levenshtein distance of two names, or more than the limit if that is exceeded."""
    while first and second and first[0] == second[0]:
        first, second = first[1:], second[1:]
    while first and second and first[-1] == second[-1]:
        first, second = first[:-1], second[:-1]
    if not first or not second:
        return (len(first) + len(second)) * _MOVE
    if max(len(first), len(second)) > _LONGEST:
        return limit + 1
    row = [index * _MOVE for index in range(len(first) + 1)]
    for number, letter in enumerate(second, 1):
        diagonal, row[0] = row[0], number * _MOVE
        for index, own in enumerate(first, 1):
            replaced = diagonal + _substitution_cost(own, letter)
            diagonal = row[index]
            row[index] = min(replaced, min(row[index - 1], row[index]) + _MOVE)
    return row[-1]


def _substitution_cost(first: str, second: str) -> int:
    if first == second:
        return 0
    return _CASE if first.lower() == second.lower() else _MOVE
