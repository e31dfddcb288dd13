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


_GROUP: Final = regex(r"\([^()]*\)")
_LITERAL: Final = regex(r"[\w ]+(?![*+?{])")
_ALTERNATIVES: Final = regex(r"([\w ]*)\((?:\?:)?([\w |]+)\)(?![*+?{])")


def beginnings(pattern: str) -> tuple[str, ...]:
    """Return texts with one of which every match of a regular expression begins, as far as they are easy to find."""
    outside, inner = pattern, None
    while inner != outside:
        inner, outside = outside, _GROUP.sub("", outside)
    if "|" in outside:
        return ("",)
    if alternatives := _ALTERNATIVES.match(pattern):
        return tuple(alternatives[1] + text for text in alternatives[2].split("|"))
    literal = _LITERAL.match(pattern)
    return (literal[0] if literal else "",)
