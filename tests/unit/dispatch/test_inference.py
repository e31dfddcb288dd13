"""What schemas name, and how a schema differs from the one of a C++ type."""

from __future__ import annotations

import pytest

from abiscan.dispatch.inference import (
    classes_in,
    find_schema_difference,
    inferred_schema,
    parse_accepted,
    without_name,
)
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.inputs.version import MinorVersion

C, D, E = (f"__torch__.torch.classes.ns.{name}" for name in "CDE")


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("ns::f(Tensor x) -> Tensor", set()),
        (f"ns::f({C} x) -> ()", {"ns.C"}),
        (f"ns::f(Tensor x) -> {C}", {"ns.C"}),
        (f"ns::f({C}[] x, {D}? y, Dict(str, {E}) z) -> Tensor", {"ns.C", "ns.D", "ns.E"}),
        (f"ns::f({C}[]? x) -> ({D}, Tensor[])", {"ns.C", "ns.D"}),
        (f"f(t x, {C} y) -> t", {"ns.C"}),  # with a type variable
        (f"ns::f(Dimname x, {C} y) -> ()", set()),  # torch knows no Dimname, and refuses it
        ("ns::f", set()),
        (f"ns::f({C} x", set()),
    ],
)
def test_the_classes_that_a_definition_names(text: str, classes: set[str]) -> None:
    assert classes_in(text, (2, 13)) == classes


def test_a_word_that_a_release_does_not_read() -> None:
    text = f"ns::f(SymBool n, {C} x) -> ()"
    assert classes_in(text, (2, 8)) == set()
    assert classes_in(text, (2, 9)) == {"ns.C"}


@pytest.mark.parametrize("release", [(1, 13), (2, 13)])
def test_a_symint_is_no_int(release: MinorVersion) -> None:
    one, other = parse_accepted("ns::f(int n) -> ()"), parse_accepted("ns::f(SymInt n) -> ()")
    said = find_schema_difference(one, other, release)
    assert said is not None
    assert said.startswith("Type mismatch in argument 1: int vs SymInt")
    assert find_schema_difference(one, one, release) is None


@pytest.mark.parametrize(
    "text",
    [
        "() -> ()",
        "() -> Tensor _0",
        "(Tensor _0, int[]? _1, Tensor?[] _2) -> (Tensor _0, Tensor[] _1)",
        f"({C} _0, {D}[] _1) -> {E}? _0",
        "(t _0, SymInt _1) -> t _0",
        "(Dict(str, Tensor) _0) -> (Tensor _0)",  # what has brackets of its own
        "((int, int) _0) -> ((int, float) _0)",
        "(Tensor(a!) _0, *, int[2] _1=0) -> Tensor(a!) _0",
    ],
)
def test_an_inferred_schema_is_that_of_its_text(text: str) -> None:
    schema, expected = inferred_schema(text), without_name(FunctionSchema.parse(f"_{text}"))
    assert (schema, repr(schema)) == (expected, repr(expected))


@pytest.mark.parametrize("text", ["(Nope _0) -> ()", "(int) -> ()", "() -> (Nope _0)", "(int _0", "(int _0, ) -> ()"])
def test_what_is_wrong_with_an_inferred_schema(text: str) -> None:
    with pytest.raises(SchemaError) as expected:
        FunctionSchema.parse(f"_{text}")
    with pytest.raises(SchemaError) as raised:
        inferred_schema(text)
    assert str(raised.value) == str(expected.value)


def test_arguments_that_were_inferred_before_are_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred_schema("(Tensor _0, int _1) -> Tensor _0")
    inferred_schema("(int _0) -> (Tensor _0, int[] _1)")
    monkeypatch.delattr(FunctionSchema, "parse")
    assert (
        str(inferred_schema("(int _0, int _1) -> (Tensor _0, int[] _1)")) == "(int _0, int _1) -> (Tensor _0, int[] _1)"
    )
