from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.inputs.version import TorchVersion
from abiscan.torches import torch_images
from abiscan.torches.platforms import ImagePlatform, LinuxPlatform, own_platform

LINUX = LinuxPlatform(Machine.X86_64)
MACOS = ImagePlatform(ImageSystem.MACOS, Machine.AARCH64)


@pytest.mark.parametrize(
    ("version", "cuda", "build"),
    [
        ("2.13.0", True, "2.13.0+cu130"),
        ("2.13", True, "2.13.0+cu130"),  # the same version in the sense of PEP 440
        ("2.13.0+cpu", True, "2.13.0+cpu"),  # what the version says counts
        ("2.13.0+cpu", False, "2.13.0+cpu"),
        ("2.13.0+cu999", True, None),
        ("0.1", True, None),
    ],
)
def test_the_build_that_an_index_has_for_linux(version: str, cuda: bool, build: str | None) -> None:
    assert LINUX.find_build(TorchVersion(version), cuda=cuda) == build


def test_the_only_build_for_another_system_whatever_it_requires() -> None:
    newest = torch_images.builds(ImageSystem.MACOS, Machine.AARCH64)[-1]
    for cuda in (False, True):
        assert MACOS.find_build(newest.of_release, cuda=cuda) == str(newest)
        assert MACOS.find_build(newest, cuda=cuda) == str(newest)
    assert MACOS.find_build(TorchVersion(f"{newest.public}+cu999"), cuda=True) is None
    assert MACOS.find_build(TorchVersion("0.1"), cuda=False) is None


def test_no_build_for_a_machine_that_torch_has_none_for() -> None:
    assert LinuxPlatform(None).find_build(TorchVersion("2.13.0"), cuda=True) is None


def test_the_platform_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert own_platform() == MACOS
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert own_platform() == LINUX
