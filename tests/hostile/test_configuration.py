"""A ``pyproject.toml`` that came with a repository: it says what it accepts, and can be ignored."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

from tests.commands.processes import Finished, run
from tests.elf_builder import uses
from tests.fakes import extension

pytestmark = pytest.mark.hostile

ACCEPTS: Final = """
[tool.abiscan]
suppress = [{rule = "undefined-symbol", target = "*", reason = "trust me", until = 9999-12-31}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checked-out repository with a library that does not load."""
    extension(undefined=uses("_ZN5torch7missingEv")).write(tmp_path / "build" / "_C.so")
    (tmp_path / "pyproject.toml").write_text(ACCEPTS, encoding="utf-8")
    return tmp_path


def checked(folder: Path, *words: str) -> Finished:
    return run("check", *words, "--torch", "2.13.0", cwd=folder, env={"XDG_CACHE_HOME": str(folder / "cache")})


def test_the_report_says_which_file_changed_which_verdict(folder: Path) -> None:
    done = checked(folder, "build/_C.so")
    line = (
        f"{folder}/pyproject.toml accepts undefined-symbol in _C.so: the exit code is 0 instead of 1 "
        "(--no-config ignores the file)"
    )
    assert (done.code, done.out.splitlines()[-1]) == (0, line)


@pytest.mark.parametrize("form", ["json", "sarif", "junit", "github", "markdown"])
def test_other_formats_say_so_on_stderr(folder: Path, form: str) -> None:
    done = checked(folder, "build/_C.so", "--format", form)
    assert "pyproject.toml accepts undefined-symbol in _C.so: the exit code is 0 instead of 1" in done.err
    if form == "json":
        (suppressed,) = json.loads(done.out)["results"][0]["suppressed"]
        assert (suppressed["reason"], suppressed["source"]) == ("trust me", f"{folder}/pyproject.toml")


def test_it_can_be_ignored(folder: Path) -> None:
    done = checked(folder, "build/_C.so", "--no-config")
    assert done.code == 1
    assert "pyproject.toml" not in done.out + done.err


def test_nothing_is_said_of_a_file_that_changes_nothing(folder: Path) -> None:
    done = checked(folder, "build/_C.so", "--ignore", "undefined-symbol")
    assert "accepts" not in done.out + done.err


@pytest.mark.parametrize("target", [".", "build", "../NAME", "link"])
def test_that_of_a_target_is_never_read(folder: Path, target: str) -> None:
    """Also if the user stands inside of the target, or names it by a link."""
    (folder / "pyproject.toml").rename(folder / "build" / "pyproject.toml")
    (folder / "build" / "link").symlink_to(".")
    inside = folder / "build"
    words = {".": ".", "build": str(inside), "../NAME": "../build", "link": "link"}
    done = checked(inside, words[target])
    assert done.code == 1
    assert "pyproject.toml: ignored: it is inside a checked target" in done.err


def test_the_settings_of_a_target_are_never_read(folder: Path) -> None:
    (folder / "pyproject.toml").rename(folder / "build" / "pyproject.toml")
    (folder / "build" / "pyproject.toml").write_text('[tool.abiscan]\nfail-on = "aborts"\n', encoding="utf-8")
    assert checked(folder / "build", ".").code == 1


def test_one_above_a_target_still_counts(folder: Path) -> None:
    assert checked(folder, "build").code == 0


def test_a_pipe_is_no_configuration(folder: Path) -> None:
    (folder / "pyproject.toml").unlink()
    os.mkfifo(folder / "pyproject.toml")
    assert checked(folder, "build/_C.so").code == 1
