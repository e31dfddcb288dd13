"""Plain values: texts, numbers, paths, and the containers of these. How many parts they have, and copies of them."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from abiscan.python.package.call_records import MOST_PARTS

SCALARS: Final = frozenset({str, bytes, int, float, bool, type(None), PurePosixPath, PureWindowsPath})
CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset})
CHARACTERS_PER_PART: Final = 64
_DEEPEST: Final = 20


class NotPlainError(Exception):
    """A value is of another kind, which may change, or it is not known, or has too many parts."""


def parts_of(values: list[object], changing: set[int]) -> int:
    """Return how many parts values have together.

    :param changing: the containers that must not be among them
    :raises NotPlainError: one is not known, or of a kind that cannot be copied
    """
    level, count = values, 0
    for _ in range(_DEEPEST):
        below: list[object] = []
        for value in level:
            count += 1
            kind = type(value)
            if kind in CONTAINERS:
                if id(value) in changing or count + len(value) > MOST_PARTS:  # type: ignore[arg-type]
                    raise NotPlainError
                below.extend(value)  # type: ignore[arg-type]
                if isinstance(value, dict):
                    below.extend(value.values())
            elif kind not in SCALARS:
                raise NotPlainError
            elif isinstance(value, (str, bytes)):
                count += len(value) // CHARACTERS_PER_PART
        level = below
        if count + len(level) > MOST_PARTS:
            raise NotPlainError
    if level:
        raise NotPlainError
    return count


def copied(value: object, copies: dict[int, object]) -> object:
    """Return a value in which nothing is shared that can change; what is one object stays one.

    :param copies: the copies so far, by the numbers (``id``) of what was copied
    """
    kind = type(value)
    if kind not in CONTAINERS:
        return value
    if id(value) not in copies:
        made: object
        if kind is dict:
            made = {copied(key, copies): copied(item, copies) for key, item in value.items()}  # type: ignore[attr-defined]
        elif kind in (set, frozenset):
            made = set(value) if kind is set else value  # type: ignore[call-overload]
        else:
            made = kind([copied(part, copies) for part in value])  # type: ignore[call-arg, attr-defined]
        copies[id(value)] = made
    return copies[id(value)]
