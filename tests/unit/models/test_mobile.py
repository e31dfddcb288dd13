"""The operators in the bytecode of a mobile model, as ``torch/csrc/jit/serialization/export_module.cpp`` writes it."""

from __future__ import annotations

import pytest

from abiscan.models.torchscript import mobile_calls

ADD, NMS = ("aten::add", "Tensor", 3), ("torchvision::nms", "")


def function(*operators: object) -> object:
    tables = (("instructions", (("OP", 0, 0),)), ("operators", operators), ("constants", ("aten::mul", "x")))
    return ("__torch__.M.forward", tables, (("arguments", ("operators",)),))


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ((8, function(ADD, NMS)), {("aten::add", "Tensor"), ("torchvision::nms", "")}),
        ([8, [function(ADD)], function(NMS)], {("aten::add", "Tensor"), ("torchvision::nms", "")}),
        ((8, function(("aten::add",), (*ADD, 4), ("aten::add", 3), ["aten::add", ""], "aten::add")), set()),
        ((8, ("operators", [ADD])), set()),
        ("operators", set()),
        (None, set()),
    ],
)
def test_the_operators_of_bytecode(value: object, names: set[tuple[str, str]]) -> None:
    calls = list(mobile_calls(value, "m/bytecode.pkl"))
    assert {(call.operator, call.overload) for call in calls} == names
    assert {call.at for call in calls} <= {"m/bytecode.pkl"}
