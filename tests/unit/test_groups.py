"""Which process runs which tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import groups

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
from tests.conftest import pytest_collection_modifyitems, pytest_xdist_make_scheduler
"""
TESTS = """
import os, pathlib, time
import pytest

@pytest.mark.parametrize("number", range(8))
def test_who_runs_it(number):
    time.sleep(0.01)
    with pathlib.Path("processes").open("a") as file:
        print(pathlib.Path(__file__).stem, os.environ["PYTEST_XDIST_WORKER"], file=file)
"""


@pytest.mark.slow
def test_one_process_runs_all_tests_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "conftest.py").write_text(CONFTEST, "utf-8")
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TESTS, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses=2", "--dist=loadgroup"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = (tmp_path / "processes").read_text("utf-8").splitlines()
    assert len(ran) == 4 * 8
    assert len(set(ran)) == 4
    assert {line.partition(" ")[2] for line in ran} == {"gw0", "gw1"}


def test_files_that_share_their_work_are_there() -> None:
    names = [*groups.TOGETHER, *(name.partition("::")[0] for name in groups.APART)]
    assert [name for name in names if not (ROOT / name).is_file()] == []


def test_what_takes_long_comes_first() -> None:
    unit, corpus, fuzz = "tests/unit/test_a.py::test_a", "tests/oracle/test_packages.py::test_b[x]", groups.APART[0]
    assert sorted([unit, f"{fuzz}[1]", corpus], key=groups.place_of) == [corpus, f"{fuzz}[1]", unit]
    assert groups.group_of(corpus) == groups.group_of("tests/oracle/test_registrations.py::test_c")
    assert groups.group_of(f"{fuzz}[1]") != groups.group_of(f"{fuzz}[2]")
