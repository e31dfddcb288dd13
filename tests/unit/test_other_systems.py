"""What is different on Windows and macOS, as far as that can be told on Linux: paths, and what POSIX has alone."""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from abiscan.errors import InputError
from abiscan.inputs import system
from abiscan.inputs.environment import executable_in
from abiscan.inputs.files import DiskFile, random_access
from abiscan.results.survey_file import SurveyFile
from tests.image_samples import IMAGES

# What the standard library of Windows does not have.
WITHOUT_POSIX: Final = """
import multiprocessing, os, signal, subprocess, sys, tempfile, threading
import click, lief, rich.console  # they would look for modules of Windows
for name in ("fcntl", "resource", "pwd", "grp", "termios", "pty"):
    sys.modules[name] = None
for name in ("fork", "pread", "posix_fadvise", "sched_getaffinity", "getuid", "execvp"):
    delattr(os, name)
for name in ("SIGHUP", "SIGPIPE", "SIGXCPU", "SIGKILL", "SIGPROF"):
    delattr(signal, name)
sys.platform = "another"  # as Windows, the libraries would look for its modules
from abiscan.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(("name", "code"), [("loads.pyd", 0), ("missing_symbol.pyd", 1), ("missing_symbol.so", 1)])
def test_check_needs_nothing_of_posix(name: str, code: int) -> None:
    words = [sys.executable, "-c", WITHOUT_POSIX, "check", str(IMAGES / name), "--torch", "2.13.0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.parametrize("python", ["bin/python", "bin/python3", "Scripts/python.exe", "python.exe"])
def test_the_python_of_an_environment(tmp_path: Path, python: str) -> None:
    (tmp_path / python).parent.mkdir(exist_ok=True)
    (tmp_path / python).touch()
    assert Path(executable_in(str(tmp_path))) == tmp_path / python


def test_a_folder_without_a_python(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"without bin/python or Scripts/python\.exe"):
        executable_in(str(tmp_path))


def test_processors_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert system.processors() == 7


def test_random_access_without_posix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    monkeypatch.delattr(os, "posix_fadvise")
    monkeypatch.delattr(os, "pread")
    with random_access(DiskFile(tmp_path / "x")) as read:
        assert (read(4, 3), read(0, 2), read(9, 5)) == (b"456", b"01", b"9")


def test_a_survey_locks_its_file_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[int] = []

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        if locked:
            raise OSError
        locked.append(os.lseek(descriptor, 0, os.SEEK_CUR))

    real = importlib.import_module

    def module(name: str) -> Any:
        if name == "fcntl":
            raise ImportError
        return SimpleNamespace(LK_NBLCK=2, locking=locking) if name == "msvcrt" else real(name)

    monkeypatch.setattr(importlib, "import_module", module)
    path = tmp_path / "answers.jsonl"
    with SurveyFile.opened(path):
        assert locked[0] > path.stat().st_size  # so that others may read the file
        with pytest.raises(InputError, match="another survey is writing to it"), contextlib.ExitStack() as stack:
            stack.enter_context(SurveyFile.opened(path))
