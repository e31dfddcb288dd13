"""Laws of the model of the dispatcher, for sequences of registrations that nobody would write."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from abiscan.dispatch.outcomes import FATAL, OutcomeKind
from abiscan.dispatch.state import State
from abiscan.registrations import LibraryKind, Registration
from tests.torch_calls import (
    cpp_function,
    define_operator,
    fall_back,
    implement_operator,
    open_library,
    register_operator,
    replay,
)

RELEASES: Final = st.sampled_from([(1, 4), (1, 5), (1, 6), (1, 7), (1, 8), (1, 12), (1, 13), (2, 1), (2, 13), (2, 15)])
KEYS: Final = st.sampled_from([None, "CPU", "CUDA", "Autograd", "Meta"])
TYPES: Final = st.sampled_from(
    [
        (None, None),
        ("FN2at6TensorERKS0_E", "(Tensor _0) -> Tensor _0"),
        ("FN2at6TensorERKS0_S2_E", "(Tensor _0, Tensor _1) -> Tensor _0"),
        ("FN2at6TensorERKS0_N3c106SymIntEE", "(Tensor _0, SymInt _1) -> Tensor _0"),
    ]
)
KERNELS: Final = st.builds(
    lambda key, type_: cpp_function(dispatch_key=key, signature=type_[0], inferred=type_[1]), KEYS, TYPES
)
BLOCKS: Final = st.builds(
    open_library,
    kind=st.sampled_from(LibraryKind),
    namespace=st.sampled_from([None, "a", "b"]),
    dispatch_key=KEYS,
    file=st.just("x.cpp"),
    line=st.integers(1, 3),
)
NAMES: Final = st.sampled_from(["f", "a::f", "b::g.out", "f."])
SCHEMAS: Final = st.builds(
    str.__add__, NAMES, st.sampled_from(["(Tensor x) -> Tensor", "(Tensor y) -> Tensor", "(Tensor x, SymInt n) -> ()"])
)
MODERN: Final = st.one_of(
    BLOCKS,
    st.builds(define_operator, block=BLOCKS, text=SCHEMAS),
    st.builds(define_operator, block=BLOCKS, text=NAMES, kernel=KERNELS),
    st.builds(implement_operator, block=BLOCKS, name=NAMES, kernel=KERNELS),
    st.builds(fall_back, block=BLOCKS, kernel=KERNELS),
)
OLD: Final = st.builds(
    register_operator, text=st.one_of(SCHEMAS, NAMES), kernels=st.lists(KERNELS, max_size=2).map(tuple)
)


@st.composite
def sequences(draw: st.DrawFn) -> tuple[tuple[int, int], list[Registration]]:
    release = draw(RELEASES)
    events: list[Registration] = draw(st.lists(OLD if release < (1, 6) else st.one_of(MODERN, OLD), max_size=8))
    return release, events


@given(sequences())
def test_only_the_last_outcome_throws(case: tuple[tuple[int, int], list[Registration]]) -> None:
    release, events = case
    outcomes = replay(State(), events, release).outcomes
    assert all(outcome.kind is not OutcomeKind.RAISES for outcome in outcomes[:-1])


@given(sequences())
def test_what_is_behind_is_refused_once_and_later(case: tuple[tuple[int, int], list[Registration]]) -> None:
    release, events = case
    result = replay(State(), events, release)
    refused = [outcome for outcome in (*result.outcomes, *result.after_failure) if outcome.kind in FATAL]
    assert result.failure is not None or not result.after_failure
    places = [next(at for at, event in enumerate(events) if event is outcome.event) for outcome in refused]
    assert places == sorted(places)
    assert len({(type(outcome.event), outcome.subject) for outcome in refused}) == len(refused)


@given(sequences(), st.integers(0, 8))
def test_in_two_parts_as_in_one(case: tuple[tuple[int, int], list[Registration]], cut: int) -> None:
    release, events = case
    whole = replay(State(), events, release)
    first = replay(State(), events[:cut], release)
    if first.failure is None:
        second = replay(first.state, events[cut:], release)
        assert second.state == whole.state
        assert (second.failure and second.failure.message) == (whole.failure and whole.failure.message)
    else:
        assert first.failure == whole.failure


@given(sequences())
def test_what_throws_changes_nothing_that_is_defined(case: tuple[tuple[int, int], list[Registration]]) -> None:
    release, events = case
    whole = replay(State(), events, release)
    if whole.failure is not None:
        before = replay(State(), events[: events.index(whole.failure.event)], release)
        for name, entry in before.state.operators.items():
            assert whole.state.operators[name].schema == entry.schema or entry.schema is None


@given(sequences())
def test_a_second_definition_throws_from_1_8_on(case: tuple[tuple[int, int], list[Registration]]) -> None:
    _, events = case
    definition = register_operator(text="z::z(Tensor x) -> Tensor", kernels=())
    assert replay(State(), [definition, definition], (1, 7)).failure is None
    failure = replay(State(), [definition, *events, definition], (1, 8)).failure
    assert failure is not None
