"""What the reading of Python code says about small packages, against CPython, which imports them beside a stub."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.oracle.reading import changed
from tests.oracle.reading.generate import program
from tests.oracle.reading.read import cases, reading
from tests.oracle.reading.truth import Outcome, as_submodule, imported, verdict
from tests.oracle.reading.unknown import claimed, claimed_of, computed, expressions

CASES = cases()
WITH_GAPS = {
    "match_unknown_subject", "recursion_error", "open_outside_missing", "open_outside_present", "logging_handler",
    "sys_modules_self_class", "unknown_items_in_a_loop", "unknown_items_in_zip", "guard_of_a_case_that_may_fit",
    "unknown_items_and_else", "dataclasses_with_unknown_fields", "member_with_an_unknown_part",
    "item_with_an_unknown_part", "length_with_unknown_parts", "branch_that_may_remove_an_item",
    "branch_that_may_delete_an_item", "branch_that_may_set_an_attribute",
}  # fmt: skip
"""The packages in which the environment, the limit of Python's stack, or what is not known of a value decides how it
ends.
"""


SUBMODULES = {name: inner for name, code in CASES.items() if (inner := as_submodule(code)) is not None}
DIFFERENT_INSIDE = {
    "unbound_local",  # a function that is called may use a name that it has not bound
    "chain_comparison_own",
    "exec_submodule_text",
}
"""What is read otherwise if a submodule does it."""


@pytest.fixture(scope="module")
def programs() -> Mapping[str, str]:
    """Programs at random, which take seconds to make."""
    return {str(seed): program(seed) for seed in range(60)}


@pytest.fixture(scope="module")
def real(programs: Mapping[str, str]) -> Mapping[tuple[str, bool], Outcome]:
    """What importing each package does, where "bad" fails to load, and where it does not."""
    return {
        (name, failing): outcome
        for failing in (True, False)
        for name, outcome in imported({**CASES, **programs}, failing=failing).items()
    }


@pytest.mark.parametrize("name", CASES)
def test_is_read_as_it_runs(name: str, real: Mapping[tuple[str, bool], Outcome]) -> None:
    agrees = {"agrees", "gap"} if name in WITH_GAPS else {"agrees"}
    for failing in (True, False):
        read = reading(CASES[name], failing=failing)
        assert verdict(real[name, failing], read) in agrees, (failing, real[name, failing], read)


@pytest.mark.long
@pytest.mark.parametrize("failing", [True, False], ids=["fails", "loads"])
def test_a_submodule_is_read_as_it_runs(failing: bool) -> None:
    real = imported(SUBMODULES, failing=failing)
    wrong = {}
    for name in SUBMODULES.keys() - DIFFERENT_INSIDE:
        agrees = {"agrees", "gap"} if name in WITH_GAPS else {"agrees"}
        found = verdict(real[name], reading(SUBMODULES[name], failing=failing))
        if found not in agrees:
            wrong[name] = found
    assert wrong == {}
    assert len(SUBMODULES) > 400


def test_the_page_on_accuracy_counts_them() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "accuracy.md").read_text("utf-8")
    assert f"{len(CASES)} packages in miniature" in page
    assert f"all but {len(WITH_GAPS)} of the packages" in page


def test_programs_are_read_as_they_run(programs: Mapping[str, str], real: Mapping[tuple[str, bool], Outcome]) -> None:
    compare(programs, {failing: {name: real[name, failing] for name in programs} for failing in (True, False)})


@pytest.mark.long
def test_more_programs_are_read_as_they_run() -> None:
    programs = {str(seed): program(seed) for seed in range(60, 150)}
    compare(programs, {failing: imported(programs, failing=failing) for failing in (True, False)})


def compare(programs: Mapping[str, str], real: Mapping[bool, Mapping[str, Outcome]]) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for name, code in programs.items():
        for failing in (True, False):
            read = reading(code, failing=failing)
            found = verdict(real[failing][name], read)
            counts[found] += 1
            if found not in {"agrees", "gap"}:
                wrong.append((name, failing, found, real[failing][name], read))
    assert wrong == []
    assert counts["gap"] <= 0.05 * counts.total()


def test_programs_load_and_fail_in_many_ways(
    programs: Mapping[str, str], real: Mapping[tuple[str, bool], Outcome]
) -> None:
    outcomes = [real[name, failing] for name in programs for failing in (True, False)]
    assert {"OSError", "ValueError", "KeyError", "TypeError", "AssertionError"} <= {one.raised for one in outcomes}
    assert sum(one.raised is None for one in outcomes) > len(outcomes) / 4
    assert sum(len(one.loads) > 2 for one in outcomes) > len(outcomes) / 4


@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_of_unknown_operands_is_what_python_computes(seed: int) -> None:
    texts = expressions(seed, 80)
    real, read = computed(texts), claimed(texts)
    # What is not known may raise in Python; what is claimed of the rest then says nothing.
    values = {number: value for number, value in read.items() if not _is_error(real[number])}
    wrong = {texts[number]: (value, real[number]) for number, value in values.items() if value != real[number]}
    assert wrong == {}
    assert len(values) > 4


@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_of_a_container_holds_however_often_it_was_changed(seed: int) -> None:
    bodies = changed.functions(seed, 150)
    read = claimed_of(changed.program(bodies))
    wrong = {}
    for rounds in range(3):
        real = changed.computed(bodies, rounds)
        for number, value in read.items():
            if value != real[number] and not _is_error(real[number]):
                wrong[bodies[number]] = (rounds, value, real[number])
    assert wrong == {}
    assert len(read) > 15


def _is_error(printed: str) -> bool:
    return re.fullmatch(r"\w+Error|StopIteration", printed) is not None
