"""What an installation would change, in words."""

from __future__ import annotations

import pytest

from abiscan.results.changes import PackageChange, change_lines


@pytest.mark.parametrize(
    ("before", "after", "is_large"),
    [
        ("0.28.0", "0.27.1", False),
        ("0.28.0", "0.25.0", True),
        ("2.13.0+cpu", "1.13.1", True),
        ("2.12.0", "2.13.0", False),
        ("1.0.1", "1.0.0", False),
        (None, "1.0", False),
        ("1.0", None, False),
        ("dev of mine", "1.0", False),
    ],
)
def test_large_downgrades_are_marked(before: str | None, after: str | None, is_large: bool) -> None:
    change = PackageChange(name="torchvision", before=before, after=after, requested=True)
    assert change.is_large_downgrade is is_large
    assert any(f"(a large downgrade, from {before})" in line for line in change_lines([change])) is is_large
