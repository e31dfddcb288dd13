"""Which ``std::string`` a build of torch has, by its version: the release notes of 2.6 and 2.7."""

from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs.version import TorchVersion
from abiscan.torches.string_abi import of_build


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.5.1+cpu", False),
        ("2.5.1+cu124", False),
        ("2.5.1+cpu.cxx11.abi", True),
        ("2.5.1+rocm6.2", None),
        ("2.5.1", None),
        ("2.6.0+cu126", True),
        ("2.6.0+cu124", False),
        ("2.7.0", True),
        ("2.7.0+cpu", True),
    ],
)
def test_the_string_of_a_build(version: str, expected: bool | None) -> None:
    assert of_build(TorchVersion(version), Machine.X86_64) is expected
    assert of_build(TorchVersion(version), Machine.AARCH64) is None
