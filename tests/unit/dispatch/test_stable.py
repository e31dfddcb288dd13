"""The types that cross the stable ABI, as torch 2.7.1 to 2.15.0 answered when they were run."""

from __future__ import annotations

import pytest

from abiscan.dispatch.schema import FunctionSchema
from abiscan.dispatch.stable import call_mismatch, is_known, uncrossable_of_call, uncrossable_of_kernel


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
    found = uncrossable_of_call(FunctionSchema.parse(schema, release=release), release)
    assert (found and found.message) == (message and f"Not yet supported conversion {message}")


def test_of_a_newer_torch_it_is_unknown_what_crosses() -> None:
    assert is_known((2, 15))
    assert not is_known((2, 16))


def test_an_optional_crosses_and_what_it_contains_may_not() -> None:
    found = uncrossable_of_kernel(FunctionSchema.parse("t::f(Scalar? x) -> Tensor", release=(2, 13)), (2, 13))
    assert found is not None
    assert not found.always
    # torch converts what is in an optional by its own type.
    assert found.message == "Not yet supported conversion from IValue to StableIValue for schema type: Scalar"


@pytest.mark.parametrize(
    ("built_for", "now", "said"),
    [
        # torch reads an element for each argument, and writes one for each result: torch/csrc/shim_common.cpp,
        # aoti_torch_call_dispatcher. The caller's array has as many as the larger of both numbers.
        ("(int x) -> int", "(int x) -> int", None),
        ("(int x, int y) -> int", "(int x, int y) -> (int, int)", None),
        ("(int x) -> (int, int, int)", "(int x, int y, int z) -> (int, int, int)", None),
        ("(int x) -> int", "(int x, int y) -> int", "torch reads 2 arguments from an array of 1"),
        ("(int x) -> int", "(int x) -> (int, int)", "torch writes 2 results to an array of 1"),
        ("() -> int", "(int x) -> int", None),
        ("() -> ()", "(int x) -> ()", "torch reads 1 argument from an array of 0"),
        (
            "(int x, int y) -> int",
            "(int x, float z) -> int",
            "torch takes argument 2, of type int, for z, of type float",
        ),
        ("(int x) -> int", "(float z, int y) -> int", "torch reads 2 arguments from an array of 1"),
        ("(int[] x) -> int", "(SymInt[] x) -> int", None),
        ("(int[] x) -> int", "(float[] x) -> int", "torch takes argument 1, of type int[], for x, of type float[]"),
    ],
)
def test_a_call_that_was_compiled_for_another_schema(built_for: str, now: str, said: str | None) -> None:
    before, after = (FunctionSchema.parse(f"t::f{signature}") for signature in (built_for, now))
    assert call_mismatch(before, after) == said


def test_what_always_fails_comes_before_what_may() -> None:
    schema = FunctionSchema.parse("t::f(Scalar? x, Scalar y, Scalar z) -> Scalar", release=(2, 13))
    found = uncrossable_of_call(schema, (2, 13))
    assert found is not None
    assert (found.place, found.always) == ("y", True)
    # A kernel's arguments are taken off the stack from the last to the first.
    found = uncrossable_of_kernel(schema, (2, 13))
    assert found is not None
    assert (found.place, found.always) == ("z", True)
    found = uncrossable_of_kernel(FunctionSchema.parse("t::f(int x) -> Scalar", release=(2, 13)), (2, 13))
    assert found is not None
    assert found.place == "result"
