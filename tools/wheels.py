"""Wheels from the package index, fetched with pip for whichever machine and Python is asked for."""

from __future__ import annotations

import subprocess
import sys
import tempfile
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
    platforms = [word for platform in _PLATFORMS[machine] for word in ("--platform", platform)]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps"),
                *("--only-binary", ":all:", "--implementation", "cp", "--python-version", python),
                *(*platforms, "--dest", scratch, requirement),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        fetched = next(Path(scratch).glob("*.whl"), None)
        if fetched is not None:
            return fetched.rename(folder / fetched.name)
    if "No matching distribution" in done.stderr:
        return None
    raise SystemExit(done.stderr)
