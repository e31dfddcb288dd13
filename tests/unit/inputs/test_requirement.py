from __future__ import annotations

import pytest
from packaging.version import Version

from abiscan.inputs.requirement import TorchRequirement, metadata_of, read_metadata, simplest_requirement

KNOWN = tuple(map(Version, ["2.3.0", "2.3.1", "2.4.0", "2.4.1", "2.5.0", "2.5.1", "2.6.0", "2.7.0", "2.7.1"]))


def required(*lines: str, wheel: str = "pkg-1.0-cp311-cp311-manylinux_2_28_x86_64.whl") -> TorchRequirement | None:
    return read_metadata("".join(f"{line}\n" for line in ("Name: pkg", *lines)), wheel).requires_torch


def admitted(*requirements: str) -> list[str]:
    requirement = required(*(f"Requires-Dist: {text}" for text in requirements))
    assert requirement is not None
    return [str(version) for version in KNOWN if requirement.admits(version)]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ("Requires-Dist: torch>=2.0", "torch>=2.0"),
        ("Requires-Dist: torch (==2.5.1)", "torch==2.5.1"),
        ("Requires-Dist: Torch", "torch"),
        ("Requires-Dist:  torch ( >= 2.5 , < 2.7 )", "torch<2.7,>=2.5"),
        ("Requires-Dist: torch (==2.5.1", None),
        ("Requires-Dist: torch==2.5.1,", "torch==2.5.1"),
        ("Requires-Dist: torch[opt]>=2.0", "torch>=2.0"),
        ("Requires-Dist: not a requirement !\nRequires-Dist: torch<3", "torch<3"),
        ("Requires-Dist: torch==1.0; python_version < '3'", None),
        ("Requires-Dist: torch==2.5.1; extra == 'all'", None),
        ("Requires-Dist: torch==2.5.1; sys_platform == 'darwin'", None),
        ("Requires-Dist: torch==2.5.1; platform_machine == 'x86_64' and platform_system == 'Linux'", "torch==2.5.1"),
        ("Requires-Dist: torch>=2.6; python_version >= '3.12'\nRequires-Dist: torch>=2.4; python_version < '3.12'",
         "torch>=2.4"),
        ("Requires-Dist: torch-geometric\nRequires-Dist: torch.x", None),
        ("\nRequires-Dist: torch==1.0 is text of the description", None),
        ("Requires-Dist: torch>=2\nRequires-Dist: torch<3", "torch>=2,<3"),
        ("Requires-Dist: torch @ https://host/torch-2.6.0%2Bcu124-cp311-cp311-linux_x86_64.whl",
         "torch @ https://host/torch-2.6.0%2Bcu124-cp311-cp311-linux_x86_64.whl"),
    ],
)  # fmt: skip
def test_the_requirement_on_torch(metadata: str, text: str | None) -> None:
    found = required(metadata)
    assert (str(found) if found else None) == text


@pytest.mark.parametrize(
    ("requirement", "releases"),
    [
        ("torch==2.5.1", "2.5.1"),
        ("torch>=2.5,<2.7", "2.5.0 2.5.1 2.6.0"),
        ("torch", "2.3.0 2.3.1 2.4.0 2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1"),
        ("torch~=2.6", "2.6.0 2.7.0 2.7.1"),
        # A release number stands for all its builds: which of them, a local tag says.
        ("torch==2.6.0+cpu", "2.6.0"),
        ("torch===2.6.0+cpu", "2.6.0"),
        ("torch>2.6,!=2.7.1+cpu", "2.7.0 2.7.1"),
        # What pip takes a pre-release for: it admits the release that follows.
        ("torch>=2.7.0.dev20250101", "2.7.0 2.7.1"),
        ("torch<2.4.0rc1", "2.3.0 2.3.1"),
        ("torch @ https://host/torch-2.6.0%2Bcu124-cp311-cp311-linux_x86_64.whl", "2.6.0"),
        ("torch @ git+https://host/pytorch", "2.3.0 2.3.1 2.4.0 2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1"),
    ],
)
def test_which_releases_a_requirement_allows(requirement: str, releases: str) -> None:
    assert admitted(requirement) == releases.split()


def test_a_requirement_with_brackets_without_end_is_none() -> None:
    nested = "(" * 900 + "extra == 'x'" + ")" * 900
    assert read_metadata(f"Requires-Dist: torch>=2; {nested}\n", "pkg-1.0-py3-none-any.whl").requires_torch is None


def test_all_requirements_hold() -> None:
    assert admitted("torch>=2.5", "torch!=2.6.0") == ["2.5.0", "2.5.1", "2.7.0", "2.7.1"]


@pytest.mark.parametrize(
    ("version", "torch"),
    [
        ("2.1.2+pt28cu128", "2.8"),
        ("2.1.2+pt113cu117", "1.13"),
        ("2.1.2+pt210", "2.10"),
        ("2.8.3+cu12torch2.8cxx11abiTRUE", "2.8"),
        ("1.0+cu124.torch2.5.1", "2.5.1"),
        ("0.20.1+cu121", None),
        ("0.20.1", None),
        ("0.20.1+pt", None),
    ],
)
def test_the_torch_in_the_version_of_a_wheel(version: str, torch: str | None) -> None:
    assert read_metadata(f"Version: {version}\n", "x.whl").torch_in_version == torch


@pytest.mark.parametrize(
    ("wheel", "python"),
    [
        ("pkg-1.0-cp311-cp311-linux_x86_64.whl", "3.11"),
        ("pkg-1.0-1-cp313-cp313t-manylinux_2_28_x86_64.manylinux_2_17_x86_64.whl", "3.13"),
        ("pkg-1.0-cp39-abi3-linux_x86_64.whl", None),
        ("pkg-1.0-py3-none-linux_x86_64.whl", None),
        ("x.whl", None),
    ],
)
def test_the_python_of_a_wheel(wheel: str, python: str | None) -> None:
    assert read_metadata("", wheel).python == python


@pytest.mark.parametrize(
    ("wanted", "requirement"),
    [
        ("", None),
        ("2.6.0", "torch==2.6.0"),
        ("2.5.1", "torch==2.5.1"),
        ("2.5.0 2.5.1", "torch>=2.5,<2.6"),
        ("2.5.1 2.6.0", "torch>=2.5.1,<2.7"),
        ("2.4.1 2.5.0", "torch>=2.4.1,<2.5.1"),
        ("2.6.0 2.7.0 2.7.1", "torch>=2.6"),
        ("2.3.0 2.3.1 2.4.0", "torch>=2.3,<2.4.1"),
        ("2.4.0 2.4.1 2.6.0", "torch>=2.4,<2.7,!=2.5.*"),
        ("2.4.0 2.5.0 2.5.1", "torch>=2.4,<2.6,!=2.4.1"),
    ],
)
def test_the_simplest_requirement(wanted: str, requirement: str | None) -> None:
    assert simplest_requirement([Version(text) for text in wanted.split()], KNOWN) == requirement


@pytest.mark.parametrize(
    ("line", "depends"),
    [
        ("torch<2.6", False),
        ("torch<2.6; extra == 'all'", False),
        ("torch<2.6; python_version < '3.12'", True),
        ("torch<2.6 ; sys_platform == 'linux'", True),
        ("numpy<2; python_version < '3.12'", False),
    ],
)
def test_whether_another_python_or_system_has_another_requirement(line: str, depends: bool) -> None:
    assert metadata_of([line], "1.0").depends_on_markers is depends
