"""What calls of compiled functions may pass, release by release, going by torch's own native_functions.yaml."""

from __future__ import annotations

import pytest

from abiscan.python.language.refusals import ParameterList
from abiscan.python.torch_api.operator_calls import Overload
from abiscan.torches.operator_overloads import ReleaseOperators, parse_overloads


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


def test_the_overloads_of_a_schema() -> None:
    # f(a, b=1, *, c, d=2), as a function of Python would be written.
    (found,) = parse_overloads(["a::f.x(Tensor a, int b=1, *, int c, int d=2) -> Tensor"])
    assert found == Overload(
        name="a::f.x",
        parameters=ParameterList(
            positional=("a", "b"),
            only_positional=0,
            keyword_only=("c", "d"),
            required=frozenset({"a", "c"}),
            has_star=False,
            has_keywords=False,
        ),
    )
    assert parse_overloads(["a::f(Tensor a) -> Tensor", "a::f.y(...) -> Tensor"]) == ()
    assert parse_overloads(["a::f(Tensor a) -> Tensor", None]) == ()
