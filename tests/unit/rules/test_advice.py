"""The way out that the rules suggest never contradicts the metadata."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from abiscan.cli import main
from tests.elf_builder import uses
from tests.fakes import extension, package_wheel, torch_package

GONE = uses("_ZN2at4goneEv")
MADE_FOR_IT = "install a build of the extension made for torch 9.9.0"


def fix(tmp_path: Path, requirement: str, **elf: object) -> str:
    """What is suggested for a wheel with that requirement, which does not load on torch 9.9.0."""
    torch = torch_package(tmp_path / "site")
    requires = {"Requires-Dist": requirement} if requirement else {}
    wheel = package_wheel(tmp_path, "pkg", {"pkg/_C.so": extension(**elf)}, metadata=requires)
    result = CliRunner().invoke(main, ["check", str(wheel), "--torch", str(torch), "--format", "json"])
    finding = next(
        each for each in json.loads(result.stdout)["results"][0]["findings"] if each["effect"] == "load-fails"
    )
    return str(finding["fix"])


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("", "the torch it was built for"),
        ("torch", "the torch it was built for"),
        ("torch==2.5.1", "the torch that its metadata requires: torch==2.5.1"),
        (
            "torch>=2.3",
            "a torch that it may have been built for: 2.3.0-2.15.0 (its metadata allows torch 9.9.0 too: torch>=2.3)",
        ),
    ],
)
def test_metadata_that_admit_this_torch_are_no_way_out(requirement: str, expected: str, tmp_path: Path) -> None:
    assert fix(tmp_path, requirement, undefined=GONE) == f"{MADE_FOR_IT}, or {expected}"


@pytest.mark.parametrize(("build", "option"), [("2.9.1", ""), ("2.9.1+cu128", ""), ("2.9.1+cpu", " --cuda cpu")])
def test_the_command_that_finds_a_build_for_a_release(build: str, option: str, tmp_path: Path) -> None:
    wheel = package_wheel(tmp_path, "pkg", {"pkg/_C.so": extension(undefined=GONE)})
    result = CliRunner().invoke(main, ["check", str(wheel), "--torch", build, "--format", "json"])
    (finding,) = json.loads(result.stdout)["results"][0]["findings"]
    assert f"made for torch 2.9.1 (abiscan fit pkg --torch 2.9.1{option} finds the newest), or" in finding["fix"]


@pytest.mark.parametrize(
    ("requirement", "build", "otherwise"),
    [
        (
            "torch==2.9.1",
            "another version of the extension (abiscan fit pkg --torch 2.9.1 finds the newest)",
            "or report this to its authors: this happens on the torch that it was built for",
        ),
        (
            "torch>=2.9.0,<2.10",
            "a build of the extension made for torch 2.9.1 (abiscan fit pkg --torch 2.9.1 finds the newest)",
            "or a torch that it may have been built for: 2.9.0",
        ),
    ],
)
def test_the_torch_it_was_built_for_is_no_way_out_if_it_is_this_one(
    requirement: str, build: str, otherwise: str, tmp_path: Path
) -> None:
    objects = {"pkg/_C.so": extension(undefined=GONE)}
    wheel = package_wheel(tmp_path, "pkg", objects, metadata={"Requires-Dist": requirement})
    result = CliRunner().invoke(main, ["check", str(wheel), "--torch", "2.9.1", "--format", "json"])
    (finding,) = json.loads(result.stdout)["results"][0]["findings"]
    assert finding["fix"] == f"install {build}, {otherwise}"


def test_a_build_for_cuda_of_another_release(tmp_path: Path) -> None:
    needed = ("libtorch_cpu.so", "libtorch_cuda.so")
    anywhere = fix(tmp_path / "anywhere", "", needed=needed)
    assert anywhere == "install a CUDA build of torch, or a build of the extension without CUDA"
    # Torch 9.9.0 with CUDA would not help it.
    elsewhere = fix(tmp_path / "elsewhere", "torch==2.5.1", needed=needed)
    without = f"{MADE_FOR_IT} without CUDA"
    assert elsewhere == f"{without}, or the torch that its metadata requires: torch==2.5.1 (a CUDA build)"
