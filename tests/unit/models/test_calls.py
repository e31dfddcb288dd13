"""Whether a schema takes the call that a file of a model has."""

import pytest

from abiscan.models.calls import fits_schema
from abiscan.models.model import OperatorCall


@pytest.mark.parametrize(
    ("positional", "schema", "fits"),
    [
        (1, "ns::op(Tensor x, int n=1) -> Tensor", True),
        (0, "ns::op(Tensor x, int n=1) -> Tensor", False),
        (3, "ns::op(Tensor x, int n=1) -> Tensor", False),
        (2, "ns::op(Tensor x, *, int n=1) -> Tensor", False),
        (9, "ns::op(...) -> Tensor", True),
        (9, "ns::op(", True),  # what cannot be read counts as fitting, as does what is not known
        (9, None, True),
        (None, "ns::op() -> Tensor", True),
    ],
)
def test_what_a_schema_takes(positional: int | None, schema: str | None, fits: bool) -> None:
    call = OperatorCall(operator="ns::op", overload=None, positional=positional)
    assert fits_schema(call, schema) is fits
