"""Versions that work together: what to type, and what a file of requirements has."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from abiscan.report.fit_text import render_fit
from abiscan.results.fit import FitReport, Fitting, Rejected

VISION = Fitting(
    name="vision", version="0.24.1", rejected=(Rejected(version="0.25.0", reason="requires torch==2.10.0"),)
)


@pytest.mark.parametrize(
    ("fit", "command", "file", "code"),
    [
        (
            FitReport(torch="2.9.1+cpu", installed=False, packages=(VISION,)),
            "pip install torch==2.9.1 vision==0.24.1",
            "# with torch 2.9.1+cpu\ntorch==2.9.1\nvision==0.24.1\n",
            0,
        ),
        (
            FitReport(torch="2.9.1+cpu", installed=True, packages=(VISION,), options=("--index-url", "a b")),
            "pip install --index-url 'a b' vision==0.24.1",
            "# with torch 2.9.1+cpu\nvision==0.24.1\n",
            0,
        ),
        (
            FitReport(torch=None, installed=False, packages=(VISION,)),
            "pip install vision==0.24.1",
            "vision==0.24.1\n",
            0,
        ),
        (FitReport(torch="2.9.1", installed=False, obstacle="no"), None, "# with torch 2.9.1\n", 1),
    ],
)
def test_what_to_type(fit: FitReport, command: str | None, file: str, code: int) -> None:
    assert (fit.command, fit.to_requirements(), fit.exit_code) == (command, file, code)


@pytest.mark.parametrize(
    ("fit", "verbose", "words", "absent"),
    [
        (
            FitReport(torch="2.9.1", installed=True, packages=(VISION,)),
            False,
            ["with torch 2.9.1 (installed):"],
            "newer",
        ),
        (
            FitReport(torch="2.9.1", installed=False, packages=(VISION,)),
            True,
            ["requires torch==2.10.0"],
            "(installed)",
        ),
        (
            FitReport(torch="2.9.1", installed=False, obstacle="no version\nat all", torch_instead="2.8.0+cpu"),
            False,
            ["no version", "torch 2.8.0+cpu would work: use --torch 2.8.0"],
            "with torch",
        ),
    ],
)
def test_what_is_shown(fit: FitReport, verbose: bool, words: list[str], absent: str) -> None:
    stream = io.StringIO()
    render_fit(fit, Console(file=stream, width=100), verbose=verbose)
    assert [word for word in words if word not in stream.getvalue()] == []
    assert absent not in stream.getvalue()
