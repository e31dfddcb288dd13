"""What the recorded cases do not reach: C++ types that are not known, releases side by side, the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from abiscan.dispatch import signature
from abiscan.dispatch.dispatcher import replay_events
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.messages import TEMPLATES, word_message
from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.dispatch.state import OperatorEntry, State
from abiscan.emulation.recorder import Recorder
from abiscan.registrations import Library, LibraryKind, Phase, RegisteredOperator, Registration
from tests.dumps import state_of_dumps
from tests.torch_calls import (
    cpp_function,
    define_operator,
    fall_back,
    implement_operator,
    name_backend,
    open_library,
    register_class,
    register_operator,
    replay,
)

DOCUMENT: Final = Path(__file__).parents[3] / "docs/messages.md"
# As torch 2.13.0 prints it.
DUMP: Final = """name: aten::matrix_power
schema: aten::matrix_power(Tensor self, int n) -> Tensor
debug: registered at torch/RegisterSchema.cpp:6
alias analysis kind: FROM_SCHEMA
Tracer: registered at torch/TraceType_2.cpp:7396 :: (Tensor _0, int _1) -> Tensor _0 [ boxed unboxed ]
Meta: registered at torch/_meta_registrations.py:54 :: (none) [ boxed ]
Meta (inactive): registered at torch/RegisterMeta_0.cpp:1106 :: (Tensor _0, int _1) -> Tensor _0 [ boxed unboxed ]
CompositeImplicitAutograd[alias]: registered at torch/R.cpp:5608 :: (Tensor _0, int _1) -> Tensor _0 [ boxed unboxed ]
"""
IMPL: Final = open_library(kind=LibraryKind.IMPL, namespace="aten", dispatch_key="PrivateUse1", file="a.cpp", line=1)


def implement(mangled: str, inferred: str) -> list[Registration]:
    kernel = cpp_function(signature=mangled, inferred=inferred)
    return [IMPL, implement_operator(block=IMPL, name="matrix_power", kernel=kernel)]


def test_another_schema_means_another_type_even_if_the_type_is_not_known() -> None:
    state = state_of_dumps({"aten::matrix_power": DUMP})
    result = replay(state, implement("FN2at6TensorERKS0_E", "(Tensor _0) -> Tensor _0"), (2, 13))
    assert result.failure is not None
    assert result.failure.message is not None
    assert result.failure.message.id == "K1"
    assert not result.failure.message.exact
    assert "kernel 1: ?" in result.failure.message.text


def test_no_alarm_where_the_types_may_agree() -> None:
    state = state_of_dumps({"aten::matrix_power": DUMP})
    result = replay(state, implement("FN2at6TensorERKS0_lE", "(Tensor _0, int _1) -> Tensor _0"), (2, 13))
    assert result.outcomes == ()


def test_nothing_happens_after_a_throw() -> None:
    block = open_library(kind=LibraryKind.DEF, namespace="ns", dispatch_key=None, file="a.cpp", line=1)
    define = define_operator(block=block, text="f(Tensor x) -> Tensor")
    later = define_operator(block=block, text="g(Tensor x) -> Tensor")
    result = replay(State(), [block, define, define, later], (2, 13))
    assert [outcome.kind for outcome in result.outcomes] == [OutcomeKind.RAISES]
    assert "ns::g" not in result.state.operators


def block_of(kind: LibraryKind, namespace: str | None, key: str | None = None) -> Library:
    return open_library(kind=kind, namespace=namespace, dispatch_key=key, file="a.cpp", line=1)


def test_what_is_refused_behind_a_throw_is_told_once_for_each_operator() -> None:
    unary, binary = "FN2at6TensorERKS0_E", "FN2at6TensorERKS0_S2_E"
    fragment, cpu = block_of(LibraryKind.FRAGMENT, "ns"), block_of(LibraryKind.IMPL, "ns", "CPU")
    there = {name: f"{name}(Tensor x) -> Tensor" for name in ("ns::f", "ns::g", "ns::h")}
    state = State(operators={name: OperatorEntry(schema=schema) for name, schema in there.items()})
    two = cpp_function(signature=binary, inferred="(Tensor _0, Tensor _1) -> Tensor _0")
    events: list[Registration] = [
        fragment,
        define_operator(block=fragment, text="f(Tensor x, Tensor y) -> Tensor"),
        define_operator(block=fragment, text="g(Tensor x) -> Tensor"),
        define_operator(block=fragment, text="new(Tensor x) -> Tensor"),
        implement_operator(block=cpu, name="f", kernel=two),  # as its own definition has it
        implement_operator(
            block=cpu, name="h", kernel=cpp_function(signature=unary, inferred="(Tensor _0) -> Tensor _0")
        ),
        implement_operator(block=cpu, name="h", kernel=two),
        define_operator(block=fragment, text="g(Tensor x) -> Tensor"),
    ]
    result = replay(state, events, (2, 13))
    assert [outcome.subject for outcome in result.outcomes] == ["ns::f"]
    assert [(outcome.subject, outcome.message and outcome.message.id) for outcome in result.after_failure] == [
        ("ns::g", "D1"),
        ("ns::h", "K1"),
    ]
    assert "ns::new" not in result.state.operators  # nothing of it happens


def test_nothing_is_said_of_what_is_in_a_block_that_is_refused() -> None:
    mine, theirs = block_of(LibraryKind.DEF, "ns"), "registered at b.cpp:1"
    state = State(
        libraries={"ns": theirs, "aten": theirs},
        operators={"ns::f": OperatorEntry(schema="ns::f(Tensor x) -> Tensor", debug=theirs)},
        fallbacks={"XLA": theirs},
    )
    of_all = block_of(LibraryKind.IMPL, None, "XLA")
    events: list[Registration] = [
        mine,
        define_operator(block=mine, text="f(Tensor x) -> Tensor"),
        block_of(LibraryKind.DEF, "aten"),
        fall_back(block=of_all, kernel=cpp_function()),
        fall_back(block=of_all, kernel=cpp_function()),
    ]
    result = replay(state, events, (2, 13))
    assert [outcome.subject for outcome in (*result.outcomes, *result.after_failure)] == ["ns", "aten", "XLA"]


def test_nothing_is_behind_what_torch_accepts() -> None:
    accepted = [name_backend("a"), name_backend("a")]
    assert replay(State(), accepted, (2, 13)).after_failure == ()
    refused = [*accepted, name_backend("b"), name_backend("c"), name_backend("b")]
    assert [outcome.subject for outcome in replay(State(), refused, (2, 13)).after_failure] == ["c"]


def test_classes_count_only_where_they_are_known() -> None:
    events = [register_class("ns.C"), register_class("ns.C")]
    assert replay(State(), events, (2, 13)).failure is None
    failure = replay(State(classes=frozenset()), events, (2, 13)).failure
    assert failure is not None
    assert failure.message is not None
    assert failure.message.id == "C1"


def test_calls_come_in_the_order_of_the_code_each_with_its_library() -> None:
    recorder = Recorder()
    one = recorder.library(LibraryKind.FRAGMENT, "one", None, "macro.cpp", 3)  # one macro may open several blocks
    two = recorder.library(LibraryKind.FRAGMENT, "two", None, "macro.cpp", 3)
    defined = recorder.define(one, "two::f", inferred=None)
    passed = recorder.kernel(one, "two::f", 1, boxed=True, definition=defined)
    recorder.define(None, "old::g")
    alone = recorder.kernel(two, "f", 1, boxed=True)
    recorder.custom_class("two.C")
    recorder.phase = Phase.ON_CALL
    recorder.kernel(one, "f", 1, boxed=True)
    registered = recorder.registered()
    calls = list(registered.dispatched_in(Phase.STATIC_INIT))
    assert calls[:2] == [one, two]
    assert [call.text for call in calls if isinstance(call, RegisteredOperator)] == ["two::f", "old::g"]
    assert calls[2:3] == [replace(defined, kernels=(passed,))]
    assert calls[4:] == [alone, *registered.classes]
    assert (alone.text, alone.library) == ("f", two)
    assert [kernel.operator for kernel in registered.kernels] == ["two::f", "two::f", "one::f"]


def test_numbers_of_keys_mean_what_the_torch_means_by_them() -> None:
    """One binary, two torches: 14 was AutogradCPU's in one, and another key's in the other."""
    block = block_of(LibraryKind.IMPL, "ns")
    kernels = [replace(implement_operator(block=block, name="f", kernel=cpp_function()), dispatch_key=14)] * 2
    for name in ("CPU", "Meta"):
        keys = DispatchKeys(minor=(2, 13), names={14: name})
        state = replay_events(State(), kernels, keys).state
        assert list(state.operators["ns::f"].kernels) == [name]
    (outcome, _) = replay_events(State(), kernels, DispatchKeys(minor=(2, 13), names={14: "CPU"})).outcomes
    assert outcome.message is not None
    assert "dispatch key: CPU" in outcome.message.text


@pytest.mark.parametrize(
    ("schema", "mangled", "inferred", "reason"),
    [
        (
            "op(Tensor self, SymInt n) -> Tensor",
            "FN2at6TensorERKS0_RKN3c106SymIntEE",
            "(Tensor _0, SymInt _1) -> Tensor _0",
            (
                "Type mismatch in argument 2: int vs SymInt.\n  SymInt parameters must use the supported C++ "
                "signatures: pass SymInt and std::optional<SymInt> by value, and SymIntArrayRef and "
                "OptionalSymIntArrayRef directly (not as const references)."
            ),
        ),
        (
            "op(Tensor self, float n) -> Tensor",
            "FN2at6TensorERKS0_N3c106SymIntEE",
            "(Tensor _0, SymInt _1) -> Tensor _0",
            "Type mismatch in argument 2: float vs SymInt.",
        ),
        (
            "op(Tensor self, SymInt n) -> Tensor",
            "FN2at6TensorERKS0_dE",
            "(Tensor _0, float _1) -> Tensor _0",
            "Type mismatch in argument 2: int vs float.",
        ),
    ],
)
def test_reasons_of_2_15(schema: str, mangled: str, inferred: str, reason: str) -> None:
    """As torch 2.15.0 said of three kernels compiled for it."""
    block = open_library(kind=LibraryKind.DEF, namespace="abiscan_sym", dispatch_key=None, file="sy.cpp", line=11)
    kernel = cpp_function(signature=mangled, inferred=inferred)
    events: list[Registration] = [
        define_operator(block=block, text=schema),
        implement_operator(block=block, name="op", kernel=kernel),
    ]
    failure = replay(State(), events, (2, 15)).failure
    assert failure is not None
    assert failure.message is not None
    assert failure.message.text.partition("reason: ")[2] == reason


@pytest.mark.parametrize(
    ("mangled", "takes_symint"),
    [
        ("FN2at6TensorERKS0_N3c106SymIntEE", True),
        ("FN2at6TensorERKS0_St8optionalIN3c106SymIntEEE", True),
        ("FN2at6TensorERKS0_RKN3c106SymIntEE", False),
        ("FN3c106SymIntERKN2at6TensorEE", False),
        ("FN2at6TensorERKS0_lE", False),
    ],
)
def test_types_with_a_symint(mangled: str, takes_symint: bool) -> None:
    assert signature.takes_symint(mangled) is takes_symint


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: f"{template.id}-{template.first}")
def test_every_message_is_documented(template: object) -> None:
    rows = [line.split(" | ") for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith("| ")]
    documented = {(row[0].removeprefix("| "), row[2].partition(" ")[0]) for row in rows}
    expected = {(each.id, f"{each.first[0]}.{each.first[1]}") for each in TEMPLATES if each is template}
    assert expected <= documented


def test_a_message_that_a_release_lacks_is_an_error() -> None:
    with pytest.raises(LookupError):
        word_message("D1", (1, 7))


def test_kernels_of_one_operator_that_infer_different_schemas() -> None:
    """``inferSchemaFromKernels_`` of op_registration.cpp in 1.4 compares each with the first."""
    kernels = tuple(
        cpp_function(dispatch_key=key, inferred=inferred)
        for key, inferred in (
            ("CPUTensorId", "(Tensor _0) -> Tensor _0"),
            ("CUDATensorId", "(Tensor _0) -> Tensor _0"),
            ("XLATensorId", "(Tensor _0, int _1) -> Tensor _0"),
        )
    )
    same = replay(State(), [register_operator(text="ns::f", kernels=kernels[:2])], (1, 4))
    assert same.failure is None
    failure = replay(State(), [register_operator(text="ns::f", kernels=kernels[::2])], (1, 4)).failure
    assert failure is not None
    assert failure.message is not None
    assert failure.message.id == "R7"
    assert "[(Tensor _0) -> (Tensor _0)] doesn't match [(Tensor _0, int _1) -> (Tensor _0)]" in failure.message.text
    assert failure.message.text.endswith("The number of arguments is different. 1 vs 2.")
