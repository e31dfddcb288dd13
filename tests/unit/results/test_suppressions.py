from __future__ import annotations

import datetime as dt
import gc
import traceback
from pathlib import Path

import msgspec.structs
import pytest

from abiscan.errors import InputError
from abiscan.results.check import Report
from abiscan.results.configuration import Configuration, find_configuration, read_configuration
from abiscan.results.suppressions import (
    EMPTY,
    Baseline,
    Suppression,
    apply_suppressions,
    read_baseline,
)
from tests.unit.report.reports import failure, finding

RULES = ("a-rule", "b-rule")
TWO = finding(proofs=2)
REPORT = Report(results=(failure(findings=(TWO,)),))


def suppression(**changes: object) -> Suppression:
    fields: dict[str, object] = {"rule": "a-rule", "target": "pkg/_C.so", "reason": "x", "until": dt.date(2027, 1, 31)}
    return Suppression(**{**fields, **changes})  # type: ignore[arg-type]


def left(report: Report, *suppressions: Suppression, baseline: Baseline = EMPTY) -> list[int]:
    """How many findings of each result still count."""
    after = apply_suppressions(report, suppressions, baseline)
    for before, now in zip(report.results, after.results, strict=True):
        assert len(before.findings) == len(now.findings) + len(now.suppressed)
        assert before.verdict is now.verdict
    return [len(result.findings) for result in after.results]


def baseline(report: Report, folder: Path) -> Baseline:
    path = folder / "baseline.json"
    path.write_text(report.to_json(), encoding="utf-8")
    return read_baseline(path)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, 0),
        ({"target": "pkg/*.so"}, 0),
        ({"target": "*"}, 0),
        ({"target": "pkg.whl"}, 0),
        ({"target": "_C.so"}, 1),
        ({"rule": "b-rule"}, 1),
    ],
)
def test_a_suppression_covers_its_rule_and_target(changes: dict[str, object], counts: int) -> None:
    assert left(REPORT, suppression(**changes)) == [counts]


def test_what_is_suppressed_has_its_reason() -> None:
    (result,) = apply_suppressions(REPORT, [suppression(reason="vendor promised a fix")], EMPTY).results
    assert [(one.finding, one.reason) for one in result.suppressed] == [(TWO, "vendor promised a fix")]


def test_a_baseline_knows_what_was_there(tmp_path: Path) -> None:
    known = baseline(REPORT, tmp_path)
    assert left(REPORT, baseline=known) == [0]
    for changes, counts in (
        ({"target": "elsewhere/pkg-2.whl", "torch_build": "2.9.1+cu128"}, 0),
        ({"findings": (finding(proofs=1),)}, 0),  # one symbol less
        ({"findings": (finding(proofs=3),)}, 1),  # one more
        ({"findings": (finding(proofs=2, rule="b-rule"),)}, 1),
        ({"path": "pkg/_D.so"}, 1),
        ({"torch": "2.9.0"}, 1),
    ):
        report = Report(results=(failure(**{"findings": (TWO,), **changes}),))
        assert left(report, baseline=known) == [counts], changes


def test_a_report_made_with_a_baseline_is_one(tmp_path: Path) -> None:
    again = apply_suppressions(REPORT, (), baseline(REPORT, tmp_path))
    assert left(REPORT, baseline=baseline(again, tmp_path)) == [0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("[]", "not a version 1 report"),
        ("null", "not a version 1 report"),
        ('{"version": 2, "tool": {"name": "abiscan"}, "results": []}', "not a version 1 report"),
        ('{"version": 1, "tool": {"name": "other"}, "results": []}', "not a version 1 report"),
        ('{"version": 1, "tool": {"name": "abiscan"}, "results": [{"findings": [3]}]}', "not a version 1 report"),
        ('{"version": 1, "tool": {"name": "abiscan"}, "results": 5}', "not a version 1 report"),
    ],
)
def test_what_is_no_baseline(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem):
        read_baseline(path)


def test_a_baseline_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.json: cannot be read: No such file or directory \("):
        read_baseline(tmp_path / "absent.json")


GOOD = 'rule = "a-rule", target = "*", reason = "because", until = 2027-01-31'


def read(text: str, folder: Path) -> Configuration:
    file = folder / "pyproject.toml"
    file.write_text(text, encoding="utf-8")
    return read_configuration(file, RULES)


def test_suppressions_are_read(tmp_path: Path) -> None:
    (found,) = read(f"[tool.abiscan]\nsuppress = [{{{GOOD}}}]\n", tmp_path).suppressions
    assert msgspec.structs.replace(found, source=None) == suppression(target="*", reason="because")
    assert found.source == str(tmp_path / "pyproject.toml")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace("because", " "), "suppression 1 of .* reason is missing"),
        (GOOD.replace(', reason = "because"', ""), "reason is missing"),
        (GOOD.replace('"because"', "3"), "reason is missing"),
        (GOOD.replace(', target = "*"', ""), "target is missing"),
        (GOOD.replace("a-rule", "no-rule"), "there is no rule no-rule .*rules: a-rule, b-rule"),
        (GOOD.replace(", until = 2027-01-31", ""), "until, the expiry date, is missing"),
        (GOOD.replace("2027-01-31", '"2027-01-31"'), "until, the expiry date, is missing"),
        (GOOD.replace("2027-01-31", "2027-01-31T10:00:00"), "until, the expiry date, is missing"),
        (GOOD + ', because = "x"', "unknown field because"),
    ],
)
def test_a_suppression_that_is_none(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        read(f"[tool.abiscan]\nsuppress = [{{{text}}}]\n", tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool.abiscan]\nsuppress = 3\n", "not a list of tables"),
        ("[tool.abiscan]\nsuppress = [3]\n", "not a list of tables"),
        ("[tool.abiscan]\nsupress = []\n", r"no setting supress .did you mean suppress"),
        ("[tool.abiscan]\ntorch = 2.9\n", "torch is neither a name nor a list of names"),
        ("[tool.abiscan]\ntargets = ['']\n", "targets is neither a name nor a list of names"),
        ("[tool.abiscan]\nfail-on = 'never'\n", "fail-on: never is not an effect .effects: note, "),
        ("[tool.abiscan]\nper-file-ignores = ['a-rule']\n", "per-file-ignores is no table of files"),
        ("[tool.abiscan.per-file-ignores]\n'*' = 'a-rul'\n", "there is no rule a-rul .did you mean a-rule"),
        ("[tool.abiscan\n", "not TOML"),
        ("[tool]\nabiscan = 3\n", "is not a table"),
    ],
)
def test_a_configuration_that_is_none(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        read(text, tmp_path)


def test_nothing_is_finalized_while_a_configuration_recurses(tmp_path: Path) -> None:
    collections = []

    def record_collection(phase: str, _: dict[str, int]) -> None:
        files = {Path(frame.filename).parent.name for frame in traceback.extract_stack()}
        collections.append((phase, not files.isdisjoint({"tomllib", "tomli"})))

    thresholds = gc.get_threshold()
    gc.callbacks.append(record_collection)
    gc.set_threshold(10)
    try:
        with pytest.raises(InputError, match="not TOML: arrays or tables are nested too deeply"):
            read(f"x = {'[' * 100_000}", tmp_path)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(record_collection)
    assert gc.isenabled()
    assert collections
    assert not any(inside for _, inside in collections)


def test_rules_are_skipped_for_files(tmp_path: Path) -> None:
    for pattern, kept in (("pkg/_C.so", 0), ("*.so", 0), ("_C.so", 0), ("pkg.whl", 0), ("pkg/_D.so", 1)):
        settings = read(f"[tool.abiscan.per-file-ignores]\n'{pattern}' = ['a-rule']\n", tmp_path)
        (result,) = settings.leave_out(REPORT).results
        assert len(result.findings) == kept
        assert result.verdict is REPORT.results[0].verdict


def test_tools_that_are_no_table_are_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 3\n", "utf-8")
    assert find_configuration(tmp_path) == (None, None)


def test_the_nearest_configuration_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_configuration(inner) == (None, None)
    (tmp_path / "pyproject.toml").write_text("[tool.abiscan]\n", encoding="utf-8")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n", encoding="utf-8")
    assert find_configuration(inner) == (tmp_path / "pyproject.toml", None)


def test_a_configuration_inside_of_a_target_has_no_say(tmp_path: Path) -> None:
    inner = tmp_path / "target" / "a"
    inner.mkdir(parents=True)
    own, others = inner / "pyproject.toml", tmp_path / "target" / "pyproject.toml"
    own.write_text("[tool.other]\n", encoding="utf-8")
    assert find_configuration(inner, [str(tmp_path / "target")]) == (None, None)
    others.write_text("[tool.abiscan]\n", encoding="utf-8")
    assert find_configuration(inner, [str(tmp_path / "target")]) == (None, others)
    assert find_configuration(inner, [str(inner)]) == (others, None)
    assert find_configuration(inner, [str(tmp_path / "targ")]) == (others, None)
