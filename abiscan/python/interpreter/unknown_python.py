"""The version of Python, of which a target may have several: what follows from it is asked, and not which one it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from abiscan.python.interpreter.values import TargetExpression, Versions, Why
from abiscan.python.package.model import Answer, World

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


def names_patch(text: str) -> bool:
    """Whether a text may have a patch release of Python in it that is not known."""
    return f".{_LAST_PATCH}" in text


def without_patch(text: str, python: tuple[int, int] | Answer) -> str:
    """Return a text with ``?`` for the patch release of Python, for which the last that there may be stands in."""
    if isinstance(python, Answer):
        return text
    major, minor = python
    return re.sub(rf"(?<![\d.])({major}\.{minor}\.){_LAST_PATCH}(?![\d.])", r"\1?", text)


def is_older(world: World, version: tuple[int, ...]) -> bool:
    """Whether the Python of a target is certainly older than a version."""
    newest = world.newest_python if isinstance(world.python, Answer) else world.python
    return newest is not None and newest < version


def is_newer(world: World, version: tuple[int, ...]) -> bool:
    """Whether the Python of a target is certainly a version or a newer one."""
    oldest = world.oldest_python if isinstance(world.python, Answer) else world.python
    return oldest is not None and oldest >= version


class _WorldOnPython:
    """A world with a certain Python."""

    def __init__(self, world: World, python: tuple[int, int]) -> None:
        self._world, self.python = world, python

    def __getattr__(self, name: str) -> object:
        return getattr(self._world, name)


class _Pythons(Versions, frozen=True):
    """Those that a target may have."""

    def worlds(self, world: World, _bounds: Iterable[object]) -> Iterator[World]:
        """Yield a world for each of them."""
        if not isinstance(world.python, Answer):
            yield world
            return
        (major, oldest), (_, newest) = world.oldest_python or _LEAST, world.newest_python or _MOST
        for minor in range(oldest, newest + 1):
            yield _WorldOnPython(world, (major, minor))  # type: ignore[misc]


_PYTHONS: Final = _Pythons(why=Why.ENVIRONMENT)


def of_python(name: str, of: Callable[[VersionInfo], object]) -> TargetExpression:
    """Return what follows from the version of Python, as a question to the target."""

    def of_world(world: World) -> object:
        return of(VersionInfo(*(world.newest_python or _MOST if isinstance(world.python, Answer) else world.python)))

    return TargetExpression(name, of_world, versions=_PYTHONS)
