"""The search for versions that go together, against trying every combination."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abiscan.errors import InputError
from abiscan.pipelines.version_search import ExactSearch, find_combination

Version = tuple[str, int]
NAMES = ("a", "b", "c", "d")


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[str, list[Version]], set[Version], set[frozenset[Version]]]:
    """Versions of up to four packages, those that do not work, and pairs that do not go together."""
    names = NAMES[: draw(st.integers(1, 4))]
    candidates = {name: [(name, number) for number in reversed(range(draw(st.integers(1, 4))))] for name in names}
    versions = [version for each in candidates.values() for version in each]
    pairs = [frozenset(pair) for pair in itertools.combinations(versions, 2) if pair[0][0] != pair[1][0]]
    broken = draw(st.sets(st.sampled_from(versions), max_size=5))
    conflicts = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    return candidates, broken, conflicts


@pytest.mark.slow
@given(problems())
def test_it_finds_what_trying_everything_finds(
    problem: tuple[dict[str, list[Version]], set[Version], set[frozenset[Version]]],
) -> None:
    candidates, broken, conflicts = problem

    def works(combination: Sequence[Version]) -> bool:
        pairs = map(frozenset, itertools.combinations(combination, 2))
        return not broken & set(combination) and not any(pair in conflicts for pair in pairs)

    def first(names: Sequence[str]) -> dict[str, Version] | None:
        # product counts like an odometer: in the order of the newest first package, then the second
        found = next(filter(works, itertools.product(*(candidates[name] for name in names))), None)
        return None if found is None else dict(zip(names, found, strict=True))

    search = ExactSearch(
        candidates=candidates,
        reason=lambda version: "broken" if version in broken else None,
        conflict=lambda one, other: "conflict" if frozenset((one, other)) in conflicts else None,
    )
    assert search.find_newest() == first(list(candidates))
    group = search.find_obstacle()
    assert bool(group) is (search.find_newest() is None)
    if group:
        assert first(group) is None
        assert all(first(smaller) is not None for smaller in itertools.combinations(group, len(group) - 1) if smaller)


def test_only_versions_that_could_be_the_answer_are_judged() -> None:
    judged: list[Version] = []

    def reason(version: Version) -> None:
        judged.append(version)

    search = ExactSearch(
        candidates={"a": [("a", 2), ("a", 1)], "b": [("b", 2), ("b", 1)]},
        reason=reason,
        conflict=lambda one, other: "conflict" if ("a", 2) in (one, other) else None,
    )
    assert search.find_newest() == {"a": ("a", 1), "b": ("b", 2)}
    assert judged == [("a", 1), ("b", 2)]


def test_if_another_package_has_no_version_older_ones_are_not_judged() -> None:
    judged: list[Version] = []

    def reason(version: Version) -> str | None:
        judged.append(version)
        return "broken" if version[0] == "b" else None

    candidates = {"a": [("a", number) for number in (3, 2, 1)], "b": [("b", 2), ("b", 1)]}
    search = ExactSearch(candidates=candidates, reason=reason, conflict=lambda *_: None)
    assert search.find_newest() is None
    assert {version for version in judged if version[0] == "a"} == {("a", 3)}


class Numbers:
    """Candidates 1, 2, 3 …, of which only some work."""

    def __init__(self, working: int, *, readable: bool = True, more: bool = True) -> None:
        self.working, self.readable, self.more = working, readable, more
        self.excluded: list[int] = []

    def propose(self) -> Iterator[int]:
        return itertools.count(1)

    def find_faults(self, combination: int) -> Sequence[int] | None:
        if not self.readable:
            return None
        return [] if combination == self.working else [combination]

    def exclude(self, faults: Sequence[int]) -> bool:
        self.excluded += faults
        return self.more


def test_what_fails_is_excluded_until_something_works_or_the_limit_is_reached() -> None:
    numbers = Numbers(3)
    assert (find_combination(numbers, most=3), numbers.excluded) == (3, [1, 2])
    assert find_combination(Numbers(3), most=2) is None
    assert find_combination(Numbers(3, more=False)) is None
    assert find_combination(Numbers(1, readable=False)) is None


def test_too_many_pairs_are_an_error_that_says_how_to_narrow_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abiscan.pipelines.version_search._MOST_COMPARED", 3)
    versions = {name: [(name, number) for number in range(3)] for name in "ab"}
    search = ExactSearch(candidates=versions, reason=lambda _: None, conflict=lambda *_: "conflict")
    with pytest.raises(InputError, match=r"more than 3 pairs of versions .*narrow it down, as in 'b>=VERSION'"):
        search.find_newest()
