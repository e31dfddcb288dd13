"""Environments made up for the hooks: real ones for pip, with a torch that has nothing in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.hooks import remedies
from abiscan.inputs import packages
from tests.fakes import install, site_of, torch_package
from tests.warm_python import WarmPython

# What `pip --python` runs in the other Python: pip/__pip-runner__.py, which finds pip where it stands itself.
IMPORT_PIP: Final = """
import runpy, sys
try:
    runpy.run_path({runner!r})
except AssertionError:  # it is not the main module
    pass
from pip._internal.commands import create_command
for name in ("config", "download", "index", "install"):
    create_command(name)
import pip._internal.resolution.resolvelib.resolver
from pip._internal.metadata import get_default_environment
from pip._internal.network import session
if sys.version_info >= (3, 11):  # before, pip uses pkg_resources, which lists what is installed as it is imported
    get_default_environment()
# To tell an index what this machine is, it starts three programs, and asks what is installed.
session.user_agent = lambda: "pip"
"""
RUN_PIP: Final = "import runpy; runpy.run_module('pip', run_name='__main__', alter_sys=True)"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with tests takes its time."""
    monkeypatch.setattr(remedies, "SECONDS", 600)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with torch 9.9.0 and no pip."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    torch_package(site_of(folder))
    (site_of(folder) / "torch" / "__init__.py").touch()
    install(site_of(folder), "torch", {}, version="9.9.0", requires="")
    return folder


@pytest.fixture
def python(environment: Path) -> Iterator[str]:
    """Its Python. What a test installs is gone after the test."""
    before = set(site_of(environment).iterdir())
    yield str(environment / "bin" / "python")
    for path in set(site_of(environment).iterdir()) - before:
        shutil.rmtree(path)


@pytest.fixture(scope="module")
def pip_of_environment(environment: Path) -> Iterator[WarmPython]:
    """Its Python, with our pip imported."""
    pip = packages.find_installed("pip", sys.path)
    assert pip is not None
    runner = Path(pip.site, "pip", "__pip-runner__.py")
    warm = WarmPython(str(environment / "bin" / "python"), IMPORT_PIP.format(runner=str(runner)))
    yield warm
    warm.close()


@pytest.fixture
def warm_pip(pip_of_environment: WarmPython, environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real pip, whose two starts and imports take most of its time, is imported once for all tests of a file."""
    start = subprocess.run

    def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        words = list(map(str, command))
        if ["pip", "--python", str(environment / "bin" / "python")] != _from(words, "pip", 3):
            return start(command, **options)
        variables = {**(options.get("env") or os.environ), "_PIP_RUNNING_IN_SUBPROCESS": "1"}
        return pip_of_environment.run(RUN_PIP, *words[words.index("pip") + 1 :], env=variables)

    monkeypatch.setattr(subprocess, "run", run)


def _from(words: list[str], word: str, count: int) -> list[str]:
    """Some words from the first that is ``word``."""
    at = words.index(word) if word in words else len(words)
    return words[at : at + count]
