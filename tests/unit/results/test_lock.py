from __future__ import annotations

import pytest

from abiscan.results.lock import LockComparison, OutcomeChange
from abiscan.results.package import PackageVerdict

CHANGE = OutcomeChange(
    name="pkg", version="1.0", before=PackageVerdict.WORKS, after=PackageVerdict.IMPORT_FAILS, error=None
)


@pytest.mark.parametrize(
    ("parts", "code"), [((), 0), (("still", "better"), 0), (("unknown",), 3), (("unknown", "worse"), 1)]
)
def test_the_exit_code_of_a_comparison(parts: tuple[str, ...], code: int) -> None:
    lists = {name: (CHANGE,) if name in parts else () for name in ("worse", "better", "still", "unknown")}
    assert LockComparison(old="", new="", torch=None, changes=(), environments=(), **lists).exit_code == code
