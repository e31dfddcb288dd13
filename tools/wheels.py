"""Wheels from the package index, fetched with pip for whichever machine and Python is asked for."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.binary.elf import Machine

_GLIBC: Final = (28, 27, 25, 24, 18, 17, 12, 5)  # that wheels name, the newest first
_PLATFORMS: Final = {
    Machine.X86_64: (*(f"manylinux_2_{minor}_x86_64" for minor in _GLIBC), "manylinux2014_x86_64", "manylinux1_x86_64"),
    Machine.AARCH64: (*(f"manylinux_2_{minor}_aarch64" for minor in _GLIBC), "manylinux2014_aarch64"),
}


def python_of(version: str) -> str:
    """The Python whose wheel of a torch is read.

    Between Pythons, only libtorch_python.so of a release differs, and there nothing that extensions link to.
    """
    return "3.8" if Version(version) < Version("2.0") else "3.11"


def download(requirement: str, folder: Path, *, python: str = "3.11", machine: Machine = Machine.X86_64) -> Path | None:
    """Fetch one wheel into ``folder``; None if there is none for that machine and Python.

    :param requirement: ``name==version``
    :raises SystemExit: pip failed otherwise; with what it said
    """
    return download_for(requirement, folder, _PLATFORMS[machine], python=python)


def download_for(requirement: str, folder: Path, platforms: Sequence[str], *, python: str = "3.11") -> Path | None:
    """Fetch one wheel into ``folder`` for a system; None if there is none for it and that Python.

    :param requirement: ``name==version``
    :param platforms: the platform tags that are accepted, the best first
    :raises SystemExit: pip failed otherwise; with what it said
    """
    fetched, said = _fetch([requirement], folder, platforms, python)
    if fetched:
        return fetched[0]
    if "No matching distribution" in said:
        return None
    raise SystemExit(said)


def download_together(requirements: Sequence[str], folder: Path, machine: Machine) -> None:
    """Fetch wheels of different packages for Python 3.11: to start pip takes longer than most downloads.

    If there is none for one of them, none is fetched.

    :param requirements: ``name==version`` each
    """
    _fetch(requirements, folder, _PLATFORMS[machine], "3.11")


def _fetch(
    requirements: Sequence[str], folder: Path, platforms: Sequence[str], python: str
) -> tuple[Sequence[Path], str]:
    """Fetch wheels into ``folder``; return their paths, and what pip says of errors."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps"),
                *("--only-binary", ":all:", "--implementation", "cp", "--python-version", python),
                *(word for platform in platforms for word in ("--platform", platform)),
                *("--dest", scratch, *requirements),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        return [wheel.rename(folder / wheel.name) for wheel in Path(scratch).glob("*.whl")], done.stderr
