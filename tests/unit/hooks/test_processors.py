"""What is installed has to run on the processors that the user names."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from abiscan.cli import main
from abiscan.environments.package_check import Fitness, check_package
from abiscan.inputs.session import Session
from abiscan.torches.torch import ReleaseNumber
from abiscan.verdict.hardware import cpu_question

ARCHIVE = Path(__file__).parents[2] / "data" / "cpu" / "libraries.zip"


@pytest.mark.parametrize(("cpus", "fitness"), [(("haswell",), Fitness.WORKS), (("haswell", "nehalem"), Fitness.FAILS)])
def test_what_is_judged_has_to_run_on_all_of_them(tmp_path: Path, cpus: tuple[str, ...], fitness: Fitness) -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extract("avx2.so", tmp_path)
    session = Session(folder=tmp_path / "kept", cpus=cpus)
    checked_package = check_package(tmp_path / "avx2.so", ReleaseNumber("2.12.0"), session)
    assert checked_package is not None
    assert checked_package.fitness is fitness


def test_what_is_kept_depends_on_them() -> None:
    assert cpu_question(("haswell",)) != cpu_question(("nehalem",))
    assert [name for name, _ in cpu_question(("haswell", "nehalem"))] == ["haswell", "nehalem"]


@pytest.mark.parametrize(
    "words",
    [
        ["doctor", "--cpu", "haswel"],
        ["pip", "--cpu", "haswel", "install", "torchvision"],
        ["fit", "torchvision", "--torch", "2.12.0", "--cpu", "haswel"],
    ],
)
def test_an_unknown_processor_is_an_error_of_the_user(words: list[str]) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "is not a processor that abiscan knows (did you mean haswell?" in result.output
