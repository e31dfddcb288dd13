"""Conditions on the version of torch."""

from __future__ import annotations

import ast

import pytest

from abiscan.python.later.version_tests import KnownTorch, truth_of

VERSION = "torch.__version__"


@pytest.mark.parametrize(
    ("count", "holds"),
    [(9, True), (99, None)],  # the last one takes more steps than a condition that somebody wrote
)
def test_a_condition_that_takes_too_many_steps_is_unknown(count: int, holds: bool | None) -> None:
    condition = ast.parse(" and ".join(["'a' != 'b'"] * count + [f"{VERSION} >= '2'"]), mode="eval").body
    assert truth_of(condition, KnownTorch(release="2.6.0"), lambda _: None, lambda node, _: ast.unparse(node)) is holds
