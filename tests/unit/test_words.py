from __future__ import annotations

import pytest

from abiscan.words import first_line, listed, plural, ranges


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


def test_a_first_line_goes_on_after_a_colon() -> None:
    text = "\nNo libx. Likely causes:\n    1. FFmpeg is not installed.\n    2. The version of torch.\n\n  More:\n"
    assert first_line(text) == "No libx. Likely causes: 1. FFmpeg is not installed. 2. The version of torch."
    assert first_line("one\ntwo:\nthree") == "one"
    assert first_line("nothing follows:") == "nothing follows:"
