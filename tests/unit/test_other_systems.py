"""What is different on Windows and macOS, as far as that can be told on Linux: paths, and what POSIX has alone."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import Any, Final

import click.testing
import pytest

from abiscan.cache.cache_folder import allocated_size
from abiscan.cli import main
from abiscan.errors import InputError
from abiscan.hooks.doctor import WayOut, _cache_of_torch
from abiscan.inputs import system
from abiscan.inputs.environment import PythonEnvironment, executable_in
from abiscan.inputs.files import DiskFile, random_access
from abiscan.inputs.interpreter import PythonTag, executables_of
from abiscan.inputs.packages import path_of_url
from abiscan.results.survey_file import SurveyFile
from tests.fakes import SAMPLES
from tests.image_samples import IMAGES, torch_folder

# What the standard library of Windows does not have.
WITHOUT_POSIX: Final = """
import multiprocessing, os, signal, subprocess, sys, tempfile, threading
# They would look for modules of Windows, or take their own for POSIX after all.
import capstone, click, ctypes, icicle, lief, platformdirs, rich.console, unearth
platformdirs.user_cache_dir()
for name in ("fcntl", "resource", "pwd", "grp", "termios", "pty", "posix", "syslog", "readline"):
    sys.modules[name] = None
for name in (
    "fork", "pread", "posix_fadvise", "sched_getaffinity", "getuid", "geteuid", "uname", "execvp", "WIFSIGNALED",
    "WTERMSIG", "O_PATH", "RTLD_NOW", "RTLD_LAZY", "RTLD_GLOBAL", "RTLD_NOLOAD", "statvfs", "sysconf", "getpgid",
):
    delattr(os, name)
for name in ("SIGHUP", "SIGPIPE", "SIGXCPU", "SIGKILL", "SIGPROF"):
    delattr(signal, name)
sys.platform = "another"  # as Windows, the libraries would look for its modules
"""
RUN: Final = "from abiscan.cli import main\nmain(sys.argv[1:])\n"
IMPORT_ALL: Final = """
import importlib, pkgutil, abiscan
names = [one.name for one in pkgutil.walk_packages(abiscan.__path__, "abiscan.")]
for name in names:
    if name != "abiscan.__main__":
        importlib.import_module(name)
print(len(names))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code"),
    [("images/loads.pyd", 0), ("images/missing_symbol.so", 1), ("loads/loads.so", 0)],
)
def test_check_needs_nothing_of_posix(tmp_path: Path, name: str, code: int) -> None:
    words = [sys.executable, "-c", WITHOUT_POSIX + RUN, "check", str(SAMPLES / name), "--torch", "2.13.0"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}  # so that nothing is answered from memory
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.slow
def test_no_module_needs_posix() -> None:
    words = [sys.executable, "-c", WITHOUT_POSIX + IMPORT_ALL]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


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
    assert system.count_processors() == 7


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
            raise PermissionError(errno.EACCES, "Permission denied")  # what Windows says
        locked.append(os.lseek(descriptor, 0, os.SEEK_CUR))

    real = importlib.import_module

    def module(name: str) -> Any:
        if name == "fcntl":
            raise ImportError
        return SimpleNamespace(LK_NBLCK=2, locking=locking) if name == "msvcrt" else real(name)

    monkeypatch.setattr(importlib, "import_module", module)
    path = tmp_path / "answers.jsonl"
    with SurveyFile.open_answers(path):
        assert locked[0] > path.stat().st_size  # so that others may read the file
        with pytest.raises(InputError, match="another survey is writing to it"), contextlib.ExitStack() as stack:
            stack.enter_context(SurveyFile.open_answers(path))


@pytest.mark.parametrize(
    ("package", "pythons"),
    [
        (PurePosixPath("/venv/lib/python3.11/site-packages/torch"), ["/venv/bin/python3.11"]),
        (PurePosixPath("/venv/lib64/python3.11/site-packages/torch"), ["/venv/bin/python3.11"]),
        (PurePosixPath("/usr/lib/python3.11/dist-packages/torch"), ["/usr/bin/python3.11"]),
        (
            PurePosixPath("/Library/Frameworks/Python.framework/Versions/3.11/lib/python3.11/site-packages/torch"),
            ["/Library/Frameworks/Python.framework/Versions/3.11/bin/python3.11"],
        ),
        (
            PureWindowsPath(r"C:\venv\Lib\site-packages\torch"),
            [r"C:\venv\Scripts\python.exe", r"C:\venv\python.exe"],
        ),
        (
            PureWindowsPath(r"C:\Users\me\miniconda3\envs\ml\lib\site-packages\torch"),
            [r"C:\Users\me\miniconda3\envs\ml\Scripts\python.exe", r"C:\Users\me\miniconda3\envs\ml\python.exe"],
        ),
        (PurePosixPath("/src/torch"), []),
        (PureWindowsPath(r"D:\src\torch"), []),
    ],
)
def test_the_python_that_a_torch_belongs_to(package: PurePath, pythons: list[str]) -> None:
    found = executables_of(package, PythonTag(major=3, minor=11))
    assert list(map(str, found)) == pythons


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("_C.cp311-win_amd64.pyd", "3.11"),
        ("_C.cp313t-win_arm64.pyd", "3.13t"),
        ("_C.cpython-312-darwin.so", "3.12"),
        ("_C.pyd", None),
        ("_C.abi3.so", None),
    ],
)
def test_the_python_in_the_name_of_a_module(name: str, tag: str | None) -> None:
    found = PythonTag.of_file(name)
    assert (None if found is None else str(found)) == tag


@pytest.mark.parametrize(
    ("python", "marker"),
    [("Scripts/python.exe", "pyvenv.cfg"), ("python.exe", "conda-meta"), ("bin/python", "pyvenv.cfg")],
)
def test_the_folder_of_an_environment(tmp_path: Path, python: str, marker: str) -> None:
    (tmp_path / python).parent.mkdir(exist_ok=True)
    (tmp_path / python).touch()
    (tmp_path / marker).touch()
    assert PythonEnvironment(python=str(tmp_path / python), origin="--python").prefix == tmp_path


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///src/my%20pkg", "/src/my pkg"),
        ("file:///C:/src/pkg", "C:/src/pkg"),
        ("file:///d:/wheels/a%2B1.whl", "d:/wheels/a+1.whl"),
    ],
)
def test_paths_in_addresses(url: str, path: str) -> None:
    assert path_of_url(url) == path


@pytest.mark.parametrize(
    ("system", "variables", "folder"),
    [
        ("linux", {"XDG_CACHE_HOME": "/cache"}, "/cache/torch_extensions"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Caches/torch_extensions"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/torch_extensions/torch_extensions/Cache"),
    ],
)
def test_where_torch_builds(
    monkeypatch: pytest.MonkeyPatch, system: str, variables: dict[str, str], folder: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _cache_of_torch(system) == Path(folder)


def test_a_file_of_which_the_system_does_not_tell_the_blocks(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    status: Any = SimpleNamespace(st_size=10)
    assert allocated_size(status) == 10
    assert allocated_size((tmp_path / "x").stat()) <= 10


@pytest.mark.parametrize(("system", "suffix"), [("Windows", "pyd"), ("macOS", "so")])
def test_doctor_in_an_environment_of_another_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, suffix: str
) -> None:
    """A virtual environment as it lies on that system, whose Python is a script that answers for it."""
    monkeypatch.setattr("abiscan.hooks.doctor.way_out", lambda *_: WayOut())  # which asks an index
    site = tmp_path / "venv" / ("Lib/site-packages" if system == "Windows" else "lib/python3.11/site-packages")
    torch = torch_folder(site, system)
    (torch / "__init__.py").touch()
    for name, kind in (("good", "loads"), ("bad", "missing_symbol")):
        library = f"{name}/_C.{suffix}"
        (site / name).mkdir()
        image_file = {"Windows": f"{kind}.pyd", "macOS": "universal.so" if kind == "loads" else "missing_symbol.so"}
        (site / library).write_bytes((IMAGES / image_file[system]).read_bytes())
        (site / name / "__init__.py").write_text(f"import torch\nfrom {name} import _C\n", "utf-8")
        info = site / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", "utf-8")
        (info / "RECORD").write_text(f"{name}/__init__.py,,\n{library},,\n", "utf-8")
    python = tmp_path / "venv" / ("Scripts/python.exe" if system == "Windows" else "bin/python")
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n', "utf-8")
    python.chmod(0o755)
    words = ["doctor", "--python", str(tmp_path / "venv"), "--format", "json"]
    printed = click.testing.CliRunner().invoke(main, words)
    document = json.loads(printed.stdout)
    assert document["torch"]["version"] == "9.9.0"
    assert [one["subject"] for one in document["ailments"]] == ["bad==1"], printed.output
    assert {one["name"]: one["verdict"] for one in document["distributions"]}["good"] == "works"
