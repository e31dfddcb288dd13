"""The types that cross the stable ABI, as torch 2.7.1 to 2.15.0 answered when they were run."""

from __future__ import annotations

import pytest

from abiscan.dispatch.schema import FunctionSchema
from abiscan.dispatch.stable import call_mismatch, is_known, of_call, of_kernel


@pytest.mark.parametrize(
    ("schema", "release", "message"),
    [
        ("t::f(SymInt x) -> Tensor", (2, 7), None),
        ("t::f(Device x, Layout y, MemoryFormat z, ScalarType w) -> Tensor", (2, 7), None),
        ("t::f(str x) -> Tensor", (2, 9), "from StableIValue to IValue for schema type: str"),
        ("t::f(str x) -> Tensor", (2, 10), None),
        ("t::f(Tensor x) -> Tensor[]", (2, 9), "from IValue to StableIValue for schema type: Tensor[]"),
        ("t::f(Tensor x) -> Tensor[]", (2, 10), None),
        ("t::f(Generator x) -> Tensor", (2, 12), "from StableIValue to IValue for schema type: Generator"),
        ("t::f(Generator x) -> Tensor", (2, 13), None),
        ("t::f(Tensor x) -> Scalar", (2, 15), "from IValue to StableIValue for schema type: Scalar"),
    ],
)
def test_since_when_a_type_crosses_in_a_call(schema: str, release: tuple[int, int], message: str | None) -> None:
    found = of_call(FunctionSchema.parse(schema, release=release), release)
    assert (found and found.message) == (message and f"Not yet supported conversion {message}")


def test_of_a_newer_torch_it_is_unknown_what_crosses() -> None:
    assert is_known((2, 15))
    assert not is_known((2, 16))


def test_an_optional_crosses_and_what_it_contains_may_not() -> None:
    found = of_kernel(FunctionSchema.parse("t::f(Scalar? x) -> Tensor", release=(2, 13)), (2, 13))
    assert found is not None
    assert not found.always


@pytest.mark.parametrize(
    ("built_for", "now", "expected"),
    [
        # One array holds first the arguments and then the results: it is as long as the longer of the two.
        ("(Tensor x) -> Tensor", "(Tensor x) -> Tensor", None),
        ("(Tensor x) -> Tensor", "(Tensor x) -> (Tensor, Tensor)", "torch writes 2 results to an array of 1"),
        ("(Tensor x, Tensor y) -> Tensor", "(Tensor x, Tensor y) -> (Tensor, Tensor)", None),
        ("(Tensor x) -> Tensor", "(Tensor x, int y) -> Tensor", "torch reads 2 arguments from an array of 1"),
        ("(Tensor x) -> (Tensor, Tensor)", "(Tensor x, int y) -> Tensor", None),
        ("(Tensor x, int y) -> ()", "(Tensor x) -> ()", None),
        (
            "(Tensor x, int y) -> ()",
            "(Tensor x, float z) -> ()",
            "torch takes argument 2, of type int, for z, of type float",
        ),
        ("(Tensor x, SymInt[]? y) -> ()", "(Tensor x, int[]? y) -> ()", None),  # a number in either
    ],
)
def test_a_call_compiled_for_another_schema(built_for: str, now: str, expected: str | None) -> None:
    """``aoti_torch_call_dispatcher`` reads and writes as many values as the running torch's schema has."""
    assert call_mismatch(FunctionSchema.parse(f"t::f{built_for}"), FunctionSchema.parse(f"t::f{now}")) == expected
