"""``make new-rule``, in a copy of the repository: what it writes passes the linter and the tests of the registry."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
REGISTRY: Final = "documented or called or listed or folder or by_name"
"""The tests of ``test_cases.py`` that hold before the rule has cases."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository, as far as it is about rules; large data are links."""
    ignored = shutil.ignore_patterns("data", "__pycache__")
    for folder in ("abiscan", "tools", "tests/cases"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for data in (ROOT / "abiscan").rglob("data"):
        (tmp_path / data.relative_to(ROOT)).symlink_to(data)
    for file in (ROOT / "pyproject.toml", *(ROOT / "tests").glob("*.py")):
        shutil.copyfile(file, tmp_path / file.relative_to(ROOT))
    return tmp_path


def run(copy: Path, module: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_what_it_writes_is_in_order(copy: Path) -> None:
    for name in ("kernel-moved", "abi-10-z", "abi-9-a", "zz"):  # between others, by number, and last
        done = run(copy, "tools.new_rule", name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == f"tests/cases/{name.replace('-', '_')}"
    for words in (("check", "abiscan/rules"), ("format", "--check", "abiscan/rules")):
        done = run(copy, "ruff", *words, "--no-cache")
        assert done.returncode == 0, done.stdout
    done = run(copy, "pytest", "-q", "-p", "no:cacheprovider", "tests/test_cases.py", "-k", REGISTRY)
    assert done.returncode == 0, done.stdout


def test_a_name_that_no_module_can_have(copy: Path) -> None:
    for name in ("Kernel", "2-kernels", "class", "kernel-override"):
        before = (copy / "abiscan" / "rules" / "__init__.py").read_bytes()
        done = run(copy, "tools.new_rule", name)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert (copy / "abiscan" / "rules" / "__init__.py").read_bytes() == before
