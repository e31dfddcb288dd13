from __future__ import annotations

import pytest

from abiscan.python.torch_texts import NO_BACKEND, NO_OPERATOR, NOT_LOADED, says, wording_of
from abiscan.python.values import torch_error


@pytest.mark.parametrize(
    ("release", "raises", "text"),
    [  # torch/_ops.py of these releases
        ((1, 11), RuntimeError, "No such operator ns::f"),
        ((1, 12), AttributeError, "'_OpNamespace' object has no attribute 'f'"),
        ((2, 13), AttributeError, "'_OpNamespace' 'ns' object has no attribute 'f'"),
    ],
)
def test_the_wording_of_a_release(release: tuple[int, int], raises: type[Exception], text: str) -> None:
    wording = wording_of(NO_OPERATOR, release)
    assert wording is not None
    assert wording.raises is raises
    assert says(NO_OPERATOR, release, namespace="ns", name="f") == text


@pytest.mark.parametrize(("id_", "before", "since"), [(NOT_LOADED, (2, 8), (2, 9)), (NO_BACKEND, (2, 4), (2, 5))])
def test_before_the_first_wording_torch_raises_nothing(
    id_: str, before: tuple[int, int], since: tuple[int, int]
) -> None:
    assert wording_of(id_, before) is None
    assert wording_of(id_, since) is wording_of(id_)


def test_an_error_is_that_of_the_newest_release() -> None:
    error = torch_error(NO_OPERATOR, namespace="ns", name="f")
    assert error.cls is AttributeError
    assert error.args == ("'_OpNamespace' 'ns' object has no attribute 'f'",)
