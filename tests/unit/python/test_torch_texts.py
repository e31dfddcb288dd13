from __future__ import annotations

import pytest

from abiscan.python.interpreter.values import torch_error
from abiscan.python.package.model import Raised
from abiscan.python.torch_api.torch_texts import NO_BACKEND, NO_OPERATOR, NOT_LOADED, says, wording_of
from tests.unit.python.packages import FakeWorld, reading_of


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


@pytest.mark.parametrize("name", ["default", "out", "overloads"])
@pytest.mark.parametrize("torch", ["1.11.0+cu102", "1.12.0+cu102"])
def test_an_operator_was_a_built_in_function(name: str, torch: str) -> None:
    source = f"import torch\ntorch.ops.aten.mm\ntorch.ops.aten.mm.__name__\ntorch.ops.aten.mm.{name}\n"
    world = FakeWorld(torch_version=torch, operators=frozenset({"aten::mm", "aten::mm.out"}))
    raised = reading_of({"p/__init__.py": source}, world).imports[0].raised

    # torch/_ops.py of 1.11 returns the function itself; pybind11 makes a PyCFunction.
    says = f"'{type(print).__name__}' object has no attribute '{name}'" if torch.startswith("1.11") else None
    assert raised is None or isinstance(raised, Raised)
    assert (raised and raised.message) == says
