"""What a torch has registered, as the dispatcher keeps it: the fields of ``OperatorEntry`` that decide on conflicts."""

from __future__ import annotations

import msgspec.structs
import pytest

from abiscan.dispatch.adapters import state_of, table_of
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place, RegistryEntry
from abiscan.dispatch.registries import entry_key
from abiscan.dispatch.state import StoredKernel, StoredSignature
from abiscan.inputs.version import MinorVersion
from abiscan.registrations import Phase, RegisteredOperator, Registrations
from tests.registrations import registrations

KEYS = DispatchKeys(minor=(2, 13), names={1: "CPU"})
PLAIN, SYMBOLIC = "FN2at6TensorERKS0_lE", "FN2at6TensorERKS0_N3c106SymIntEE"
EMPTY = Operators(
    operators={}, kernels=(), fallbacks=(), namespaces={}, classes=frozenset(), keys={}, aliases={}, gaps=()
)
TORCH = msgspec.structs.replace(
    EMPTY,
    operators={
        "aten::f": Operator("aten::f", "aten::f(Tensor x, SymInt n) -> Tensor", (), "R.cpp", 6),
        "aten::unasked": Operator("aten::unasked", "aten::unasked() -> ()", (), "R.cpp", 7),
        "my::g": Operator("my::g", "my::g() -> ()", (), None, None),
    },
    kernels=(
        Kernel("aten::f", "CompositeImplicitAutograd", None, None, False, "R.cpp", 6),
        Kernel("aten::f", "CPU", SYMBOLIC, "(Tensor _0, SymInt _1) -> Tensor _0", False, "K.cpp", 1),
        Kernel("aten::f", "CUDA", PLAIN, "(Tensor _0, int _1) -> Tensor _0", False, "K.cpp", 2),
        Kernel("aten::f", "CPU", PLAIN, "(Tensor _0, int _1) -> Tensor _0", False, "K.cpp", 3),
        Kernel("only::kernels", "CPU", PLAIN, None, False, "K.cpp", 4),
        Kernel("aten::unasked", "CPU", None, None, False, "K.cpp", 5),
    ),
    fallbacks=(Fallback("Meta", True, "M.cpp", 1), Fallback(None, True, "M.cpp", 2)),
    namespaces={"aten": Place("R.cpp", 5), "odd": Place(None, None)},
    classes=frozenset({"a.B"}),
    entries=(RegistryEntry("ThreadPoolRegistry", "C10", 2), RegistryEntry("device-guard", "CPU", None)),
    assertions={"L9": "place"},
)
NAMES = ("aten::f", "only::kernels", "my::g", "nothing::here")


def texts_of(registered: Registrations) -> list[str]:
    """What is defined, as the dispatcher comes to it."""
    calls = registered.dispatched_in(Phase.STATIC_INIT)
    return [call.text for call in calls if isinstance(call, RegisteredOperator)]


def test_operators_that_matter_with_their_kernels() -> None:
    state = state_of(TORCH, (2, 13), NAMES)
    assert state.operators.keys() == {"aten::f", "only::kernels", "my::g"}
    f = state.operators["aten::f"]
    assert (f.schema, f.debug) == ("aten::f(Tensor x, SymInt n) -> Tensor", "registered at R.cpp:6")
    assert f.alias_analysis == "FROM_SCHEMA"
    assert f.kernels["CPU"] == (  # the newest first
        StoredKernel(debug="registered at K.cpp:3", inferred="(Tensor _0, int _1) -> Tensor _0"),
        StoredKernel(debug="registered at K.cpp:1", inferred="(Tensor _0, SymInt _1) -> Tensor _0"),
    )
    # The first kernel of a C++ type counts, one with a SymInt apart.
    assert f.signature == StoredSignature(mangled=PLAIN, dispatch_key="CUDA", debug="registered at K.cpp:2")
    assert f.sym_signature == StoredSignature(mangled=SYMBOLIC, dispatch_key="CPU", debug="registered at K.cpp:1")
    only = state.operators["only::kernels"]
    assert (only.schema, only.debug) == (None, "")
    assert state.operators["my::g"].debug == "registered by RegisterOperators"


@pytest.mark.parametrize(
    ("release", "signature", "symbolic"),
    [
        ((1, 5), None, None),
        ((1, 6), SYMBOLIC, None),
        ((1, 12), SYMBOLIC, None),
        ((1, 13), PLAIN, SYMBOLIC),
    ],
)
def test_which_types_a_release_keeps(release: MinorVersion, signature: str | None, symbolic: str | None) -> None:
    """C++ types are compared since 1.6; those with a SymInt have a place of their own since 1.13."""
    entry = state_of(TORCH, release, NAMES).operators["aten::f"]
    assert (entry.signature and entry.signature.mangled) == signature
    assert (entry.sym_signature and entry.sym_signature.mangled) == symbolic


@pytest.mark.parametrize(("line", "key"), [(6, None), (7, "CompositeImplicitAutograd")])
def test_a_kernel_that_comes_with_its_definition_has_no_key(line: int, key: str | None) -> None:
    kernel = Kernel("aten::f", "CompositeImplicitAutograd", PLAIN, None, False, "R.cpp", line)
    found = state_of(msgspec.structs.replace(TORCH, kernels=(kernel,)), (2, 13), NAMES).operators["aten::f"].signature
    assert found is not None
    assert found.dispatch_key == key


def test_the_rest_of_the_state() -> None:
    state = state_of(TORCH, (2, 13), NAMES)
    assert state.libraries == {"aten": "registered at R.cpp:5", "odd": "registered by RegisterOperators"}
    assert state.fallbacks == {"Meta": "registered at M.cpp:1"}
    assert state.classes == frozenset({"a.B"})
    assert state.entries == {("ThreadPoolRegistry", "C10"): 2, ("device-guard", "CPU"): 0}
    assert state.assertions == {"L9": "place"}


@pytest.mark.parametrize(
    ("release", "keys", "warned"),
    [((2, 14), ("CPU", "CUDA"), False), ((2, 15), ("CPU",), False), ((2, 15), ("CPU", "CUDA"), True)],
)
def test_a_cuda_build_of_2_15_has_used_up_its_warning(
    release: MinorVersion, keys: tuple[str, ...], warned: bool
) -> None:
    kernels = tuple(Kernel("aten::f", key, None, None, False, "K.cpp", 1) for key in keys)
    assert state_of(msgspec.structs.replace(TORCH, kernels=kernels), release, NAMES).warned is warned


@pytest.mark.parametrize(
    ("registry", "key", "expected"),
    [
        ("device-guard", 1, "CUDA"),
        ("device-guard", 99, 99),
        ("device-guard", "CPU", "CPU"),
        ("ThreadPoolRegistry", 1, 1),
    ],
)
def test_devices_are_called_by_name(registry: str, key: int | str, expected: int | str) -> None:
    assert entry_key(registry, key) == expected


def test_operators_of_the_interpreter_alone_are_not_in_the_table() -> None:
    """``torch::jit::RegisterOperators`` puts them in a registry of their own, which nothing is dispatched from."""
    libraries = ({"library": "TORCH_LIBRARY", "namespace": "ns"}, {"def": "ns::f(Tensor x) -> Tensor"})
    found = registrations([*libraries, {"def": "ns::g(Tensor x) -> Tensor"}])
    of_jit = msgspec.structs.replace(found.operators[1], jit_only=True)
    loaded = msgspec.structs.replace(found, in_order=(found.libraries[0], found.operators[0], of_jit))
    assert table_of((2, 13), EMPTY, [loaded]).operators.operators.keys() == {"ns::f"}
    assert texts_of(loaded) == ["f(Tensor x) -> Tensor"]


@pytest.mark.parametrize(
    ("inferred", "schema", "typed", "text"),
    [
        (True, "ns::f(Tensor _0) -> Tensor", True, "f"),  # torch infers it, and so does the model
        (False, "ns::f(Tensor x) -> Tensor", True, "f(Tensor x) -> Tensor"),
        (False, "ns::f(Tensor x) -> Tensor", False, "f(Tensor x) -> Tensor"),
        (True, None, False, "f"),  # refused: nothing to infer it from
        (True, None, True, None),
        (False, None, False, None),
        (False, None, True, None),
    ],
)
def test_how_a_definition_was_written(inferred: bool, schema: str | None, typed: bool, text: str | None) -> None:
    """What could not be read makes no event: nothing can be said about it."""
    library, definition = {"library": "TORCH_LIBRARY", "namespace": "ns"}, {"def": "f(Tensor x) -> Tensor"}
    type_ = {"signature": "FN2at6TensorERKS0_E", "inferred": "(Tensor _0) -> Tensor _0"}
    found = registrations([library, {**definition, **type_}])
    kernel = msgspec.structs.replace(found.kernels[0], operator="ns::f", boxed=not typed)
    given = {"name": "ns::f", "schema": schema, "inferred": inferred, "kernels": (kernel,)}
    operator = msgspec.structs.replace(found.operators[0], **given)
    read = msgspec.structs.replace(found, in_order=(*found.libraries, operator))
    assert texts_of(read) == ([] if text is None else [text])


@pytest.mark.parametrize(("file", "line", "debug"), [("a.cpp", 7, "a.cpp:7"), (None, None, "?:0")])
def test_where_a_block_is(file: str | None, line: int | None, debug: str) -> None:
    found = registrations([{"library": "TORCH_LIBRARY", "namespace": "ns"}])
    library = msgspec.structs.replace(found.libraries[0], file=file, line=line)
    assert library.debug == f"registered at {debug}"
