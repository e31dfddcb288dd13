from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from abiscan.inputs.version import TorchVersion, number_of


@pytest.mark.parametrize(
    ("text", "number", "local", "minor_version"),
    [
        ("2.13.0", "2.13.0", None, (2, 13)),
        ("2.13.0+cu130", "2.13.0", "cu130", (2, 13)),
        ("1.4.0+cpu", "1.4.0", "cpu", (1, 4)),
        ("2.1.0a0+41361538", "2.1.0a0", "41361538", (2, 1)),
        ("2.10", "2.10", None, (2, 10)),
    ],
)
def test_the_parts_of_a_version(text: str, number: str, local: str | None, minor_version: tuple[int, int]) -> None:
    version = TorchVersion.parse(text)
    assert version is not None
    assert (version.number, version.local, version.minor_version) == (number, local, minor_version)
    assert (str(version.of_release), version.of_release.local) == (number, None)
    assert number_of(text) == number


def test_versions_are_ordered_by_number_and_a_build_follows_its_release() -> None:
    texts = ["2.10.0+cpu", "2.9.1", "2.10.0", "1.13.1", "2.10.0+cu128"]
    ordered = [str(version) for version in sorted(map(TorchVersion, texts))]
    assert ordered == ["1.13.1", "2.9.1", "2.10.0", "2.10.0+cpu", "2.10.0+cu128"]


def test_a_version_is_equal_to_that_of_packaging_and_fits_a_specifier() -> None:
    assert {TorchVersion("2.6")} == {Version("2.6.0")}
    assert TorchVersion("2.6.0+cu124") in SpecifierSet(">=2.5,<2.7")


@pytest.mark.parametrize("text", ["", "unknown", "2.x"])
def test_what_is_no_version(text: str) -> None:
    assert TorchVersion.parse(text) is None
