"""Which Pythons a release has wheels for: the classifiers of torch on the package index, and its release notes."""

from __future__ import annotations

import pytest

from abiscan.inputs.version import TorchVersion
from abiscan.torches import pythons


@pytest.mark.parametrize(
    ("release", "python", "expected"),
    [
        ("1.4.0", "3.5", True),
        ("1.4.0", "3.8", True),
        ("1.4.0", "3.9", False),
        ("2.13.0", "3.5", False),
        ("2.5.1", "3.9", True),  # the notes of 2.5: from 3.9 on
        ("2.5.1", "3.8", False),
        ("2.5.1", "3.12", True),
        ("2.5.1", None, True),
        ("99.0.0", "3.5", True),  # nothing is known of it
        ("99.0.0", None, True),
    ],
)
def test_a_release_runs_in_the_pythons_that_it_has_wheels_for(release: str, python: str | None, expected: bool) -> None:
    assert pythons.runs_in(TorchVersion(release), python) is expected
