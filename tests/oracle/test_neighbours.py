"""What really comes of a class of another library: it is registered before, or the process ends."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests import live_torch
from tests.elf_builder import Elf
from tests.fakes import SAMPLES
from tests.oracle.test_samples import TORCH

FOLDER: Final = SAMPLES / "class_of_another"

pytestmark = pytest.mark.skipif(live_torch.version() != TORCH, reason=f"needs torch {TORCH}")


def load(*paths: Path) -> subprocess.CompletedProcess[str]:
    code = "import ctypes, sys, torch\nfor path in sys.argv[1:]: ctypes.CDLL(path)"
    return live_torch.run(code, *paths)


def test_another_package_has_loaded_the_library() -> None:
    done = load(FOLDER / "libabiscan_provider.so", FOLDER / "abiscan_user.so")
    assert done.returncode == 0, done.stderr


def test_a_library_without_the_class_ends_the_process(tmp_path: Path) -> None:
    empty = Elf(soname="libabiscan_provider.so").write(tmp_path / "libabiscan_provider.so")
    done = load(empty, FOLDER / "abiscan_user.so")
    assert done.returncode == -signal.SIGABRT
    assert "Unknown custom class type abiscan_provider.Thing. Please ensure it is registered" in done.stderr
