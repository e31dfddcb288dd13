"""The newest versions that go together: an exact search, which asks as little as it can.

The newest version of the first package counts most, then that of the second, and so on. What two versions require of
each other is cheap to know; whether one works is not, and is asked only of a version that could be part of the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

_Version = TypeVar("_Version")


class Search(Struct, Generic[_Version], frozen=True, kw_only=True):
    """What is searched.

    ``candidates`` has the versions of each package, newest first; ``reason`` says why a version does not work, and
    ``conflict`` why two versions of different packages do not go together; None if they do.
    """

    candidates: Mapping[str, Sequence[_Version]]
    reason: Callable[[_Version], str | None]
    conflict: Callable[[_Version, _Version], str | None]

    def newest(self, names: Sequence[str] | None = None) -> dict[str, _Version] | None:
        """Return the newest versions of these packages (by default all) that work and go together; None if there are
        none.
        """
        return self._extend({}, list(self.candidates if names is None else names))

    def _extend(self, chosen: dict[str, _Version], names: Sequence[str]) -> dict[str, _Version] | None:
        if not names:
            return chosen
        name, *remainder = names
        hopeful = False
        for version in self.candidates[name]:
            if not self._goes_with(version, chosen):
                continue
            extended = {**chosen, name: version}
            # Forward checking: a choice that leaves a later package without any version is given up before it is
            # judged. A judgement costs a download, a comparison of metadata next to nothing.
            if not all(
                any(self._goes_with(candidate, extended) for candidate in self.candidates[later]) for later in remainder
            ):
                continue
            # Asked last, of a version that all that is chosen goes with, and that leaves every other package a version.
            if self.reason(version) is not None:
                continue
            if (result := self._extend(extended, remainder)) is not None:
                return result
            # If the others have no versions whatever this one is, its older versions need not be judged.
            if not hopeful and self._extend(chosen, remainder) is None:
                return None
            hopeful = True
        return None

    def _goes_with(self, version: _Version, chosen: Mapping[str, _Version]) -> bool:
        return all(self.conflict(version, item) is None for item in chosen.values())

    def obstacle(self) -> tuple[str, ...]:
        """Return the smallest group of packages of which no versions work and go together; empty if there is none."""
        names = list(self.candidates)
        for size in range(1, len(names) + 1):
            for group in itertools.combinations(names, size):
                if self.newest(group) is None:
                    return group
        return ()
