"""Which releases agree with the traces in an extension, and what replaces a symbol in a port."""

from __future__ import annotations

import pytest

from abiscan.binary.machines import Machine
from abiscan.extension import built_for, counterparts
from abiscan.extension.built_for import BuiltFor, Clue, Kind, span
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded

ALL = embedded.versions(Machine.X86_64)
V = TorchVersion


def clue(kind: Kind, *releases: TorchVersion) -> Clue:
    return Clue(kind=kind, seen=f"{kind.name} {len(releases)}", releases=releases)


NOTHING = BuiltFor(releases=(), clues=())


def test_each_clue_narrows_what_is_left() -> None:
    first = clue(Kind.IMPORTS, *ALL[2:8])
    narrower, wider = clue(Kind.SIBLINGS, *ALL[4:9]), clue(Kind.SIBLINGS, *ALL[1:9])
    contradicting, all_of_them = clue(Kind.REQUIREMENT, *ALL[10:]), clue(Kind.REQUIREMENT, *ALL)
    found = built_for._follow_clues(NOTHING, Machine.X86_64, [first, wider, narrower, contradicting, all_of_them])
    assert (found.releases, found.clues) == (ALL[4:8], (first, narrower))
    # What is in its own bytes is shown even if it only confirms.
    confirming = clue(Kind.DISPATCH_KEYS, *ALL[1:9])
    again = built_for._follow_clues(found, Machine.X86_64, [confirming, clue(Kind.DISPATCH_KEYS, *ALL)])
    assert (again.releases, again.clues) == (
        found.releases,
        (first, narrower, confirming, clue(Kind.DISPATCH_KEYS, *ALL)),
    )
    assert built_for._follow_clues(NOTHING, Machine.X86_64, [all_of_them]) == NOTHING


def test_the_releases_with_the_most_traces() -> None:
    best = built_for._best_releases
    sets = {f"f{number}": frozenset(ALL[:5]) for number in range(200)}
    assert best({}, Machine.X86_64) == ()
    assert best({"x": frozenset()}, Machine.X86_64) == (), "what no release has does not count"
    assert best({**sets, "x": frozenset()}, Machine.X86_64) == ALL[:5]
    assert best({**sets, "y": frozenset(ALL[3:])}, Machine.X86_64) == ALL[3:5]
    few = {**dict(list(sets.items())[:200]), "z": frozenset(ALL[7:])}
    assert best(few, Machine.X86_64) == ALL[:5], "one of many may be the package's own"
    assert best({"a": frozenset(ALL[:1]), "b": frozenset(ALL[1:2])}, Machine.X86_64) == (), "of two, one is too many"


def test_the_traces_that_a_reader_can_check() -> None:
    traces = {
        "everywhere": frozenset(ALL), "new": frozenset(ALL[4:]), "newer": frozenset(ALL[5:]),
        "gone": frozenset(ALL[:8]), "elsewhere": frozenset(ALL[:2]),
    }  # fmt: skip
    agreeing = ALL[5:8]
    said = built_for._describe_bounds(traces, agreeing, Machine.X86_64)
    assert said == f"imports newer (in torch since {ALL[5]}) and gone (in torch up to {ALL[7]})"
    assert (
        built_for._describe_bounds({"everywhere": frozenset(ALL)}, ALL, Machine.X86_64) == "imports 1 symbol of torch"
    )
    assert built_for._rarest_trace(traces, agreeing) == "gone"
    assert built_for._rarest_trace({"b": frozenset(ALL[:1]), "a": frozenset(ALL[:1])}, ALL) == "a"


def test_releases_as_text() -> None:
    assert [span(releases) for releases in ((), (V("2.5.0"),), (V("2.5.0"), V("2.5.1"), V("2.6.0")))] == [
        *("no known torch", "torch 2.5.0", "torch 2.5.0-2.6.0"),
    ]


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("at::f(int)", "at::f"),
        ("at::f<void (int)>(long)", "at::f<void (int)>"),
        ("at::f", "at::f"),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ("at::operator<<(std::ostream&)", "at::operator<<"),
        ("at::operator()(int)", "at::operator()"),
        ("at::X::operator<(at::X)", "at::X::operator<"),
        ("at::f<std::vector<int> >(x)", "at::f<std::vector<int> >"),
    ],
)
def test_where_the_parameters_of_a_name_begin(name: str, before: str) -> None:
    assert name[: counterparts._parameters_at(name)] == before
