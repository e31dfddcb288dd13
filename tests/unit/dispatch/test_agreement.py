from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.binary.mangling import demangle_type
from abiscan.dispatch.agreement import drop_contradictions, find_contradiction
from abiscan.registrations import Phase, Registrations
from abiscan.torches import embedded, embedded_operators
from tests.registrations import registrations

# Declarations of fbgemm-gpu 1.9.0, pack_segments_backward, and of aten.
TWO_TENSORS_TWO_NUMBERS = "FN2at6TensorERKS0_S2_llE"
NEW_OUT = "FSt5tupleIJRN2at6TensorES2_EERKS1_St8optionalIlEbS2_S2_E"
TYPES = {
    "at::Tensor const&": ("RKN2at6TensorE", "Tensor"),
    "at::Generator": ("N2at9GeneratorE", "Generator?"),
    "optional generator": ("St8optionalIN2at9GeneratorEE", "Generator?"),
    "c10::optional": ("N3c108optionalIlEE", "int?"),
    "list of optionals": ("RKN3c104ListISt8optionalIN2at6TensorEEEE", "Tensor?[]"),
    "SymIntArrayRef": ("N3c108ArrayRefINS_6SymIntEEE", "SymInt[]"),
    "OptionalIntArrayRef": ("N3c1016OptionalArrayRefIlEE", "int[]?"),
    "array": ("St5arrayIbLm3EE", "bool[]"),
    "vectors": ("St6vectorIS_IlSaIlEESaIS1_EE", "int[][]"),
    "dictionary": (
        "N3c104DictINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEN2at6TensorEEE",
        "Dict(str, Tensor)",
    ),
    "tuple": ("St5tupleIJlSsEE", "(int, str)"),
    "string_view": ("St17basic_string_viewIcSt11char_traitsIcEE", "str"),
    "ScalarType": ("N3c1010ScalarTypeE", "ScalarType"),
    "ScalarType of 1.12": ("N3c1010ScalarTypeE", "int"),
    "any": ("N3c106IValueE", "Any"),
    "double": ("d", "float"),
    "int8_t": ("a", "int"),
    "a member of a template": ("NSt6vectorIlSaIlEE8iteratorE", "__torch__.torch.classes.somebody.Iterator"),
    "a class that nobody knows": ("N8somebody4TypeE", "__torch__.torch.classes.somebody.Type"),
}


@pytest.mark.parametrize(("mangled", "inferred"), TYPES.values(), ids=TYPES)
def test_what_torch_infers_agrees_with_the_type(mangled: str, inferred: str) -> None:
    assert find_contradiction(f"FN2at6TensorE{mangled}E", f"({inferred} _0) -> Tensor _0") is None
    if inferred.startswith("("):  # several results
        inferred = "(int _0, str _1)"
    assert find_contradiction(f"F{mangled}lE", f"(int _0) -> {inferred}{'' if '_0' in inferred else ' _0'}") is None


def test_a_function_without_a_result() -> None:
    assert find_contradiction("FvlE", "(int _0) -> ()") is None
    assert find_contradiction("FvlE", "(int _0) -> int _0") == "the number of returns is 0 in C++, 1 in the schema"


@pytest.mark.parametrize(
    ("mangled", "inferred", "difference"),
    [
        (
            TWO_TENSORS_TWO_NUMBERS,
            "(Tensor _0, Tensor _1, bool _2, Tensor _3) -> Tensor _0",
            "argument 3 is long in C++, bool in the schema",
        ),
        (
            TWO_TENSORS_TWO_NUMBERS,
            "(Tensor _0, Tensor _1, int _2) -> Tensor _0",
            "the number of arguments is 4 in C++, 3 in the schema",
        ),
        (
            NEW_OUT,
            "(Tensor _0, int? _1, bool _2, Tensor _3, Tensor _4) -> Tensor _0",
            "the number of returns is 2 in C++, 1 in the schema",
        ),
        (
            NEW_OUT,
            "(Tensor _0, int _1, bool _2, Tensor _3, Tensor _4) -> (Tensor _0, Tensor _1)",
            "argument 2 is std::optional<long> in C++, int in the schema",
        ),
        ("FvN3c106SymIntEE", "(int _0) -> ()", "argument 1 is c10::SymInt in C++, int in the schema"),
    ],
)
def test_names_the_first_contradiction(mangled: str, inferred: str, difference: str) -> None:
    assert find_contradiction(mangled, inferred) == difference


def test_each_type_contradicts_the_schemas_of_all_others() -> None:
    """But for a class of which nothing is known, and what releases infer differently."""
    known = {name: types for name, types in TYPES.items() if "nobody" not in name and "member" not in name}
    for mangled, own in known.values():
        agreeing_with = {text for other, text in known.values() if demangle_type(other) == demangle_type(mangled)}
        for _, inferred in known.values():
            agrees = find_contradiction(f"Fv{mangled}E", f"({inferred} _0) -> ()") is None
            assert agrees == (inferred in agreeing_with), (mangled, own, inferred)


@pytest.mark.parametrize("release", ["1.6.0", "1.8.1", "1.13.1", "2.3.1", "2.13.0", "2.15.0"])
def test_no_kernel_of_torch_contradicts_itself(release: str) -> None:
    assert release in map(str, embedded.versions())
    found = embedded_operators.operators(release, Machine.X86_64)
    typed = [(k.operator, k.signature, k.schema) for k in found.kernels if k.signature and k.schema]
    assert len(typed) > 1_000
    assert [(name, why) for name, mangled, schema in typed if (why := find_contradiction(mangled, schema))] == []


WHY = "the number of arguments is 4 in C++, 2 in the schema"
STEPS = [
    {"library": "TORCH_LIBRARY", "namespace": "mine"},
    {"def": "inferred", "signature": TWO_TENSORS_TWO_NUMBERS, "inferred": "(Tensor _0, bool _1) -> Tensor _0"},
    {"def": "written(Tensor x) -> Tensor"},
    {"library": "TORCH_LIBRARY_IMPL", "namespace": "mine", "key": "CPU"},
    {"impl": "written", "signature": "FN2at6TensorERKS0_E", "inferred": "(Tensor _0) -> Tensor _0"},
]


def test_a_contradiction_is_a_gap_and_what_agrees_stays() -> None:
    found = registrations(STEPS)
    kept = drop_contradictions(found)
    (gap,) = kept.gaps
    assert (gap.stage, gap.reason) == (
        "dispatch",
        f"the schema inferred for mine::inferred contradicts its C++ type: {WHY}",
    )
    assert [(k.operator, k.signature, k.inferred_schema) for k in kept.kernels] == [
        ("mine::inferred", None, None),
        ("mine::written", "FN2at6TensorERKS0_E", "(Tensor _0) -> Tensor _0"),
    ]
    assert [(o.name, o.schema) for o in kept.operators] == [
        ("mine::inferred", None),
        ("mine::written", "mine::written(Tensor x) -> Tensor"),
    ]


def test_a_schema_that_is_written_out_stays_whatever_its_kernel_infers() -> None:
    """``Library::def("f(Tensor x) -> Tensor", kernel)``: torch takes the schema as written, and infers none for it."""
    definition = {"def": "f(Tensor x) -> Tensor", "signature": TWO_TENSORS_TWO_NUMBERS}
    kept = drop_contradictions(registrations([STEPS[0], {**definition, "inferred": STEPS[1]["inferred"]}]))
    assert [gap.stage for gap in kept.gaps] == ["dispatch"]
    assert [(k.signature, k.inferred_schema) for k in kept.kernels] == [(None, None)]
    assert [o.schema for o in kept.operators] == ["mine::f(Tensor x) -> Tensor"]


def test_what_agrees_is_left_as_it_is() -> None:
    found = registrations([STEPS[0], *STEPS[2:]])
    assert drop_contradictions(found) is found
    assert drop_contradictions(Registrations()) == Registrations()


def test_a_class_that_another_library_names_is_a_gap_and_no_refusal() -> None:
    """As in metatomic-torch 0.1.19, which a real torch 2.13.0 loads: its schemas have classes of metatensor-torch."""
    holder = "N3c1013intrusive_ptrIN5other5ThingENS_6detail34intrusive_target_default_null_typeIS2_EEEE"
    type_ = f"__torch__.torch.classes.{holder}"
    steps = [
        {"library": "TORCH_LIBRARY", "namespace": "mine"},
        {"def": f"built({type_} thing) -> ()", "signature": f"Fv{holder[:-1]}EE", "inferred": f"({type_} _0) -> ()"},
    ]
    kept = drop_contradictions(registrations(steps))
    assert [(gap.stage, gap.reason) for gap in kept.gaps] == [
        ("dispatch", "the schema of mine::built names a class that another library registers: other::Thing")
    ]
    assert [operator.schema for operator in kept.operators] == [None]
    assert [kernel.inferred_schema for kernel in kept.kernels] == [None]
    assert list(kept.dispatched_in(Phase.STATIC_INIT)) == list(kept.libraries)
