"""Regular expressions, compiled when they are first used: a run uses a third of those that it imports."""

from __future__ import annotations

import re
from typing import AnyStr, Final, cast


class _Regex:
    """Stands for a regular expression until one of its methods or attributes is asked for."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)  # the next time, it is found without a call
        return value


def regex(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled when it is first used.

    :param flags: those of ``re``
    """
    return cast("re.Pattern[AnyStr]", _Regex(source, flags))


_SIGNS: Final = regex(r"\\.|\[\^?\]?[^\]]*\]|[()|]")
_LITERAL: Final = regex(r"[\w ]+(?![*+?{])")
_OPTIONAL: Final = regex(r"([\w ]*)([\w ])\?(?![?+])")
_ALTERNATIVES: Final = regex(r"([\w ]*)\((?:\?:)?([\w |]+)\)(?![*+?{])")


def beginnings(pattern: str) -> tuple[str, ...]:
    """Return texts with one of which every match of a regular expression begins, as far as they are easy to find."""
    parts = _split_alternatives(pattern) if "|" in pattern else [pattern]
    return tuple(dict.fromkeys(start for part in parts for start in _beginnings_of(part)))


def _split_alternatives(pattern: str) -> list[str]:
    """Return the alternatives of a regular expression that are in no group."""
    parts: list[str] = []
    depth = start = 0
    for match in _SIGNS.finditer(pattern):
        sign = match[0]
        if sign == "|" and not depth:
            parts.append(pattern[start : match.start()])
            start = match.end()
        depth += (sign == "(") - (sign == ")")
    return [*parts, pattern[start:]]


def _beginnings_of(pattern: str) -> tuple[str, ...]:
    if alternatives := _ALTERNATIVES.match(pattern):
        return tuple(alternatives[1] + text for text in alternatives[2].split("|"))
    if optional := _OPTIONAL.match(pattern):
        following = _beginnings_of(pattern[optional.end() :])
        return tuple(f"{optional[1]}{letter}{text}" for letter in (optional[2], "") for text in following)
    literal = _LITERAL.match(pattern)
    return (literal[0] if literal else "",)
