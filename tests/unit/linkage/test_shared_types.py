"""What a name tells of the classes that two objects share."""

from __future__ import annotations

import pytest

from abiscan.binary.typeinfo import CxxClass
from abiscan.linkage.shared_types import How, touches


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("_ZN5torch11CppFunctionD1Ev", {("torch::CppFunction", How.CONSTRUCTS)}),
        (
            "_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb",
            {("torch::autograd::SavedVariable", How.CONSTRUCTS), ("at::Tensor", How.REFERS)},
        ),
        (
            "_ZNR5torch7Library5_implEPKcONS_11CppFunctionE",
            {("torch::Library", How.REFERS), ("torch::CppFunction", How.REFERS)},
        ),
        ("_ZN2at3addENS_6TensorES0_", {("at", How.REFERS), ("at::Tensor", How.BY_VALUE)}),
        ("_ZN2at3addEPNS_6TensorE", {("at", How.REFERS), ("at::Tensor", How.REFERS)}),
        ("_ZN2at3catERKSt6vectorINS_6TensorESaIS1_EE", {("at", How.REFERS), ("at::Tensor", How.ELEMENTS)}),
        ("_ZN2at3catESt8optionalINS_6TensorEE", {("at", How.REFERS), ("at::Tensor", How.BY_VALUE)}),
        ("_ZN2at3catESt10shared_ptrINS_6TensorEE", {("at", How.REFERS), ("at::Tensor", How.REFERS)}),
        ("_Z5otherv", set()),
        ("malloc", set()),
    ],
)
def test_imports(symbol: str, expected: set[tuple[str, How]]) -> None:
    assert {(touch.type, touch.how) for touch in touches([symbol], [], [])} == expected


def test_own_code() -> None:
    own = ["_ZNK3c1014FunctionSchema4nameEv", "_ZN3c1014FunctionSchemaD2Ev", "_ZN2my1fEv"]
    found = [(touch.type, touch.how) for touch in touches([], own, [])]
    assert found == [("c10::FunctionSchema", How.COMPILED), ("c10::FunctionSchema", How.HAS_STRUCTOR)]


def test_derived_classes() -> None:
    own = CxxClass("N2my5GuardE", ("N3c104impl24DeviceGuardImplInterfaceE",), ())
    (found,) = touches([], [], [own])
    assert (found.type, found.how, found.symbol) == ("c10::impl::DeviceGuardImplInterface", How.DERIVES, own.name)
