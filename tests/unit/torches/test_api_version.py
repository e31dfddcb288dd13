from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Kernel, Operator, Operators
from abiscan.dispatch.schema import FunctionSchema
from abiscan.torches import embedded, embedded_operators
from abiscan.torches.api_version import api_versions, combine_versions, dispatch_strategy, format_schema, has_cuda

NAME = "aten::f"


def kernel(key: str | None, *, fallthrough: bool = False, line: int = 1) -> Kernel:
    return Kernel(NAME, key, None, None, fallthrough, "R.cpp", line)


def torch(schema: str | None, *kernels: Kernel, file: str = "S.cpp") -> Operators:
    return Operators(
        operators={NAME: Operator(NAME, schema, (), file, 1)},
        kernels=kernels,
        fallbacks=(),
        namespaces={},
        classes=frozenset(),
        keys={},
        aliases={},
        gaps=(),
    )


ONE = torch("aten::f(Tensor x) -> Tensor", kernel("CPU"), kernel("Meta"))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(torch("aten::f(Tensor x)->Tensor", kernel("Meta"), kernel("CPU")), id="spelling and order"),
        pytest.param(
            torch("aten::f(Tensor x) -> Tensor", kernel("CPU", line=9), kernel("Meta"), file="T.cpp"), id="places"
        ),
        pytest.param(
            torch(
                "aten::f(Tensor x) -> Tensor", kernel("CPU"), kernel("Meta"), kernel("CUDA"), kernel("SparseCsrCUDA")
            ),
            id="CUDA devices",
        ),
    ],
)
def test_what_nobody_can_see_is_no_new_version(other: Operators) -> None:
    assert api_versions(other) == api_versions(ONE)


def test_halves_tell_what_changed() -> None:
    (was,) = api_versions(ONE).values()
    (schema,) = api_versions(torch("aten::f(Tensor x, int n) -> Tensor", kernel("CPU"), kernel("Meta"))).values()
    (dispatch,) = api_versions(torch("aten::f(Tensor x) -> Tensor", kernel("CompositeImplicitAutograd"))).values()
    assert (schema.dispatch, dispatch.schema) == (was.dispatch, was.schema)
    assert schema.schema != was.schema
    assert dispatch.dispatch != was.dispatch


def test_an_autograd_kernel_for_cuda_counts() -> None:
    assert dispatch_strategy([kernel("AutogradCUDA"), kernel("AutocastCUDA"), kernel("CUDA")]) == [
        "AutocastCUDA",
        "AutogradCUDA",
    ]


def test_a_renamed_key_is_the_same_key() -> None:
    assert dispatch_strategy([kernel("Math")]) == dispatch_strategy([kernel("CompositeImplicitAutograd")])
    assert dispatch_strategy([kernel("CPUTensorId")]) == dispatch_strategy([kernel("CPU")])


@pytest.mark.parametrize(
    ("operator", "key", "expected"),
    [
        ("aten::add.Tensor", "CUDA", True),
        ("aten::add.Tensor", "CUDATensorId", True),  # as 1.4 has it
        ("aten::add.Tensor", "CPU", False),
        ("aten::add.Tensor", "AutogradCUDA", False),  # in every build, like that of Autocast
        ("aten::add.Tensor", None, False),
        ("c10d::send", "CUDA", False),  # c10d registers its kernels for CUDA wherever it is compiled
    ],
)
def test_a_build_with_cuda_is_told_by_its_kernels(operator: str, key: str | None, expected: bool) -> None:
    assert has_cuda(torch(None, kernel("CPU"), kernel(key)._replace(operator=operator))) is expected


def test_a_kernel_that_falls_through_is_another_strategy() -> None:
    assert dispatch_strategy([kernel("Named", fallthrough=True)]) != dispatch_strategy([kernel("Named")])


def test_the_kernel_that_is_called_counts() -> None:
    assert dispatch_strategy([kernel("CPU", fallthrough=True), kernel("CPU")]) == ["CPU"]


def test_a_schema_that_nobody_can_parse_has_a_version() -> None:
    versions = {str(api_versions(torch(schema))[NAME]) for schema in (None, "aten::f(??", "aten::f(!!")}
    assert len(versions) == 3


def test_only_the_operators_that_are_asked_for_have_a_version() -> None:
    assert api_versions(ONE, {NAME, "aten::other"}) == api_versions(ONE)
    assert api_versions(ONE, {"aten::other"}) == {}


def test_operators_together_have_one_version() -> None:
    assert combine_versions(api_versions(ONE)) == combine_versions(
        api_versions(torch("aten::f(Tensor x) -> Tensor", *ONE.kernels))
    )
    assert combine_versions(api_versions(ONE)) != combine_versions({})


@pytest.mark.slow
def test_what_is_taken_to_be_as_torch_prints_it_is_so() -> None:
    """On every schema of every release: what is not parsed is what parsing and printing would give."""
    texts = {
        operator.schema
        for version in embedded.versions(Machine.X86_64)[::5]
        for operator in embedded_operators.operators(str(version), Machine.X86_64).operators.values()
        if operator.schema
    }
    taken = [text for text in texts if format_schema(text) is text]
    assert len(taken) > 3_000
    assert [text for text in taken if str(FunctionSchema.parse(text)) != text] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a::f(float x=1) -> Tensor", "a::f(float x=1.) -> Tensor"),
        ("a::f(SymInt[2] x=0) -> ()", "a::f(SymInt[2] x=[0, 0]) -> ()"),
        ("a::f(Tensor  x)->Tensor", "a::f(Tensor x) -> Tensor"),
        ("a::f(Dimname x) -> Tensor", "a::f(str x) -> Tensor"),
        ("a::f(Tensor(a!) self, *, int? n=-1) -> Tensor(a!)", "a::f(Tensor(a!) self, *, int? n=-1) -> Tensor(a!)"),
        ("no schema (", "no schema ("),
        (None, None),
    ],
)
def test_schemas_as_torch_prints_them(text: str | None, expected: str | None) -> None:
    assert format_schema(text) == expected
