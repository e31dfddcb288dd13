"""Packages that are Python code alone: their imports, on releases of which the names are known."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from abiscan.cli import main


def _wheel(folder: Path, source: str) -> Path:
    path = folder / "pure-1.0-py3-none-any.whl"
    metadata = "Metadata-Version: 2.1\nName: pure\nVersion: 1.0\nRequires-Dist: torch\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pure/__init__.py", source)
        archive.writestr("pure-1.0.dist-info/METADATA", metadata)
        archive.writestr("pure-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("pure-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.parametrize(
    ("source", "release", "code", "words"),
    [
        ("from torch.amp import custom_bwd\n", "2.3.0", 1, "cannot import name 'custom_bwd' from 'torch.amp'"),
        ("from torch.amp import custom_bwd\n", "2.4.0", 0, "works"),
        ("import torch\nraise ValueError('who knows')\n", "2.4.0", 3, "unknown"),
    ],
)
def test_check(source: str, release: str, code: int, words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["check", str(_wheel(tmp_path, source)), "--torch", release])

    assert result.exit_code == code, result.output
    assert words in result.output


def test_matrix_says_on_which_releases_it_imports(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, "from torch.nn.parameter import Buffer\n")
    result = CliRunner().invoke(main, ["matrix", str(wheel), "--torch", "2.4.1", "--torch", "2.5.0"])

    row = next(line for line in result.output.splitlines() if line.startswith("pure 1.0"))
    assert row.split()[2:] == ["✗", "✓"]
