"""What a schema says of its types."""

from __future__ import annotations

import pytest

from abiscan.dispatch.inference import classes_in

CLASS = "__torch__.torch.classes"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"a::f({CLASS}.a.One x, {CLASS}.b.Two[]? y) -> {CLASS}.c.Three", {"a.One", "b.Two", "c.Three"}),
        (f"aten::f(t x, {CLASS}.a.One y) -> t", {"a.One"}),  # with a type variable
        (f"a::f(Dimname x, {CLASS}.a.One y) -> ()", set()),  # torch knows no Dimname, and refuses it
        (f"a::f({CLASS}.a.One x", set()),
        ("a::f", set()),
        ("a::f(Tensor x) -> Tensor", set()),
    ],
)
def test_the_classes_that_a_definition_names(text: str, expected: set[str]) -> None:
    assert classes_in(text, (2, 13)) == expected
