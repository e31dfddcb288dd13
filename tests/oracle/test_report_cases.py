"""What users reported, by ``tools/report_cases.py``: its scores, and the answers that are recorded.

``report_answers.jsonl`` is what ``--record`` wrote. With ``ABISCAN_CORPUS``, a folder for the wheels, they are checked
again: what was right has to stay right.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.results.package import PackageVerdict
from abiscan.results.verdict import Verdict
from tests.oracle import corpus
from tests.oracle.corpus import needs_corpus
from tools import report_cases
from tools.report_cases import Answer, Report, Score, SmallCase, Truth, read_answer, score

ROOT: Final = Path(__file__).resolve().parents[2]
ANSWERS: Final = ROOT / "tests" / "oracle" / "report_answers.jsonl"
LOADS: Final = ROOT / "sample_binaries" / "loads" / "loads.so"
VERDICTS: Final = {one.value for verdicts in (PackageVerdict, Verdict) for one in verdicts} | {"0", "1"}

FAILS: Final = Truth(verdict=("import-fails",), says=("no attribute 'nope'",), silent=("maybe",))


def answers() -> dict[str, dict[str, str]]:
    return {row["case"]: row for row in map(json.loads, ANSWERS.read_text("utf-8").splitlines())}


@pytest.mark.parametrize(
    ("verdict", "text", "expected"),
    [
        ("import-fails", "has no attribute 'nope'", Score.RIGHT),
        ("import-fails", "has no attribute 'other'", Score.WRONG),
        ("import-fails", "maybe it has no attribute 'nope'", Score.WRONG),
        ("works", "has no attribute 'nope'", Score.WRONG),
        ("unknown", "has no attribute 'nope'", Score.UNKNOWN),
        ("no answer", "there is no wheel", Score.UNKNOWN),
        ("too slow", "", Score.UNKNOWN),
    ],
)
def test_score(verdict: str, text: str, expected: Score) -> None:
    assert score(FAILS, Answer(verdict=verdict, text=text)) is expected


def test_unknown_is_right_where_the_report_admits_it() -> None:
    assert score(Truth(verdict=("works", "unknown")), Answer(verdict="unknown", text="")) is Score.RIGHT


@pytest.mark.parametrize(
    ("code", "document", "verdict"),
    [
        (1, {"packages": [{"verdict": "import-fails"}], "results": [{"verdict": "loads"}]}, "import-fails"),
        (1, {"results": [{"verdict": "loads"}, {"verdict": "fails"}]}, "fails"),
        (3, {"results": [{"verdict": "loads"}, {"verdict": "unknown"}]}, "unknown"),
        (0, {"results": [{"verdict": "loads"}]}, "loads"),
        (1, {"backend": "CUDA"}, "1"),
        (2, None, "no answer"),
    ],
)
def test_what_an_answer_says(code: int, document: dict[str, Any] | None, verdict: str) -> None:
    answer = read_answer(code, json.dumps(document) if document else "", "abiscan: it is said why")

    assert answer.verdict == verdict
    assert answer.text.endswith("it is said why")


def test_the_others_follow_one_that_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def time_out(*_arguments: object, timeout: float, **_others: object) -> None:
        raise subprocess.TimeoutExpired("abiscan", timeout)

    case = SmallCase(case=".", arguments=("check", "absent.so"), verdict=("fails",))
    monkeypatch.setattr(report_cases, "read", lambda _path, type_: [case, case] if type_ is SmallCase else [])
    monkeypatch.setattr(subprocess, "run", time_out)
    monkeypatch.setattr(sys, "argv", ["report_cases", "--cases", str(tmp_path)])

    assert report_cases.main() == 0
    assert "abiscan check absent.so: too slow; true is fails\n0 right, 2 unknown, 0 wrong" in capsys.readouterr().out


def test_every_row_of_the_records() -> None:
    reports = report_cases.read(report_cases.REPORTS, Report)
    cases = report_cases.read(report_cases.SMALL_CASES, SmallCase)

    assert len({one.report for one in reports if "(way out)" not in one.report}) >= 55
    assert len({one.name for one in reports}) == len(reports)
    assert len({one.name for one in cases}) == len(cases)
    assert {verdict for one in (*reports, *cases) for verdict in one.verdict} <= VERDICTS
    assert all(one.happened for one in reports)


def test_the_answers_are_those_to_the_reports() -> None:
    assert list(answers()) == [report.name for report in report_cases.read(report_cases.REPORTS, Report)]


def test_the_page_has_the_figures() -> None:
    counts = Counter(row["score"] for row in answers().values())
    figures = ", ".join(f"{counts[one.value]} {one.value}" for one in Score)

    assert figures in " ".join((ROOT / "docs" / "accuracy.md").read_text("utf-8").split())


def test_cases_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "loads-1.so").symlink_to(LOADS)
    rows = [
        SmallCase(case="small", arguments=("check", "loads-*.so", "--torch", "2.13.0"), verdict=("loads",)),
        SmallCase(case="small", arguments=("check", "absent.so", "--torch", "2.13.0"), verdict=("fails",)),
    ]
    monkeypatch.setattr(report_cases, "read", lambda _path, type_: rows if type_ is SmallCase else [])
    monkeypatch.setattr(sys, "argv", ["report_cases", "--cases", str(tmp_path)])

    assert report_cases.main() == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "1 right, 1 unknown, 0 wrong"
    assert printed[0].startswith("unknown: small: abiscan check absent.so --torch 2.13.0: no answer")


@pytest.mark.long  # 1.4 GB of wheels
@needs_corpus
@pytest.mark.parametrize("report", report_cases.read(report_cases.REPORTS, Report), ids=lambda report: report.name)
def test_what_was_right_stays_right(report: Report) -> None:
    answer = report_cases.ask_report(report, corpus.folder())

    if answers()[report.name]["score"] == Score.RIGHT.value:
        assert score(report, answer) is Score.RIGHT, answer.verdict
