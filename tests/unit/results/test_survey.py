"""What a line of a survey says, and what the summary makes of many."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

import abiscan
from abiscan.report.survey_text import render_summary
from abiscan.results.check import Report
from abiscan.results.survey import SurveyEntry, SurveyResult, SurveySummary
from abiscan.results.unchecked import Unchecked
from abiscan.results.verdict import Verdict
from tests.unit.report import reports


def line(target: str = "a.whl", torch: str = "2.9.1", **changes: Any) -> dict[str, Any]:
    tool = {"name": "abiscan", "version": abiscan.__version__}
    fields = {"version": 1, "tool": tool, "target": target, "sha256": None, "torch": torch, "verdict": "works"}
    return {**fields, "exit_code": 0, "package": None, "results": [], "unchecked": None, **changes}


def package(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "version": "1.0", "error": None, "gaps": [], "libraries": [], "findings": [], **changes}


def result(path: str = "_C.so", **changes: Any) -> dict[str, Any]:
    return {"path": path, "predicted_error": None, "findings": [], "cpu": None, **changes}


def read(fields: dict[str, Any]) -> SurveyEntry:
    return SurveyEntry.read(json.dumps(fields))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (line(package=package(error={"exception": "E", "message": "m\nmore", "cause": None})), "m"),
        (line(package=package(error={"exception": "E", "message": "m", "cause": "c\nmore"})), "c"),
        (line(package=package(error={"exception": "E", "message": None, "cause": None}, gaps=["cut"])), "cut"),
        (line(package=package(gaps=["cut", "torn"])), "cut"),
        (line(package=package()), None),
        (
            line(results=[result(), result(predicted_error={"message": "undefined symbol: f\nx"})]),
            "undefined symbol: f",
        ),
        (line(unchecked={"problem": "not a wheel\nx"}, package=package(gaps=["cut"])), "not a wheel"),
    ],
)
def test_what_users_see_first(fields: dict[str, Any], says: str | None) -> None:
    assert read(fields).says == says


def test_rules_are_those_that_do_harm_to_the_import() -> None:
    harmful, mild = {"rule": "a-rule", "effect": "load-fails"}, {"rule": "another-rule", "effect": "note"}
    libraries = [{"path": "_unused.so", "used": False}, {"path": "_C.so", "used": None}]
    results = [result(findings=[harmful, mild, harmful]), result("_unused.so", findings=[{**harmful, "rule": "third"}])]
    whole = package(libraries=libraries, findings=[{"rule": "own", "effect": "call-fails"}])
    assert read(line(package=whole, results=results)).rules == ("a-rule", "own")


def test_what_extensions_need_of_the_processor() -> None:
    avx, arm = {"level": "x86-64-v3", "load": ["fma", "avx2"]}, {"level": None, "load": ["sve", "lse"]}
    assert read(line(results=[result(cpu=avx), result()])).cpu == "x86-64-v3"
    assert read(line(results=[result(cpu=arm)])).cpu == "lse and sve"
    assert read(line(results=[result()])).cpu is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 2}, "another version"),
        ({"tool": {"name": "abiscan", "version": "0"}}, "another version"),
        ({"results": 3}, "not a line"),
        ({"package": [3]}, "not a line"),
    ],
)
def test_what_is_no_line_of_a_survey(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(line(**change))


def entry(target: str, torch: str, verdict: str, code: int, says: str | None = None, **changes: Any) -> SurveyEntry:
    fields = {"sha256": None, "name": target.partition("-")[0], "release": "1.0", "exception": None, "rules": ()}
    return SurveyEntry(target=target, torch=torch, verdict=verdict, exit_code=code, says=says, **{**fields, **changes})


ENTRIES = (
    entry("b-1.whl", "2.8.0", "import-fails", 1, "no f", rules=("undefined-symbol", "other")),
    entry("b-1.whl", "2.9.1", "works", 0, "a note"),
    entry("a-1.whl", "2.8.0", "import-fails", 1, "no f", rules=("undefined-symbol",)),
    entry("a-1.whl", "2.9.1", "import-fails", 1, "no g"),
    entry("c-1.whl", "2.9.1", "unknown", 3),
    entry("d-1+cpu.whl", "2.9.1", "works", 0, name="d"),
    entry("d-1+cu.whl", "2.9.1", "unreadable", 2, "cut", name="d"),
)


def test_causes_are_counted_the_commonest_first() -> None:
    summary = SurveySummary.of(ENTRIES)
    assert [(cause.rule, cause.says, cause.count, cause.example) for cause in summary.causes] == [
        ("undefined-symbol", "no f", 2, "a-1.whl"),
        (None, "cut", 1, "d-1+cu.whl"),
        (None, "no g", 1, "a-1.whl"),
    ]
    assert summary.torches == ("2.8.0", "2.9.1")
    assert [title for title, _ in summary.titled] == ["a 1.0", "b 1.0", "c 1.0", "d-1+cpu.whl", "d-1+cu.whl"]
    assert summary.counts == {"works": 2, "import-fails": 3, "unknown": 1, "unreadable": 1}


@pytest.mark.parametrize(("codes", "code"), [((0, 3, 2, 1), 1), ((0, 3, 2), 2), ((3, 0), 3), ((0,), 0), ((), 0)])
def test_the_worst_answer_decides(codes: tuple[int, ...], code: int) -> None:
    entries = [entry(f"{number}.whl", "2.9.1", "works", number) for number in codes]
    assert SurveySummary.of(entries).exit_code == code


def test_a_summary_as_text() -> None:
    stream = io.StringIO()
    many = [entry(f"{number:02}.whl", "2.9.1", "unknown", 3, name=f"{number:02}") for number in range(12)]
    render_summary(SurveySummary.of([*ENTRIES[:4], *many]), Console(file=stream, width=40))
    lines = [text.strip() for text in stream.getvalue().splitlines()]
    assert lines[:7] == [
        "14 targets on 2 torches: 16 answers",
        "✓      1  works",
        "b 1.0 on torch 2.9.1",
        "✗      3  import-fails",
        "a 1.0 on torch 2.8.0-2.9.1: no f, and 1 other error",
        "b 1.0 on torch 2.8.0: no f",
        "?     12  unknown",
    ]
    assert lines[16:] == [
        "09 1.0 on torch 2.9.1",
        "and 2 more",
        "commonest causes:",
        "2  undefined-symbol: no f (a-1.whl)",
        "1  no g (a-1.whl)",
    ]


@pytest.mark.parametrize(
    ("report", "verdict"),
    [
        (Report(results=()), "no-extension"),
        (Report(results=(), unchecked=(Unchecked(target="a", problem="", fix="", readable=True),)), "no-extension"),
        (Report(results=(), unchecked=(Unchecked(target="a", problem="", fix="", readable=False),)), "unreadable"),
        (Report(results=(reports.result(), reports.failure(), reports.result(verdict=Verdict.UNKNOWN))), "fails"),
        (Report(results=(reports.result(), reports.result(verdict=Verdict.UNKNOWN))), "unknown"),
        (Report(results=(reports.result(),)), "loads"),
    ],
)
def test_the_verdict_of_a_line(report: Report, verdict: str) -> None:
    assert SurveyResult(target="a", sha256=None, torch="2.9.1", report=report).verdict == verdict
