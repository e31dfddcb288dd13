"""``sys.version_info`` of a Python that is not known: what the oldest and the newest that it may be have in common."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from abiscan.python.model import Answer, World
from abiscan.python.values import NotKnown

_ITEMS: Final = {".major": 0, "[0]": 0, ".minor": 1, "[1]": 1}
_LEAST: Final = (3, 0)
_MOST: Final = (3, 99)
"""No torch whose wheels are not listed is for Python 2, and there is no Python 4."""
_LAST_PATCH: Final = 99


class VersionInfo(NamedTuple):
    """``sys.version_info``. The patch release is not known: the last that there may be."""

    major: int
    minor: int
    micro: int = _LAST_PATCH
    releaselevel: str = "final"
    serial: int = 0


def as_number(version: VersionInfo) -> int:
    """Return ``sys.hexversion``: see PY_VERSION_HEX in Include/patchlevel.h; all that are here are final."""
    return (version.major << 24) + (version.minor << 16) + (version.micro << 8) + 0xF0


def without_patch(text: str, python: tuple[int, int] | Answer) -> str:
    """Return a text with ``?`` for the patch release of Python, for which the last that there may be stands in."""
    if isinstance(python, Answer):
        return text
    major, minor = python
    return re.sub(rf"(?<![\d.])({major}\.{minor}\.){_LAST_PATCH}(?![\d.])", r"\1?", text)


class UnknownVersion(NotKnown, frozen=True, eq=False, kw_only=True):
    """``sys.version_info``, its beginning, one of its first two items, or ``sys.hexversion``.

    :ivar tells: asks the target what follows from its Pythons: see ``AskedWorld.tells``
    :ivar pick: takes the part from the whole: that of a newer Python is no less
    """

    tells: Callable[[str, Callable[[World], object]], object]
    pick: Callable[[Any], Any] = VersionInfo._make

    def part(self, suffix: str, *args: object) -> NotKnown:
        """Return what comes out of it by an attribute, a call or an index."""
        index = _ITEMS.get(suffix)
        part = super().part(suffix, *args)
        return part if index is None else self._taken(part, operator.itemgetter(index))

    def item(self, index: object, part: NotKnown) -> NotKnown:
        """Return an item or a slice of it, ``part`` if it is another than the beginning."""
        if isinstance(index, slice) and index.start in (None, 0) and index.step in (None, 1):
            return self._taken(part, lambda version: tuple(version)[index])
        return self.part(f"[{index}]") if isinstance(index, int) else part

    def _taken(self, part: NotKnown, take: Callable[[Any], Any]) -> NotKnown:
        if self.pick != VersionInfo._make:
            return part
        return UnknownVersion(part.name, part.why, part.origin, tells=self.tells, pick=take)


def decide_comparison(name: str, compare: Callable[[Any, Any], object], left: object, right: object) -> bool | None:
    """Return a comparison of a version that comes out alike for all Pythons of the target, None if it does not."""
    version, bound = (left, right) if isinstance(left, UnknownVersion) else (right, left)
    if not (isinstance(version, UnknownVersion) and isinstance(bound, (int, tuple))):
        return None

    def ask(world: World) -> bool | None:
        oldest, newest = (
            version.pick(VersionInfo(*python))
            for python in (world.oldest_python or _LEAST, world.newest_python or _MOST)
        )
        if compare in (operator.eq, operator.ne) and oldest < bound < newest:
            return None
        answers = {bool(compare(*((end, bound) if version is left else (bound, end)))) for end in (oldest, newest)}
        return answers.pop() if len(answers) == 1 else None

    try:
        answer = version.tells(f"whether {name} for {bound!r}", ask)
    except TypeError:
        return None
    return answer if isinstance(answer, bool) else None
