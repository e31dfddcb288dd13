"""What a name tells of the classes that two objects share."""

from __future__ import annotations

import pytest

from abiscan.binary.typeinfo import CxxClass
from abiscan.linkage.shared_types import TypeUse, _templates_around, find_touches


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at::f(*)", []),
        ("std::vector<*>", ["std::vector"]),
        ("f(std::vector<std::optional<*> >)", ["std::vector", "std::optional"]),
        ("f(a<b>, c<d<e>, *", ["c"]),
        ("f(a<b>c<*", ["c"]),
        ("f(*", []),
        ("a>b<*", ["a>b"]),
    ],
)
def test_the_templates_that_something_is_an_argument_of(text: str, expected: list[str]) -> None:
    assert _templates_around(text, text.index("*")) == expected


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("_ZN5torch11CppFunctionD1Ev", {("torch::CppFunction", TypeUse.CONSTRUCTS)}),
        (
            "_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb",
            {("torch::autograd::SavedVariable", TypeUse.CONSTRUCTS), ("at::Tensor", TypeUse.REFERS)},
        ),
        (
            "_ZNR5torch7Library5_implEPKcONS_11CppFunctionE",
            {("torch::Library", TypeUse.REFERS), ("torch::CppFunction", TypeUse.REFERS)},
        ),
        ("_ZN2at3addENS_6TensorES0_", {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.BY_VALUE)}),
        ("_ZN2at3addEPNS_6TensorE", {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.REFERS)}),
        ("_ZN2at3catERKSt6vectorINS_6TensorESaIS1_EE", {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.ELEMENTS)}),
        ("_ZN2at3catESt8optionalINS_6TensorEE", {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.BY_VALUE)}),
        ("_ZN2at3catESt10shared_ptrINS_6TensorEE", {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.REFERS)}),
        (  # f(std::pair<int, at::Tensor>): behind a comma, and by value
            "_ZN2at1fESt4pairIiNS_6TensorEE",
            {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.BY_VALUE)},
        ),
        (  # f(std::vector<int>, at::Tensor): the vector ends before it
            "_ZN2at1fESt6vectorIiSaIiEENS_6TensorE",
            {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.BY_VALUE)},
        ),
        (  # f(std::vector<std::pair<int, int>, at::Tensor>)
            "_ZN2at1fESt4pairISt6vectorIiSaIiEENS_6TensorEE",
            {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.BY_VALUE)},
        ),
        (  # f(c10::ArrayRef<at::Tensor>)
            "_ZN2at1fEN3c108ArrayRefINS_6TensorEEE",
            {("at", TypeUse.REFERS), ("c10::ArrayRef", TypeUse.BY_VALUE), ("at::Tensor", TypeUse.ELEMENTS)},
        ),
        (  # f(std::function<void (at::Tensor)>)
            "_ZN2at1fESt8functionIFvNS_6TensorEEE",
            {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.REFERS)},
        ),
        (  # f(std::optional<at::Tensor> const&)
            "_ZN2at1fERKSt8optionalINS_6TensorEE",
            {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.REFERS)},
        ),
        (  # f(std::vector<at::Tensor*>)
            "_ZN2at1fESt6vectorIPNS_6TensorESaIS2_EE",
            {("at", TypeUse.REFERS), ("at::Tensor", TypeUse.REFERS)},
        ),
        ("_ZN3c1010TensorImplD0Ev", {("c10::TensorImpl", TypeUse.CONSTRUCTS)}),
        ("_ZNK3c1010TensorImpl3dimEv", {("c10::TensorImpl", TypeUse.REFERS)}),
        ("_Z5otherv", set()),
        ("malloc", set()),
    ],
)
def test_imports(symbol: str, expected: set[tuple[str, TypeUse]]) -> None:
    assert {(touch.type, touch.use) for touch in find_touches([symbol], [], [])} == expected


def test_classes_whose_functions_the_extension_defines() -> None:
    own = ["_ZNK3c1014FunctionSchema4nameEv", "_ZN3c1014FunctionSchemaD2Ev", "_ZN2my1fEv"]
    found = [(touch.type, touch.use) for touch in find_touches([], own, [])]
    assert found == [("c10::FunctionSchema", TypeUse.COMPILED), ("c10::FunctionSchema", TypeUse.HAS_STRUCTOR)]


def test_derived_classes() -> None:
    own = CxxClass("N2my5GuardE", ("N3c104impl24DeviceGuardImplInterfaceE",), (), ())
    (found,) = find_touches([], [], [own])
    assert (found.type, found.use, found.symbol) == ("c10::impl::DeviceGuardImplInterface", TypeUse.DERIVES, own.name)
