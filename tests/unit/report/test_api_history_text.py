"""A line for each release: what changed in the operators that an extension uses."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from abiscan.report.api_history_text import render_history
from abiscan.results.api_history import ApiHistory, Change, ReleaseApi

HISTORY = ApiHistory(
    target="_C.so",
    operators=("aten::f", "aten::g"),
    releases=(
        ReleaseApi(torch="1.5.0", version="a1", changes=(), gaps=0),
        ReleaseApi(torch="1.5.1", version="a1", changes=(), gaps=1),
        ReleaseApi(torch="1.6.0", version="b2", changes=(Change(operator="aten::g", what=("added",)),), gaps=0),
    ),
)


@pytest.mark.parametrize(
    ("verbose", "last"),
    [
        (False, ["torch 1.6.0  b2  changed: aten::g (added)"]),
        (True, ["torch 1.6.0  b2  changed: 1", "    aten::g (added)"]),
    ],
)
def test_releases_that_change_nothing_say_so(last: list[str], *, verbose: bool) -> None:
    stream = io.StringIO()
    render_history(HISTORY, Console(file=stream, width=80), verbose=verbose)
    assert stream.getvalue().splitlines() == [
        "_C.so: uses 2 operators of torch",
        "torch 1.5.0  a1",
        "torch 1.5.1  a1  unchanged  (1 gap)",
        *last,
    ]
