"""The benchmarks' command line: they themselves take minutes, and run by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import heavy, run, scaling


@pytest.mark.parametrize(
    ("words", "fetched"),
    [(["--large"], [run.LARGE]), (["--large", "other.whl"], []), (["its.whl", "--large"], [run.LARGE])],
)
def test_large_without_a_wheel_means_the_one_to_download(
    words: list[str], fetched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads: list[str] = []

    def download(requirement: str, folder: Path) -> Path:
        downloads.append(requirement)
        return folder / "fetched.whl"

    monkeypatch.setattr(run, "download", download)
    monkeypatch.setattr(run, "library", lambda wheel, _: wheel)
    found = run.large(run.parsed(words).large, tmp_path)
    assert downloads == fetched
    assert found == (str(tmp_path / "fetched.whl") if fetched else "other.whl")


def test_without_large_nothing_is_downloaded(tmp_path: Path) -> None:
    assert run.large(run.parsed([]).large, tmp_path) is None


def timings(check: float, again: float) -> str:
    rows = [
        (run.Row(label="abiscan check", state=run.FIRST, words=()), run.Timing(processor=check)),
        (run.Row(label="abiscan check", state=run.AGAIN, words=()), run.Timing(processor=again)),
        (run.Row(label=run.IMPORT, words=()), run.Timing(processor=2)),
    ]
    return run.table(rows)


def test_the_ratios_are_to_import_torch() -> None:
    assert run.ratios(timings(1, 0.2)) == {
        ("abiscan check", "first run"): 0.5,
        ("abiscan check", "again"): 0.1,
        (run.IMPORT, ""): 1,
    }


def test_what_is_20_percent_worse_fails() -> None:
    assert run.worse(timings(1, 0.2), timings(1.18, 0.22)) == []
    (line,) = run.worse(timings(1, 0.2), timings(1.3, 0.1))
    assert line == "abiscan check first run: 0.65 times import torch, was 0.50"


def test_new_and_former_rows_are_not_compared() -> None:
    assert run.worse("", timings(1, 1)) == []
    assert run.worse(timings(1, 1), "") == []


def test_a_first_run_finds_no_results(tmp_path: Path) -> None:
    for name in ("x.answer", "x.headers"):
        (tmp_path / "abiscan" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "abiscan" / name).touch()
    words = (sys.executable, "-c", "pass")
    run.Row(label="", state=run.AGAIN, words=words, cache=tmp_path).measure()
    assert {file.name for file in tmp_path.rglob("x.*")} == {"x.answer", "x.headers"}
    timing = run.Row(label="", state=run.FIRST, words=words, cache=tmp_path).measure()
    assert {file.name for file in tmp_path.rglob("x.*")} == {"x.headers"}
    assert 0 < timing.processor < 60
    assert timing.megabytes > 1


def test_isolation_is_compared_with_the_same_first_check_without_it() -> None:
    labels = {"abiscan check --torch 2.13.0": 1.04, "abiscan --no-isolation check --torch 2.13.0": 1.0}
    rows = [(run.Row(label=label, state=run.FIRST, words=()), run.Timing(processor=x)) for label, x in labels.items()]
    again = [(run.Row(label=label, state=run.AGAIN, words=()), run.Timing(processor=9)) for label in labels]
    assert run.cost_of_isolation([*rows, *again]) == pytest.approx(0.04)


def test_a_first_run_finds_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    cache, output = tmp_path / "cache", tmp_path / "survey.jsonl"
    (cache / "abiscan" / "wheels").mkdir(parents=True)
    names = ("a.answer", "b.content", "torch.headers", "wheels/part")
    files = [output, *(cache / "abiscan" / name for name in names)]
    for state, left in ((run.AGAIN, files), (run.FIRST, [cache / "abiscan" / "torch.headers"])):
        for file in files:
            file.touch()
        row = run.Row(label="", state=state, words=("true",), cache=cache, output=output)
        assert row.measure().seconds < float("inf")
        assert [file for file in files if file.exists()] == left
        (cache / "abiscan" / "wheels").mkdir(exist_ok=True)


def test_what_each_of_several_wheels_costs_is_compared_with_one_less_its_imports() -> None:
    labels = {"abiscan check --torch 2.13.0": 0.7, "abiscan check --torch 2.13.0, several wheels": 4.8}
    rows = [(run.Row(label=label, state=run.FIRST, words=()), run.Timing(processor=x)) for label, x in labels.items()]
    rows.append((run.Row(label="the imports of a check", words=()), run.Timing(processor=0.2)))
    assert run.cost_of_each(rows, 12) == pytest.approx((0.4, 0.5))


def test_several_wheels_are_those_of_a_folder_or_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.whl", "a.whl", "c.txt"):
        (tmp_path / name).touch()
    assert run.several(None, tmp_path) == ()
    assert run.several(str(tmp_path), tmp_path / "scratch") == (str(tmp_path / "a.whl"), str(tmp_path / "b.whl"))
    monkeypatch.setattr(run, "download", lambda requirement, folder: folder / f"{requirement}.whl")
    assert len(run.several("", tmp_path)) == 12


def test_the_imports_of_a_command_are_imported_alone(tmp_path: Path) -> None:
    program = run.imports_of(("explain", "missing-library"), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", f"{program}import sys; print('abiscan.cli.explain' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"


def test_its_help_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run.parsed(["--help"])
    assert ended.value.code == 0
    assert "20 % worse" in capsys.readouterr().out


def test_an_environment_that_is_named_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def make(folder: Path) -> str:
        made.append(folder)
        return "its python"

    monkeypatch.setattr(run, "_make_environment", make)
    pythons = [run.environment(run.parsed(words).environment, tmp_path) for words in ([], ["--environment", "python3"])]
    assert (pythons, made) == ([None, "python3"], [])
    assert run.environment(run.parsed(["--environment"]).environment, tmp_path) == "its python"
    assert made == [tmp_path / "environment"]


@pytest.mark.parametrize(("power", "fixed"), [(1, 0), (1, 50), (2, 0), (2, 50), (0.5, 0)])
def test_the_exponent_is_that_of_what_grows(power: float, fixed: float) -> None:
    sizes = [1, 4, 16, 64]
    # What the smallest target takes is taken for fixed, so that of other powers than 1 is only nearly right.
    assert scaling.exponent(sizes, [fixed + size**power for size in sizes]) == pytest.approx(power, abs=0.1)


def test_what_does_not_grow_has_no_exponent() -> None:
    assert scaling.exponent([1, 4, 16, 64], [3, 3, 3, 3]) == 0


def test_a_goal_is_a_multiple_of_a_peer_or_of_seconds() -> None:
    peers = {"auditwheel show": run.Timing(processor=2)}
    row = run.Row(label="`check`", words=())
    ratio = heavy.Goal(row, "0.6", 0.45, "auditwheel show")
    assert ratio.line(run.Timing(processor=0.8, megabytes=99), peers) == (
        "| `check` | 0.6 | 0.40 | 0.45 times `auditwheel show` | 99 |"
    )
    assert ratio.line(run.Timing(processor=1, megabytes=99), peers).split(" | ")[2] == "0.50 *"
    seconds = heavy.Goal(row, "9 s", 4, megabytes=500)
    assert (
        seconds.line(run.Timing(processor=3, megabytes=501), peers) == "| `check` | 9 s | 3.00 * | 4 s, 500 MB | 501 |"
    )
