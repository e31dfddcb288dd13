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


def beginning(pattern: str) -> str:
    """Return the characters with which every match of a regular expression begins, as far as they are easy to find."""
    outside, inner = pattern, None
    while inner != outside:
        inner, outside = outside, _GROUP.sub("", outside)
    literal = _LITERAL.match(pattern) if "|" not in outside else None
    return literal[0] if literal else ""
