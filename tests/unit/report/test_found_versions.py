"""Versions that work together, as text."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from abiscan.report.fit_text import render_fit
from abiscan.results.fit import FitReport, Fitting, PublishedElsewhere, Rejected


def lines(*, verbose: bool = False, width: int = 60, **fields: Any) -> list[str]:
    stream = io.StringIO()
    fit = FitReport(**{"torch": "2.9.1+cpu", "installed": False, **fields})
    render_fit(fit, Console(file=stream, width=width, highlight=False), verbose=verbose)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_each_version_has_the_reason_against_the_next_newer_one() -> None:
    rejected = (Rejected(version="3.0", reason="is too new"), Rejected(version="2.0", reason="fails\nfor this"))
    packages = (Fitting(name="a", version="1.0", rejected=rejected), Fitting(name="b", version="5.0"))
    expected = [
        "with torch 2.9.1+cpu:",
        "  a==1.0  2.0 fails",
        "  b==5.0  the newest",
        "",
        "pip install torch==2.9.1 a==1.0 b==5.0",
    ]
    assert lines(packages=packages) == expected
    table = lines(packages=packages, verbose=True)
    assert [line.split() for line in table[3:-2]] == [
        [], ["newer", "version", "why", "it", "does", "not", "work"], ["a", "3.0", "is", "too", "new"],
        ["a", "2.0", "fails"],
    ]  # fmt: skip
    assert (table[:3], table[-2:]) == (expected[:3], expected[-2:])
    assert lines(packages=packages[1:], verbose=True) == [
        expected[0],
        *expected[2:4],
        "pip install torch==2.9.1 b==5.0",
    ]


def test_what_is_known_of_a_version() -> None:
    packages = (
        Fitting(name="a", version="1.0", note="works without a part"),
        Fitting(name="b", version="1.0", note="it ends early", proven=False),
        Fitting(name="c", version="1.0", variant="x86_64_v3"),
    )
    assert lines(packages=packages, installed=True, options=["--no-deps"], width=40) == [
        "with torch 2.9.1+cpu (installed):",
        "  a==1.0  works without a part; the newest",
        "  b==1.0  not proven: it ends early; the newest",
        "  c==1.0  variant x86_64_v3, for an installer that knows variants; the newest",
        "",
        "pip install --no-deps a==1.0 b==1.0 c==1.0",
    ]


def test_nothing_fits() -> None:
    place = PublishedElsewhere(name="a", page="https://a.example", command="abiscan fit a --find-links there")
    assert lines(obstacle="a has none\nfor it", torch_instead="2.8.0+cpu", elsewhere=[place], width=30) == [
        "a has none",
        "torch 2.8.0+cpu would work: use --torch 2.8.0",
        "builds of a are published at https://a.example; to look there, type:",
        "  abiscan fit a --find-links there",
    ]
