"""What running torches said is put into the data files, release by release."""

from __future__ import annotations

import pytest

from tools import build_acceptance_data, record_crossing
from tools.ask_torch import ACCEPTANCE, STABLE_TYPES

SEEN = "seen 2.7.1 2.8.0 2.8.1\nTensor 2.7\nint 2.8\nstr -\n"


def test_the_newest_release_out_and_in_again() -> None:
    text = STABLE_TYPES.read_text("utf-8")
    newest = text.split("\n", 1)[0].split()[-1]
    crossing = {line.split()[0] for line in text.splitlines()[1:] if not line.endswith(" -")}
    without = record_crossing.replaced(text, {}, [newest])
    assert newest not in without
    assert record_crossing.replaced(without, {newest: crossing}) == text


@pytest.mark.parametrize(
    ("release", "crossing", "expected"),
    [
        ("2.9.0", ["Tensor", "int", "str"], ["seen 2.7.1 2.8.0 2.8.1 2.9.0", "Tensor 2.7", "int 2.8", "str 2.9"]),
        ("2.9.0", ["Tensor"], ["seen 2.7.1 2.8.0 2.8.1 2.9.0", "Tensor 2.7", "int -", "str -"]),
        ("2.8.1", ["Tensor", "int"], ["seen 2.7.1 2.8.0 2.8.1", "Tensor 2.7", "int 2.8", "str -"]),
        ("2.7.1", ["str"], SEEN.splitlines()),  # of a release before the newest, nothing can be put in
    ],
)
def test_a_release_that_is_asked(release: str, crossing: list[str], expected: list[str]) -> None:
    assert record_crossing.replaced(SEEN, {release: crossing}).splitlines() == expected


def test_what_the_only_release_of_a_minor_version_began_ends_with_it() -> None:
    assert record_crossing.replaced(SEEN, {}, ["2.8.1"]) == SEEN.replace(" 2.8.1", "")
    assert record_crossing.replaced(SEEN, {}, ["2.8.0", "2.8.1"]) == "seen 2.7.1\nTensor 2.7\nint -\nstr -\n"


def test_what_releases_accept_is_in_their_order() -> None:
    text = ACCEPTANCE.read_text("utf-8")
    assert build_acceptance_data.replaced(text, {}) == text
    added = build_acceptance_data.replaced(text, {"2.9.10": {"type_words": []}}, ["1.4.0"])
    assert '"1.4.0"' not in added
    assert added.index('"2.9.1"') < added.index('"2.9.10"') < added.index('"2.10.0"')
