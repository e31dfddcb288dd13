"""The numbers of dispatch keys, against ``dispatch-keys.txt``: those of 27 releases as read from their headers."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from abiscan.dispatch.keys import keys_of

TABLE = Path(__file__).with_name("dispatch-keys.txt").read_text("utf-8")
HEADER, *ROWS = (line.split() for line in TABLE.splitlines() if line.strip())


@pytest.mark.parametrize("minor", [minor for minor in HEADER[1:] if minor != "1.3"])
def test_every_number_of_the_headers_has_a_name_that_they_give_it(minor: str) -> None:
    column = HEADER.index(minor)
    names = keys_of(Version(minor)).names
    expected: dict[int, set[str]] = {}
    for row in ROWS:
        if row[column] != "-":
            expected.setdefault(int(row[column]), set()).add(row[0])  # headers keep old names beside new ones
    assert expected
    assert {number: names.get(number) for number, given in expected.items() if names.get(number) not in given} == {}
