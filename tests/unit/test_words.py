from __future__ import annotations

import pytest

from abiscan.words import listed, plural, ranges


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ("gap",), "0 gaps"),
        (1, ("gap",), "1 gap"),
        (2, ("gap",), "2 gaps"),
        (1, ("class", "classes"), "1 class"),
        (3, ("class", "classes"), "3 classes"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, words: tuple[str, ...], text: str) -> None:
    assert plural(count, *words) == text


def test_a_long_list_is_cut_and_counted() -> None:
    assert listed("abc") == "a, b, c"
    assert listed("abcde") == "a, b, c, and 2 more"
    assert listed([]) == ""


def test_a_range_skips_no_release() -> None:
    assert ranges({"1", "2", "4"}, "12345") == "1-2, 4"
    assert ranges({"5"}, "12345") == "5"
    assert ranges(set(), "12345") == ""
