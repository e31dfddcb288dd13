"""The samples of every registration API: what is recovered is what one reads in their sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from abiscan.binary.elf import ElfFile
from abiscan.dispatch.keys import keys_of
from abiscan.emulation import recover
from abiscan.emulation.values import UNKNOWN_VALUE, Values
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import (
    LibraryKind,
    Phase,
    RegisteredFallback,
    RegisteredKernel,
    RegisteredOperator,
    Registrations,
)
from abiscan.results.operators import full_schema

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"

DEFINITIONS = {
    "sample::twice": "sample::twice(Tensor self) -> Tensor",
    "sample::scale.by": "sample::scale.by(Tensor self, float factor=2.0, int times=1, bool fast=False) -> Tensor",
    "sample::split": "sample::split(Tensor[] _0, str _1) -> (Tensor _0, Tensor[] _1)",
    "sample::version": "sample::version() -> int _0",
    "sample::touch": "sample::touch(Tensor(a!) self) -> ()",
    "sample::long_name_that_does_not_fit_into_a_small_string": (
        "sample::long_name_that_does_not_fit_into_a_small_string(Tensor self) -> Tensor"
    ),
    "sample::table_a": "sample::table_a(Tensor self) -> Tensor",
    "sample::table_b": "sample::table_b(Tensor self) -> Tensor",
    "sample::table_c": "sample::table_c(Tensor self) -> Tensor",
    "sample::lambda": "sample::lambda(Tensor self, int n) -> Tensor",
    "sample::boxed": "sample::boxed(Tensor self) -> Tensor",
}
ONE_TENSOR = "(Tensor _0) -> Tensor _0"
SCALE = "(Tensor _0, float _1, int _2, bool _3) -> Tensor _0"
# Operator, name of the key, inferred schema, boxed, fallthrough.
KERNELS = {
    ("sample::split", None, "(Tensor[] _0, str _1) -> (Tensor _0, Tensor[] _1)", False, False),
    ("sample::version", None, "() -> int _0", False, False),
    ("sample::touch", None, "(Tensor _0) -> ()", False, False),
    ("sample::lambda", None, "(Tensor _0, int _1) -> Tensor _0", False, False),
    ("sample::twice", "CPU", ONE_TENSOR, False, False),
    ("sample::scale.by", "CPU", SCALE, False, False),
    ("sample::long_name_that_does_not_fit_into_a_small_string", "CPU", ONE_TENSOR, False, False),
    ("sample::table_a", "CPU", ONE_TENSOR, False, False),
    ("sample::table_b", "CPU", ONE_TENSOR, False, False),
    ("sample::table_c", "CPU", ONE_TENSOR, False, False),
    ("sample::twice", "CUDA", None, True, False),
    ("sample::boxed", "CompositeExplicitAutograd", None, True, False),
    ("sample::scale.by", "CompositeExplicitAutograd", SCALE, False, False),
    ("sample::twice", "Autograd", None, False, True),
    ("aten::relu", "PrivateUse1", ONE_TENSOR, False, False),
}


def _read(name: str) -> Registrations:
    file = ElfFile.open(SAMPLES / f"{name}.so")
    return recover(file, file.facts())


@pytest.mark.parametrize(
    "name",
    [
        "library",
        "library_avx2",
        "library_avx512",
        "library_unoptimised",
        "library_cow",
        "library_aarch64",
        "library_1_11_0",
        "library_1_12_1",
        "library_1_13_1",
        "library_2_1_2",
    ],
)
def test_every_form_of_torch_library_in_every_build(name: str) -> None:
    found = _read(name)
    assert found.gaps == ()
    assert {operator.name: operator.schema for operator in found.operators} == DEFINITIONS
    assert len(found.operators) == len(DEFINITIONS)
    described = {
        (kernel.operator, kernel.dispatch_key is None, kernel.inferred_schema, kernel.boxed, kernel.fallthrough)
        for kernel in found.kernels
    }
    assert described == {(name, key is None, *rest) for name, key, *rest in KERNELS}
    assert len(found.kernels) == len(KERNELS)
    assert [fallback.fallthrough for fallback in found.fallbacks] == [True, False]


@pytest.mark.parametrize("name", ["library", "library_cow", "library_aarch64", "operators", "classes", "stable"])
def test_everything_has_its_place_in_one_order_and_its_library(name: str) -> None:
    found = _read(name)
    opened = {library.order: library for library in found.libraries}
    # A kernel shares its place with the definition that brings it along, and nothing else does.
    defined = {operator.order: operator.name for operator in found.operators}
    alone = [kernel for kernel in found.kernels if kernel.order not in defined]
    places = [
        *(library.order for library in found.libraries),
        *(operator.order for operator in found.operators),
        *(kernel.order for kernel in alone),
        *(fallback.order for fallback in found.fallbacks),
        *(custom.order for custom in found.classes),
        *(registry.order for registry in found.registries),
    ]
    assert sorted(places) == list(range(len(places)))
    for kernel in found.kernels:
        assert kernel in alone or defined[kernel.order] == kernel.operator
    members: tuple[RegisteredOperator | RegisteredKernel | RegisteredFallback, ...] = (
        *found.operators,
        *found.kernels,
        *found.fallbacks,
    )
    for each in members:
        if each.library is None:
            assert each.file is None
        else:
            assert each.order > each.library.order
            assert each.library is opened[each.library.order]
    # The order is that of the sources: as the lists are, and as the lines of one file are.
    assert sorted(defined) == list(defined)
    assert [library.line for library in found.libraries] == sorted(library.line or 0 for library in found.libraries)
    assert all(kernel.phase is Phase.STATIC_INIT for kernel in found.kernels)


@pytest.mark.parametrize(
    ("name", "cpu", "cuda", "private_use"),
    [  # CPU, CUDA and PrivateUse1 in c10/core/DispatchKey.h of the release
        ("library", 49, 50, 61),
        ("library_aarch64", 49, 50, 61),
        ("library_2_1_2", 48, 49, 59),
        ("library_1_13_1", 43, 44, 54),
        ("library_1_11_0", 1, 2, 28),
    ],
)
def test_dispatch_keys_are_the_numbers_of_the_torch_it_was_built_for(
    name: str, cpu: int, cuda: int, private_use: int
) -> None:
    keys = {(kernel.operator, kernel.dispatch_key) for kernel in _read(name).kernels}
    assert ("sample::table_a", cpu) in keys
    assert ("sample::twice", cuda) in keys
    assert ("aten::relu", private_use) in keys


def test_libraries_have_kind_namespace_file_and_line() -> None:
    source = (SAMPLES / "library.cpp").read_text().splitlines()
    libraries = _read("library").libraries
    assert [library.kind for library in libraries] == [
        LibraryKind.DEF,
        LibraryKind.FRAGMENT,
        *[LibraryKind.IMPL] * 7,
    ]
    assert [library.namespace for library in libraries] == [*["sample"] * 6, "aten", None, None]
    for library in libraries:
        assert library.file == "library.cpp"
        assert library.line is not None
        assert source[library.line - 1].startswith("TORCH_LIBRARY")


def test_signatures_are_mangled_function_types() -> None:
    signatures = {kernel.operator: kernel.signature for kernel in _read("library").kernels if kernel.signature}
    assert signatures["aten::relu"] == "FN2at6TensorERKS0_E"
    assert signatures["sample::scale.by"] == "FN2at6TensorERKS0_dlbE"
    assert signatures["sample::version"] == "FlvE"


@pytest.mark.parametrize(
    ("name", "cpu", "xla"),
    [
        ("legacy_1_4_0", 1, 10),
        ("legacy_1_6_0", 1, 6),
        ("legacy_1_8_1", 1, 6),
        ("legacy_1_11_0", 1, 6),
        ("legacy_1_13_1", 43, 46),
        ("legacy_2_1_2", 48, 51),
    ],
)
def test_register_operators_of_every_era(name: str, cpu: int, xla: int) -> None:
    found = _read(name)
    assert found.gaps == ()
    schemas = {operator.name: operator.schema for operator in found.operators}
    assert schemas["legacy::schema_only"] == "legacy::schema_only(Tensor self) -> Tensor"
    assert schemas["legacy::twice"] == "legacy::twice(Tensor self) -> Tensor"
    assert schemas["legacy::power"] == "legacy::power(Tensor _0, int _1, bool _2) -> Tensor _0"
    kernels = {(kernel.operator, kernel.dispatch_key, kernel.inferred_schema) for kernel in found.kernels}
    expected: set[tuple[str, int | str | None, str | None]] = {
        ("legacy::twice", cpu, ONE_TENSOR),
        ("legacy::twice", xla, ONE_TENSOR),
        ("legacy::power", None, "(Tensor _0, int _1, bool _2) -> Tensor _0"),
    }
    if name == "legacy_1_4_0":
        expected.add(("aten::tanh", xla, None))  # an unboxed-only kernel has no inferred schema
        assert schemas["aten::tanh"] == "aten::tanh(Tensor self) -> Tensor"
    assert kernels == expected


@pytest.mark.parametrize("name", ["operators", "operators_aarch64"])
def test_register_operators_with_options_and_those_of_the_jit(name: str) -> None:
    found = _read(name)
    assert found.gaps == ()
    assert {operator.name for operator in found.operators if operator.jit_only} == {"jit_sample::answer"}
    assert {operator.name for operator in found.operators if not operator.jit_only} == {
        "options::schema_only",
        "options::twice",
        "options::power",
        "options::functor",
        "options::old_style",
    }
    inferred = {kernel.operator: kernel.inferred_schema for kernel in found.kernels}
    assert inferred["options::functor"] == "(Tensor _0, str _1) -> Tensor _0"
    assert inferred["options::old_style"] == "(Tensor _0, int _1) -> Tensor _0"


@pytest.mark.parametrize(
    "name",
    ["classes", "classes_aarch64", "classes_cow"] + [f"classes_1_{minor}" for minor in ("6_0", "7_1", "8_1", "11_0")],
)
def test_custom_classes_and_operators_that_take_them(name: str) -> None:
    found = _read(name)
    assert found.gaps == ()
    methods = {known.name: known.methods for known in found.classes}
    assert methods == {
        "class_sample.Plain": ("__init__",),
        "class_sample.Stack": ("__init__", "push", "size", "__getstate__", "__setstate__"),
    }
    inferred = {kernel.operator: kernel.inferred_schema for kernel in found.kernels}
    stack = "__torch__.torch.classes.class_sample.Stack"
    assert inferred["class_sample::use"] == f"(Tensor _0, {stack} _1) -> Tensor _0"
    assert inferred["class_sample::make"] == f"(Tensor _0) -> {stack} _0"


@pytest.mark.parametrize("name", [f"defaults{strings}{mode}" for strings in ("", "_cow") for mode in ("", "_release")])
def test_containers_and_texts_among_statics_and_defaults(name: str) -> None:
    found = _read(name)
    assert found.gaps == ()
    assert {known.name: known.methods for known in found.classes} == {
        "default_sample.Box": ("__init__", "find", "join", "fill", "state", "of"),
    }
    schemas = {operator.name: full_schema(operator, TorchVersion("2.13.0")) for operator in found.operators}
    # As torch 2.13.0 prints it.
    assert schemas["default_sample::put.built"] == (
        'default_sample::put.built(str file, Any data, int[2] sizes=3, int[] shape=[1, 2], str mode="re\\"ad\\n", '
        "str? other=None, *, float[] weights=[0.5, 1.], bool all=True, int few=-7, "
        "float rate=1.0000000000000001e-05, Tensor(a!) out) -> (Tensor(a!) result, int)"
    )
    assert not any(operator.inferred for operator in found.operators if operator.name.endswith("built"))


@pytest.mark.parametrize("name", ["registries", "registries_aarch64"])
def test_other_registries_of_torch(name: str) -> None:
    found = _read(name)
    assert found.gaps == ()
    device = 20  # c10::DeviceType::PrivateUse1
    assert {(entry.what, entry.key) for entry in found.registries} == {
        ("allocator", device),
        ("storage", device),
        ("privateuse1-generator", None),
        ("privateuse1-hooks", None),
        ("AcceleratorAllocatorConfig", "sample_size"),
        ("AcceleratorAllocatorConfig", "a_name_of_more_than_sixteen_letters"),
        ("XPUHooksRegistry", "SampleHooks"),
    }
    assert len(found.registries) == 7


@pytest.mark.parametrize("name", ["pybind", "pybind_aarch64"])
def test_a_module_of_pybind11_registers_as_it_is_imported_and_when_it_is_called(name: str) -> None:
    found = _read(name)
    assert found.gaps == ()
    lines = [(library.kind, library.line, library.phase) for library in found.libraries]
    assert lines == [
        (LibraryKind.DEF, 46, Phase.MODULE_INIT),
        (LibraryKind.FRAGMENT, 61, Phase.MODULE_INIT),
        (LibraryKind.IMPL, 52, Phase.ON_CALL),
    ]
    assert {(operator.name, operator.phase) for operator in found.operators} == {
        ("pybind_sample::twice", Phase.MODULE_INIT),
        ("pybind_sample::scaled", Phase.MODULE_INIT),
        ("pybind_old::scaled", Phase.MODULE_INIT),
    }
    assert {(kernel.operator, kernel.line, kernel.phase) for kernel in found.kernels} == {
        ("pybind_sample::twice", 46, Phase.MODULE_INIT),
        ("pybind_sample::scaled", 61, Phase.MODULE_INIT),
        ("pybind_old::scaled", None, Phase.MODULE_INIT),
        ("pybind_sample::twice", 52, Phase.ON_CALL),
    }


@pytest.mark.parametrize("name", ["backend", "backend_aarch64"])
def test_a_backend_that_registers_as_its_module_is_imported_or_later(name: str) -> None:
    found = _read(name)
    assert found.gaps == ()
    assert [(entry.what, entry.key) for entry in found.registries] == [
        ("device-guard", 20),  # c10::DeviceType::PrivateUse1
        ("privateuse1-backend", "sample_device"),
    ]
    (kernel,) = found.kernels
    assert (kernel.operator, kernel.phase, kernel.file, kernel.line) == (
        "aten::relu",
        Phase.MODULE_INIT,
        "module.cpp",
        7,
    )
    (operator,) = found.operators
    assert (operator.name, operator.phase, operator.line) == ("later::late", Phase.ON_CALL, 9)


@pytest.mark.parametrize("name", ["stable", "stable_aarch64"])
def test_the_stable_abi_names_its_keys(name: str) -> None:
    found = _read(name)
    assert found.gaps == ()
    assert [(library.kind, library.dispatch_key) for library in found.libraries] == [
        (LibraryKind.DEF, None),
        (LibraryKind.FRAGMENT, None),
        (LibraryKind.IMPL, "CPU"),
        (LibraryKind.IMPL, "CompositeExplicitAutograd"),
    ]
    assert {operator.schema for operator in found.operators} == {
        "stable_sample::twice(Tensor self) -> Tensor",
        "stable_sample::thrice(Tensor self) -> Tensor",
    }
    assert {(kernel.operator, kernel.dispatch_key, kernel.boxed) for kernel in found.kernels} == {
        ("stable_sample::twice", "CPU", True),
        ("stable_sample::thrice", "CompositeExplicitAutograd", True),
    }


@pytest.mark.parametrize("name", ["optionals", "optionals_aarch64", "optionals_1_10_2", "optionals_1_12_1"])
def test_schemas_inferred_with_optionals_and_tuples(name: str) -> None:
    """As torch 1.10.2, 1.12.1 and 2.13.0 print them (``torch._C._dispatch_dump``)."""
    found = _read(name)
    assert found.gaps == ()
    assert {operator.name: operator.schema for operator in found.operators} == {
        "optional_sample::pick": "optional_sample::pick(Tensor _0, int? _1, str? _2) -> ((Tensor, int)? _0)",
        "optional_sample::halves": "optional_sample::halves(Tensor _0, Tensor? _1) -> (Tensor _0, Tensor? _1)",
        "optional_sample::spaced": "optional_sample::spaced(Tensor ? self) -> Tensor ?",  # as it is written
    }


def test_a_class_that_gets_a_second_name() -> None:
    """Both are there once torch 2.13.0 has loaded the sample."""
    found = _read("renamed")
    assert found.gaps == ()
    assert [(known.name, known.methods) for known in found.classes] == [
        ("renamed_sample.Plain", ("__init__",)),
        ("renamed_sample.Other", ()),
    ]


@pytest.mark.parametrize("built_for", ["1.4.0", "1.5.0", "1.6.0"])
def test_the_kind_of_alias_analysis(built_for: str) -> None:
    conflicts = SAMPLES.parent / "registration_conflicts"
    file = ElfFile.open(conflicts / f"mini_ipex/built_for_{built_for}/mini_ipex.so")
    found = recover(file, file.facts())
    # mini_ipex.cpp gives c10::AliasAnalysisKind::FROM_SCHEMA with every operator; legacy.cpp gives none.
    assert {operator.alias_analysis for operator in found.operators} == {2}
    assert {operator.alias_analysis for operator in _read("legacy_1_4_0").operators} == {None}


def test_the_kind_of_alias_analysis_in_a_block() -> None:
    file = ElfFile.open(SAMPLES.parent / "registration_conflicts/old_checks/built_for_1.6.0/old_checks.so")
    kinds = [each.alias_analysis for each in recover(file, file.facts()).operators if each.library is not None]
    # One definition of old_checks.cpp gives PURE_FUNCTION; torch::schema gives FROM_SCHEMA; two have no schema.
    assert (kinds.count(3), kinds.count(None)) == (1, 2)
    assert set(kinds) == {2, 3, None}


@pytest.mark.parametrize("name", ["expressions", "expressions_cow", "expressions_aarch64"])
def test_names_that_a_regular_expression_chooses(name: str) -> None:
    """Those that torch 2.13.0 has once it has loaded the sample."""
    found = _read(name)
    assert found.gaps == ()
    assert [operator.name for operator in found.operators] == [
        "expression_sample::one_1",
        "expression_sample::three_33",
    ]


def test_a_default_that_cannot_be_read_is_a_gap_and_not_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Values, "text", lambda *_: UNKNOWN_VALUE)
    found = _read("defaults")
    built = next(operator for operator in found.operators if operator.name == "default_sample::put.built")
    assert built.schema is None
    assert [gap.reason for gap in found.gaps] == [
        "the schema that the code builds for default_sample::put.built has an unknown type or default"
    ]


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_the_keys_of_1_6_are_passed_by_invisible_reference(level: str) -> None:
    """As torch 1.6.0 says that loads them: the kernel of ``aten::relu`` for CUDA is overwritten (keys.cpp:16)."""
    found = _read(f"keys_1_6_0_{level}")
    keys = keys_of(Version("1.6.0"))
    blocks = [(block.namespace, keys.name(int(block.dispatch_key or 0))) for block in found.libraries]
    assert blocks == [("aten", "XLA"), ("aten", "CUDA"), (None, "PrivateUse1")]
    kernels = {(kernel.operator, keys.name(int(kernel.dispatch_key or 0))) for kernel in found.kernels}
    assert kernels == {("aten::tanh", "XLA"), ("aten::relu", "CUDA")}
