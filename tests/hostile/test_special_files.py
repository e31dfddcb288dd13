"""Pipes and devices with the names of libraries: only regular files are read, and nothing waits for the others."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from abiscan.errors import AbiscanError
from abiscan.inputs import observed_fs
from tests.commands.processes import run

pytestmark = [pytest.mark.hostile, pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")]

SAMPLE: Final = Path(__file__).parents[2] / "sample_binaries" / "loads" / "loads.so"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))  # the path of a socket may have 107 characters


KINDS: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "pipe": (pipe, "a pipe"),
    "device": (zero, "a device"),
}
WAYS: Final = {
    "library": ("x.so", ("check", "x.so", "--torch", "2.13.0")),
    "wheel": ("x-1.0-py3-none-any.whl", ("check", "x-1.0-py3-none-any.whl", "--torch", "2.13.0")),
    "conda": ("x-1.0-0.conda", ("check", "x-1.0-0.conda", "--torch", "2.13.0")),
    "torch": ("torch.whl", ("check", str(SAMPLE), "--torch", "torch.whl")),
    "torch library": ("libtorch_cpu.so", ("check", str(SAMPLE), "--torch", "libtorch_cpu.so")),
    "baseline": ("old.json", ("check", str(SAMPLE), "--torch", "2.13.0", "--baseline", "old.json")),
    "workload": (
        "ops.txt",
        ("coverage", str(SAMPLE), "--torch", "2.13.0", "--backend", "CPU", "--workload", "ops.txt"),
    ),
    "requirements": ("wanted.txt", ("fit", "-r", "wanted.txt", "--torch", "2.13.0", "--offline")),
    "ops": ("x.so", ("ops", "x.so")),
    "stamp": ("x-1.0-py3-none-any.whl", ("stamp", "x-1.0-py3-none-any.whl", "--torch", "2.13.0")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_file_is_not_opened(tmp_path: Path, way: str, kind: str) -> None:
    (make, said), (name, words) = KINDS[kind], WAYS[way]
    make(tmp_path / name)
    done = run(*words, cwd=tmp_path, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}, seconds=120)
    assert done.code == 2, done.err
    assert name in done.err
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_list_of_targets_and_the_standard_input(tmp_path: Path) -> None:
    done = run("check", "-", "--torch", "2.13.0", cwd=tmp_path)
    assert done.code == 2
    assert "-: the standard input is not a target (write it to a file, and pass that)" in done.err


def test_in_a_folder_they_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "loads.so").write_bytes(SAMPLE.read_bytes())
    os.mkfifo(tmp_path / "x" / "libother.so")
    os.mkfifo(tmp_path / "x" / "y-1.0-py3-none-any.whl")
    os.mkfifo(tmp_path / "x" / "__init__.py")
    done = run("check", "x", "--torch", "2.13.0", cwd=tmp_path, seconds=120)
    assert "loads.so: loads on torch 2.13.0" in done.out
    assert done.code == 0


@pytest.mark.parametrize("make", [pipe, zero, bound_socket, Path.mkdir])
def test_it_is_the_descriptor_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    """Between a look and the opening, a file may be replaced."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "x")
    with pytest.raises((OSError, AbiscanError)):
        observed_fs.read_file(tmp_path / "x")
