"""Locks as targets: what may be asked of them, and how the answer is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from abiscan.cli import main
from tests.fakes import SAMPLES
from tests.schemas import validate

LOADS: Final = str(SAMPLES / "loads" / "loads.so")


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lock in which nothing uses torch: no file of it is downloaded."""
    monkeypatch.chdir(tmp_path)
    package = '[[package]]\nname = "plain"\nversion = "1"\nsource = { registry = "https://example.org/simple" }\n'
    for name in ("uv.lock", "other/uv.lock"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'version = 1\nrequires-python = ">=3.11,<3.13"\n\n{package}', "utf-8")
    return "uv.lock"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["check", LOADS, "--no-dev"], "--python-platform and --base are for locks, such as uv.lock"),
        (["check", "uv.lock", LOADS], "uv.lock is a lock, which is not checked together with other targets"),
        (["check", "uv.lock", "--format", "sarif"], "--format sarif is not for locks; choose text, json, markdown"),
        (["check", "uv.lock", "--format", "github"], "--format github is not for locks; choose text, json, markdown"),
        (["check", "uv.lock", "--base", "main", "--format", "junit"], "choose text, json, markdown, github"),
        (["check", "uv.lock", "--report", "junit=a"], "--format junit is not for locks"),
        (["check", "uv.lock", "other/uv.lock", "--format", "json"], "are for one lock at a time"),
        (["check", "uv.lock", "other/uv.lock", "--output", "a"], "are for one lock at a time"),
        (["check", "uv.lock", "other/uv.lock", "--report", "json=a"], "are for one lock at a time"),
        (["check", "uv.lock", "--torch", "2.13.0"], "--torch"),
        (["check", "uv.lock", "--python-version", "3.9"], "3.9"),
    ],
)
@pytest.mark.usefixtures("lock")
def test_what_is_not_asked_of_a_lock(words: list[str], problem: str) -> None:
    result = run(*words)
    assert (result.exit_code, problem in result.output) == (2, True), result.output
    assert not Path("a").exists()


def test_a_lock_without_torch(lock: str) -> None:
    result = run("check", lock, "--python-platform", "linux")
    assert result.exit_code == 0
    assert "no torch: no distribution uses torch" in result.output
    assert [python in result.output for python in ("3.10", "3.11", "3.12", "3.13")] == [False, True, True, False]
    assert run("check", lock, "--format", "markdown").output.startswith("| environment | torch | distribution |")
    assert run("check", lock, "other/uv.lock").output.count("no distribution uses torch") == 2


def test_an_environment_of_a_lock_as_json(lock: str) -> None:
    words = ("--python-version", "3.11", "--python-platform", "aarch64-unknown-linux-gnu", "--format", "json")
    document = json.loads(run("check", lock, *words).output)
    validate(document, "check-lock")
    (environment,) = document["environments"]
    assert (environment["python"], "aarch64" in environment["platform"]) == ("3.11", True)
    assert run("check", lock, *words, "--output", "report.json").output == ""
    assert json.loads(Path("report.json").read_text("utf-8")) == document


def test_two_locks_that_do_not_differ(lock: str) -> None:
    result = run("diff", lock, "other/uv.lock")
    assert result.exit_code == 0
    document = json.loads(run("diff", lock, "other/uv.lock", "--format", "json").output)
    assert [document[kind] for kind in ("worse", "better", "unknown")] == [[], [], []]
