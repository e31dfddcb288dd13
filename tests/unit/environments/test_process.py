"""What concerns every process of an environment."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from abiscan.environments.model import WholeEnvironment
from abiscan.environments.process import examine_process
from abiscan.inputs import packages
from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.torches.torch import TorchAt
from tests.elf_builder import Elf
from tests.fakes import install, torch_libraries, torch_package
from tests.unit.environments.test_examination import OF_1


def messages(site: Path) -> list[str]:
    environment = WholeEnvironment(python=sys.executable, distributions=tuple(packages.list_installed([str(site)])))
    files = Files()
    torch = TorchAt(torch_package(site)).open(files, Session(folder=site / "cache"))
    return [finding.message for finding in examine_process(environment, torch, files)]


def test_two_distributions_with_the_same_files(tmp_path: Path) -> None:
    for name in ("opencv-python", "opencv-python-headless"):
        install(tmp_path, name, {}, requires="", files={"cv2/__init__.py": "", f"{name}.txt": ""})
    for name in ("google-one", "google-two"):  # parts of a namespace
        install(tmp_path, name, {}, requires="", files={f"google/{name[-3:]}/__init__.py": ""})
    (message,) = messages(tmp_path)
    names = {"opencv-python==1.0", "opencv-python-headless==1.0"}
    assert {message.split(" and ")[0], message.split(" and ")[1].split(" ")[0]} == names
    assert message.endswith("have installed the same files: cv2/__init__.py; the last one's are there")


def test_what_earlier_installations_have_left(tmp_path: Path) -> None:
    install(tmp_path, "gone", {}, requires="", files={"gone/__init__.py": ""})
    install(tmp_path, "data", {}, requires="", files={"data.json": ""})
    (tmp_path / "gone" / "__init__.py").unlink()
    (tmp_path / "~orch").mkdir()
    assert messages(tmp_path) == [
        "gone==1.0 is listed as installed, but none of its code is there",
        f"an installation that was interrupted has left ~orch in {tmp_path}",
    ]


@pytest.mark.parametrize(
    ("libraries", "count"),
    [
        (("libiomp5.so", "libomp-5de87c2d.so"), 1),
        (("libgomp.so.1", "libgomp-5de87c2d.so.1.0.0"), 0),  # any number of which works in one process
        (("libiomp5.so", "libgomp.so.1"), 0),
    ],
)
def test_runtimes_of_openmp(tmp_path: Path, libraries: tuple[str, ...], count: int) -> None:
    for number, library in enumerate(libraries):
        install(tmp_path, f"brings{number}", {f"brings{number}.libs/{library}": Elf()}, requires="")
    assert len(messages(tmp_path)) == count


@pytest.mark.parametrize(("version", "count"), [("2.4.6", 1), ("1.26.4", 0)])
def test_a_torch_that_was_compiled_for_numpy_1(tmp_path: Path, version: str, count: int) -> None:
    """As torch up to 2.2 was: import torch goes on with a warning, which numpy words."""
    install(tmp_path, "numpy", {}, version=version, requires="")
    package = torch_package(tmp_path)
    python = torch_libraries()["libtorch_python.so"]
    dataclasses.replace(python, texts=(*python.texts, *OF_1)).write(package / "lib" / "libtorch_python.so")
    environment = WholeEnvironment(python=sys.executable, distributions=tuple(packages.list_installed([str(tmp_path)])))
    files = Files()
    torch = TorchAt(package).open(files, Session(folder=tmp_path / "cache"))
    findings = list(examine_process(environment, torch, files))
    assert [finding.rule for finding in findings] == ["numpy-abi"] * count
    assert all("compiled using NumPy 1.x cannot be run in NumPy 2.4.6" in str(finding.says) for finding in findings)
