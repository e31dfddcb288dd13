"""Numbers of the x87, which compute as IEEE 754 says (Intel SDM 1, 4.8.3)."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from abiscan.emulation.arch import x87


@pytest.mark.parametrize(
    ("number", "root"),
    [
        (Fraction(9, 4), Fraction(3, 2)),
        (Fraction(0), Fraction(0)),
        (Fraction(-1), math.nan),
        (math.inf, math.inf),
        (-math.inf, math.nan),
    ],
)
def test_roots(number: Fraction | float, root: Fraction | float) -> None:
    """FSQRT: that of a number below zero is an invalid operation (Intel SDM 2A, table 3-39)."""
    computed = x87._root(number)
    assert computed == root or (math.isnan(root) and math.isnan(computed))
