"""What schemas name, and how a schema differs from the one of a C++ type."""

from __future__ import annotations

import pytest

from abiscan.dispatch.inference import classes_in, find_schema_difference, parse_accepted
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
