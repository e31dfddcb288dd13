"""The search for versions that go together: ``fit``, ``doctor``, ``pip`` and ``uv`` ask it, each with its candidates.

A combination of versions is proposed, the best first, and checked; what does not work is excluded, and the next
combination is proposed (``find_combination``). Proposing is cheap and checking is not, so only what could be the answer
is checked. Where every version and what it requires are known, ``ExactSearch`` proposes; where only an installer's
resolver knows them, that does (``hooks/solution``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from abiscan.errors import InputError

_MOST_COMPARED: Final = 5_000_000
"""The most pairs of versions that one exact search compares: what a pair requires of each other, an index decides."""

_Combination = TypeVar("_Combination")
_Fault = TypeVar("_Fault")
_Version = TypeVar("_Version")


class Proposer(Protocol[_Combination, _Fault]):
    """The versions that a search may choose from, in the order of preference."""

    def propose(self) -> Iterator[_Combination]:
        """Yield combinations, the best first; those with what was excluded meanwhile are left out."""

    def find_faults(self, combination: _Combination) -> Sequence[_Fault] | None:
        """Return what does not work in a combination; None if that cannot be said, and the search is over."""

    def exclude(self, faults: Sequence[_Fault]) -> bool:
        """Leave out from now on what does not work. Return whether that leaves something to look for."""


def find_combination(proposer: Proposer[_Combination, _Fault], *, most: int | None = None) -> _Combination | None:
    """Return the best combination that works; None if there is none.

    :param most: how many combinations are checked at most
    """
    for combination in itertools.islice(proposer.propose(), most):
        faults = proposer.find_faults(combination)
        if faults is None:
            return None
        if not faults:
            return combination
        if not proposer.exclude(faults):
            return None
    return None


class ExactSearch(Struct, Generic[_Version], frozen=True, kw_only=True):
    """A search that knows all versions: it finds the newest that go together, or the group of packages that has none.

    The newest version of the first package counts most, then that of the second, and so on. What two versions require
    of each other is cheap to know; whether one works is not, and is asked only of a version that could be part of the
    answer.

    :ivar candidates: the versions of each package, newest first
    :ivar reason: why a version does not work; None if it does
    :ivar conflict: why two versions of different packages do not go together; None if they do
    """

    candidates: Mapping[str, Sequence[_Version]]
    reason: Callable[[_Version], str | None]
    conflict: Callable[[_Version, _Version], str | None]

    def find_newest(self, names: Sequence[str] | None = None) -> dict[str, _Version] | None:
        """Return the newest versions of these packages (by default all) that work and go together; None if there are
        none.

        :raises InputError: too many versions would have to be compared
        """
        return find_combination(_Versions(self, list(self.candidates if names is None else names)))

    def find_obstacle(self) -> tuple[str, ...]:
        """Return the smallest group of packages of which no versions work and go together; empty if there is none.

        :raises InputError: too many versions would have to be compared
        """
        names = list(self.candidates)
        for size in range(1, len(names) + 1):
            for group in itertools.combinations(names, size):
                if self.find_newest(group) is None:
                    return group
        return ()


class _Versions(Generic[_Version]):
    """The versions of some packages as candidates: what their metadata admit, without those that do not work."""

    def __init__(self, search: ExactSearch[_Version], names: Sequence[str]) -> None:
        self._search = search
        self._names = names
        self._excluded: set[_Version] = set()
        self._compared = 0

    def propose(self) -> Iterator[dict[str, _Version]]:
        """Yield the combinations that go together, the newest first."""
        return self._extend({}, self._names)

    def find_faults(self, combination: Mapping[str, _Version]) -> Sequence[_Version]:
        """Return the first version that does not work, if there is one; the next are not looked at."""
        faults = (version for version in combination.values() if self._search.reason(version) is not None)
        return [*itertools.islice(faults, 1)]

    def exclude(self, faults: Sequence[_Version]) -> bool:
        """Leave out these versions. Other combinations are left until none is proposed."""
        self._excluded.update(faults)
        return True

    def _extend(self, chosen: dict[str, _Version], names: Sequence[str]) -> Iterator[dict[str, _Version]]:
        if not names:
            yield chosen
            return
        name, *remainder = names
        hopeful = False
        for version in self._search.candidates[name]:
            extended = {**chosen, name: version}
            if not self._is_possible(name, version, chosen) or not self._leaves_some(extended, remainder):
                continue
            for combination in self._extend(extended, remainder):
                yield combination
                if not self._excluded.isdisjoint(extended.values()):
                    break
            if not self._excluded.isdisjoint(chosen.values()):
                return
            # If the others have no versions whatever this one is, its older versions need not be checked.
            if version not in self._excluded and not hopeful:
                if next(self._extend(chosen, remainder), None) is None:
                    return
                hopeful = True

    def _leaves_some(self, chosen: Mapping[str, _Version], names: Sequence[str]) -> bool:
        return all(
            any(self._is_possible(name, version, chosen) for version in self._search.candidates[name]) for name in names
        )

    def _is_possible(self, name: str, version: _Version, chosen: Mapping[str, _Version]) -> bool:
        """Whether a version of a package is not excluded, and goes with the versions that are chosen."""
        return version not in self._excluded and all(
            self._goes_with(name, version, chosen_name, chosen[chosen_name]) for chosen_name in chosen
        )

    def _goes_with(self, name: str, version: _Version, chosen_name: str, chosen: _Version) -> bool:
        self._compared += 1
        if self._compared > _MOST_COMPARED:
            problem = f"more than {_MOST_COMPARED:,} pairs of versions would have to be compared"
            raise InputError(f"{name} and {chosen_name}", problem, f"narrow it down, as in '{name}>=VERSION'")
        return self._search.conflict(version, chosen) is None
