"""What calls of compiled functions may pass, release by release, going by torch's own native_functions.yaml."""

from __future__ import annotations

import pytest

from abiscan.torches.operator_overloads import ReleaseOperators


@pytest.mark.parametrize(
    ("release", "function", "gone"),
    [
        # _scaled_mm lost its second result in torch 2.5.
        ("2.4.0", "aten::_scaled_mm", frozenset[str]()),
        ("2.5.0", "aten::_scaled_mm", {"out_amax"}),
        # searchsorted got them in torch 1.11.
        ("1.10.0", "aten::searchsorted", {"side", "sorter"}),
        ("1.11.0", "aten::searchsorted", frozenset[str]()),
        ("2.6.0", "aten::there_is_no_such_function", frozenset[str]()),
    ],
)
def test_keywords_that_only_other_releases_take(release: str, function: str, gone: frozenset[str]) -> None:
    assert ReleaseOperators(release).gone_keywords(function) == gone
