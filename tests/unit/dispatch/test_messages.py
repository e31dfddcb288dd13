"""What a message says of what is not known."""

from __future__ import annotations

import pytest

from abiscan.dispatch.messages import word_message


@pytest.mark.parametrize(("place", "said", "is_exact"), [("a/b.cpp:12", "a/b.cpp:12", True), (None, "?", False)])
def test_a_place_that_is_not_known_is_a_question_mark(place: str | None, said: str, is_exact: bool) -> None:
    found = word_message("L9", (2, 13), place=place, kind="FRAGMENT", file="x.cpp", line=2)
    assert f"INTERNAL ASSERT FAILED at {said}, please report a bug to PyTorch." in found.text
    assert found.exact is is_exact


@pytest.mark.parametrize("place", ["a/b.cpp:12", None])
def test_a_message_without_a_place_is_exact_without_one(place: str | None) -> None:
    assert word_message("S1", (2, 13), place=place, name="ns::op").exact


def test_only_some_releases_have_a_message() -> None:
    with pytest.raises(LookupError, match=r"X1 in \(2, 13\)"):
        word_message("X1", (2, 13))
