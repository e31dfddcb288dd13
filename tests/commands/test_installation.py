"""A damaged installation of abiscan itself, instead of a bug."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import pytest

import abiscan
from abiscan.inputs import installation
from tests.fakes import SAMPLES

SAMPLE: Final = SAMPLES / "undefined_symbol_signature/undefined_symbol_signature.so"
COMMAND: Final = ("-m", "abiscan", "check", str(SAMPLE), "--torch", "2.13.0")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the package."""
    return Path(shutil.copytree(Path(abiscan.__file__).parent, tmp_path / "abiscan"))


def refusal(installed: Path) -> str:
    """What a check says that cannot be made."""
    done = subprocess.run([sys.executable, *COMMAND], cwd=installed.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "pip install --force-reinstall" in done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("name", ["torches/data/exports/0.blocks", "dispatch/data/keys.txt"])
def test_a_missing_data_file_is_named(name: str, installed: Path) -> None:
    (installed / name).unlink()
    said = refusal(installed)
    assert said.startswith(f"abiscan: the installation of abiscan is damaged: abiscan/{name}: No such file")


def test_a_truncated_data_file_is_named(installed: Path) -> None:
    path = installed / "torches/data/exports/0.blocks"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    problem = f"abiscan/torches/data/exports/0.blocks: has {len(content) - 1} bytes instead of {len(content)}"
    assert f"the installation of abiscan is damaged: {problem}" in refusal(installed)


def test_a_data_file_with_a_damaged_block_is_named(installed: Path) -> None:
    path = installed / "torches/data/exports/0.blocks"
    content = bytearray(path.read_bytes())
    middle = slice(len(content) // 4, len(content) // 2)
    content[middle] = bytes(len(content[middle]))
    path.write_bytes(content)
    assert "damaged: abiscan/torches/data/exports/0.blocks: block " in refusal(installed)


def test_a_file_with_other_bytes_than_the_installer_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, info = tmp_path / "abiscan", tmp_path / "abiscan-1.dist-info"
    package.mkdir()
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: abiscan\nVersion: 1\n")
    empty = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"  # the SHA-256 of nothing
    (info / "RECORD").write_text(
        "".join(f"abiscan/{name},sha256={empty},0\n" for name in ("whole.bin", "torn.bin", "gone.bin"))
    )
    (package / "whole.bin").write_bytes(b"")
    (package / "torn.bin").write_bytes(b"?")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installation, "_PACKAGE", package)
    said = installation.describe_damage(ValueError("any"))
    assert said is not None
    assert "abiscan/torn.bin is not what was installed, abiscan/gone.bin: No such file or directory" in said
    assert "whole.bin" not in said


def test_a_requirement_that_was_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """icicle-emu has no wheel for musl; who cannot compile it may install everything else."""

    def find(name: str) -> Distribution:
        if name == "icicle-emu":
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(installation, "distribution", find)
    error = ModuleNotFoundError("No module named 'icicle'", name="icicle")
    said = "abiscan requires what is not installed: icicle-emu (pip install icicle-emu)"
    assert installation.describe_fault(error) == said
    assert installation.describe_damage(ValueError("any")) is None


def test_any_other_error_is_a_bug() -> None:
    assert installation.describe_damage(FileNotFoundError(2, "No such file or directory", "/elsewhere")) is None
