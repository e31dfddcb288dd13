"""On machines that lack something: each command says there what it says on a complete one.

The commands run in processes of their own, with the environment of the test and nothing else. A ``sitecustomize`` takes
away what an environment cannot: Python imports it before anything else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fakes import SAMPLES, torch_package

pytestmark = pytest.mark.slow

SAMPLE = SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so"

NO_LIBRARY_IS_FOUND = """
import ctypes.util
log = open({log!r}, "a", buffering=1)  # now: once a target is read, nothing can be opened for writing
def find_library(name):
    print("looked for", name, file=log)
ctypes.util.find_library = find_library
class Library(ctypes.CDLL):
    def __init__(self, name, *words, **options):
        if name and name.startswith(("libc.", "libstdc++.", "libc++")):
            raise OSError(name)
        super().__init__(name, *words, **options)
ctypes.CDLL = Library
"""
NO_USER = """
import pwd
log = open({log!r}, "a", buffering=1)
def getpwuid(uid):
    print("looked for", uid, file=log)
    raise KeyError(uid)
pwd.getpwuid = getpwuid
"""


def run(
    *words: str | Path, environment: Mapping[str, str], folder: Path, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "abiscan", *words],
        env=environment,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert "internal error" not in done.stderr
    assert code in {None, done.returncode}, done.stderr
    return done


@pytest.fixture(scope="module")
def torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torch_package(tmp_path_factory.mktemp("site"))


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """The working directory of the commands."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def answers(environment: Mapping[str, str], folder: Path, torch: Path) -> list[str]:
    """What commands print, errors too."""
    commands: list[list[str | Path]] = [
        ["check", SAMPLE, "--torch", "2.13.0"],
        ["check", SAMPLE, "--torch", torch, "--format", "json"],
        ["matrix", SAMPLE, "--torch", "2.6.0", "--torch", "2.13.0", "--verbose"],
    ]
    done = [run(*words, environment=environment, folder=folder, code=1) for words in commands]
    assert list(folder.iterdir()) == []  # nothing is left where the command ran
    return [text for one in done for text in (one.stdout, one.stderr)]


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory, torch: Path) -> list[str]:
    """What the commands say where nothing is missing."""
    home = tmp_path_factory.mktemp("home")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}
    found = answers(environment, tmp_path_factory.mktemp("empty"), torch)
    assert list(home.rglob("*.answer"))
    assert "at::_ops::align_as::call(at::Tensor const&, at::Tensor const&)" in found[0]
    assert "«std::optional<c10::ScalarType>»" in found[0]
    return found


def customised(tmp_path: Path, code: str) -> tuple[dict[str, str], Path]:
    """The environment in which a Python runs ``code`` first, and the file to which that code writes."""
    log, folder = tmp_path / "log", tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code.format(log=str(log)), encoding="utf-8")
    return {"PYTHONPATH": str(folder)}, log


def test_no_program_and_no_c_plus_plus_runtime_is_found(
    tmp_path: Path, complete: list[str], empty: Path, torch: Path
) -> None:
    environment, log = customised(tmp_path, NO_LIBRARY_IS_FOUND)
    assert answers({**environment, "PATH": "", "HOME": str(tmp_path)}, empty, torch) == complete
    assert "looked for c" in log.read_text("utf-8")


@pytest.mark.long
def test_no_home_and_no_user(tmp_path: Path, complete: list[str], empty: Path, torch: Path) -> None:
    environment, log = customised(tmp_path, NO_USER)
    assert answers(environment, empty, torch) == complete
    assert "looked for" in log.read_text("utf-8")
    assert run("cache", environment=environment, folder=empty).stdout.endswith(": 0 files, 0.0 MB (limit 1000 MB)\n")
    run("doctor", environment=environment, folder=empty, code=None)  # not 0 without a torch
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("home", ["/proc/none", "read-only", "file"])
def test_a_home_that_cannot_be_written(
    home: str, tmp_path: Path, complete: list[str], empty: Path, torch: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "read-only").mkdir(mode=0o500)
    environment = {"HOME": str(tmp_path / home)}
    done = run("check", SAMPLE, "--torch", torch, "--format", "json", environment=environment, folder=empty, code=1)
    assert [done.stdout, done.stderr] == complete[2:4]


def test_the_c_locale(complete: list[str], tmp_path: Path, empty: Path, torch: Path) -> None:
    assert answers({"HOME": str(tmp_path), "LANG": "C"}, empty, torch) == complete


def test_a_locale_that_python_does_not_replace(complete: list[str], tmp_path: Path, empty: Path, torch: Path) -> None:
    """Where the output can only be ASCII, other characters are escaped."""
    environment = {"HOME": str(tmp_path), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    escaped = [text.encode("ascii", "backslashreplace").decode() for text in complete]
    assert answers(environment, empty, torch) == escaped


def test_an_object_for_another_machine_is_one_line(tmp_path: Path, empty: Path) -> None:
    """lief, which knows the machine's name, tells nothing about itself."""
    data = bytearray(SAMPLE.read_bytes())
    data[18:20] = (243).to_bytes(2, "little")  # e_machine: EM_RISCV
    (tmp_path / "riscv.so").write_bytes(data)
    environment = {"HOME": str(tmp_path)}
    done = run("check", tmp_path / "riscv.so", "--torch", "2.13.0", environment=environment, folder=empty, code=2)
    assert done.stderr.splitlines() == [
        f"abiscan: {tmp_path / 'riscv.so'}: built for RISCV (only x86_64 and aarch64 are supported)"
    ]
