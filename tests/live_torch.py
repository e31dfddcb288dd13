"""The torch of the interpreter that runs the tests: known without importing it, and imported once to run programs."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from abiscan.inputs import interpreter
from tests.warm_python import WarmPython


@functools.cache
def build() -> str | None:
    """Its full version, ``2.13.0+cpu``; None without torch.

    From its own file, since the metadata of some wheels have the number alone: from PyPI, torch 2.13.0 is 2.13.0+cu130.
    """
    package = interpreter.installed_torch()
    if package is None:
        return None
    found = re.search(r"^__version__ = '([^']+)'", (package / "version.py").read_text("utf-8"), re.MULTILINE)
    assert found, package
    return found[1]


def version() -> str | None:
    """Its number, ``2.13.0``; None without torch."""
    full = build()
    return full.partition("+")[0] if full else None


def run(
    program: str,
    *words: str | Path,
    input: str = "",  # noqa: A002 - as subprocess.run calls it
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python in a process of its own, in which torch is imported already.

    :param check: raise ``subprocess.CalledProcessError`` if it does not exit with 0
    """
    return _python().run(program, *words, input=input, cwd=cwd, env=env, check=check)


@functools.cache
def _python() -> WarmPython:
    return WarmPython(sys.executable, "import torch")
