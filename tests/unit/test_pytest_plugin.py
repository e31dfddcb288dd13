"""The plugin of pytest, as the tests of another project use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import abiscan
from abiscan.pytest import assert_works, releases
from tests.elf_builder import uses
from tests.fakes import extension, package_wheel

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest
from abiscan.pytest import assert_works

@pytest.mark.torch_releases(">=2.5,<2.7")
def test_wheel(torch_release):
    assert_works({wheel!r}, torch_release)
"""


def wheel(folder: Path, symbol: str) -> Path:
    return package_wheel(folder, "pkg", {"pkg/_C.so": extension(undefined=uses(symbol))})


def test_what_works_passes(tmp_path: Path) -> None:
    assert_works(wheel(tmp_path, "_ZN2at15get_num_threadsEv"), ">=2.8,<2.10")


def test_what_fails_is_said_release_by_release_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception) as failure:
        assert_works(wheel(tmp_path, "_ZN2at4goneEv"), ">=2.9,<2.10")

    lines = str(failure.value).splitlines()
    headlines = [line for line in lines if not line.startswith(" ")]
    assert [line.partition(": ")[0] for line in headlines] == [
        *("pkg/_C.so on torch 2.9.0+cu128", "pkg/_C.so on torch 2.9.1+cu128")
    ]
    assert all(line.endswith("undefined symbol: _ZN2at4goneEv") for line in headlines)
    assert any(line.startswith("    fix: install a build") for line in lines)


def test_what_cannot_be_read_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"absent\.whl"):
        assert_works(tmp_path / "absent.whl", "2.9.1")


def test_releases_of_a_specifier() -> None:
    assert releases(">=2.5,<2.7") == ("2.5.0", "2.5.1", "2.6.0")
    with pytest.raises(abiscan.InputError):
        releases("not a specifier")


@pytest.mark.slow
def test_there_is_one_test_for_each_release(tmp_path: Path) -> None:
    path = wheel(tmp_path, "_ZN2at15get_num_threadsEv")
    tmp_path.joinpath("test_it.py").write_text(TESTS.format(wheel=str(path)), "utf-8")
    command = [sys.executable, "-m", "pytest", "-v", "--strict-markers", "test_it.py"]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert "3 passed" in done.stdout
    assert "test_it.py::test_wheel[2.6.0] PASSED" in done.stdout
