"""The torch of the interpreter that runs the tests: known without importing it, and imported once to run programs."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

from abiscan.inputs import interpreter
from tests.fakes import install, site_of
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


def linked_environment(folder: Path) -> Path:
    """Make an environment with this torch and typing_extensions, of links that may be changed; its site-packages."""
    venv.create(folder, with_pip=False)
    site = site_of(folder)
    package = interpreter.installed_torch()
    typing = importlib.util.find_spec("typing_extensions")
    assert package
    assert typing
    assert typing.origin
    (site / "torch" / "lib").mkdir(parents=True)
    for path in package.iterdir():
        if path.name != "lib":
            _link(path, site / "torch" / path.name) if path.is_file() else (site / "torch" / path.name).symlink_to(path)
    for path in (package / "lib").iterdir():
        _link(path, site / "torch" / "lib" / path.name) if path.is_file() else None
    # What torch's own modules import later.
    for name in ("torchgen", "functorch", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec"):
        (site / name).symlink_to(package.parent / name)
    _link(Path(typing.origin), site / "typing_extensions.py")
    install(site, "typing-extensions", {}, version="4.15.0", requires="")
    install(site, "torch", {}, version=str(build()), requires="typing-extensions>=4.10.0")
    return site


def _link(source: Path, target: Path) -> None:
    """A hard link, as an installer may make one; to another disk, a symbolic one."""
    try:
        os.link(source, target)
    except OSError:
        target.symlink_to(source)
