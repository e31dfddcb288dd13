"""Schemas compared as torch 2.13.0 compared them: recorded by ``tests/data/record_schema_comparisons.py``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Final

import pytest

from abiscan.dispatch.schema import FunctionSchema

FILE: Final = Path(__file__).parents[2] / "data" / "schema_comparisons.json.gz"


def test_schemas_are_compared_as_by_torch() -> None:
    """Whether they are equal, whether the first one is backward compatible with the second, and whether forward."""
    pairs = json.loads(gzip.decompress(FILE.read_bytes()))["pairs"]
    assert len(pairs) > 1_500
    for one, two, *theirs in pairs:
        first, second = FunctionSchema.parse(one, strict=True), FunctionSchema.parse(two, strict=True)
        ours = [first == second, first.is_backward_compatible_with(second), first.is_forward_compatible_with(second)]
        assert ours == list(map(bool, theirs)), (one, two)
        assert (first.first_difference(second) is None) == (first == second)


@pytest.mark.parametrize(
    ("default", "printed"),
    [
        ("float x=9223372036854775808.", "float x=9.2233720368547758e+18"),  # 2 ** 63 is no int64_t
        ("float x=-9223372036854775808.", "float x=-9223372036854775808."),
        ("float x=9223372036854774784.", "float x=9223372036854774784."),
        ("float x=-9223372036854777856.", "float x=-9.2233720368547779e+18"),
        ("float x=0.1", "float x=0.10000000000000001"),
        ("float x=-0.5", "float x=-0.5"),
        ("float x=3.", "float x=3."),
        ("int[2] x=[1,2]", "int[2] x=[1, 2]"),
        ("int[3] x=1", "int[3] x=1"),
        ("str? x='q'", 'str? x="q"'),
        ("bool x=True", "bool x=True"),
    ],
)
def test_defaults_are_printed_as_by_torch(default: str, printed: str) -> None:
    """As torch 2.13.0 prints them."""
    assert FunctionSchema.parse(f"f({default}) -> ()").printed_by((2, 13)) == f"f({printed}) -> ()"
