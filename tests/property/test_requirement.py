"""A suggested requirement admits what it should, whatever that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.version import Version

from abiscan.inputs.requirement import simplest_requirement
from abiscan.torches import embedded

KNOWN = embedded.versions()


@pytest.mark.slow
@given(st.sets(st.sampled_from(KNOWN), min_size=1))
def test_it_admits_exactly_what_is_wanted(wanted: set[Version]) -> None:
    text = simplest_requirement(wanted, KNOWN)
    assert text is not None
    assert {version for version in KNOWN if Requirement(text).specifier.contains(version)} == wanted


@given(st.integers(0, len(KNOWN) - 1), st.integers(1, len(KNOWN)))
def test_a_run_of_releases_needs_two_bounds_at_most(first: int, length: int) -> None:
    text = simplest_requirement(KNOWN[first : first + length], KNOWN)
    assert text is not None
    assert text.count(",") <= 1
