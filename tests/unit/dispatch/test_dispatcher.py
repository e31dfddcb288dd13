"""What the recorded cases do not reach: C++ types that are not known, releases side by side, the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from abiscan import registrations as model
from abiscan.dispatch import signature
from abiscan.dispatch.adapters import events_of
from abiscan.dispatch.dispatcher import replay_events
from abiscan.dispatch.events import (
    Block,
    BlockKind,
    CppFunction,
    Define,
    Event,
    FallBack,
    Implement,
    NameBackend,
    OpenBlock,
    RegisterClass,
    RegisterOperator,
)
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.messages import TEMPLATES, word_message
from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.dispatch.state import OperatorEntry, State
from tests.dumps import state_of_dumps

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
IMPL: Final = Block(kind=BlockKind.IMPL, namespace="aten", dispatch_key="PrivateUse1", file="a.cpp", line=1)


def implement(mangled: str, inferred: str) -> list[Event]:
    kernel = CppFunction(signature=mangled, inferred=inferred)
    return [OpenBlock(block=IMPL), Implement(block=IMPL, name="matrix_power", kernel=kernel)]


def test_another_schema_means_another_type_even_if_the_type_is_not_known() -> None:
    state = state_of_dumps({"aten::matrix_power": DUMP})
    result = replay_events(state, implement("FN2at6TensorERKS0_E", "(Tensor _0) -> Tensor _0"), (2, 13))
    assert result.failure is not None
    assert result.failure.message is not None
    assert result.failure.message.id == "K1"
    assert not result.failure.message.exact
    assert "kernel 1: ?" in result.failure.message.text


def test_no_alarm_where_the_types_may_agree() -> None:
    state = state_of_dumps({"aten::matrix_power": DUMP})
    result = replay_events(state, implement("FN2at6TensorERKS0_lE", "(Tensor _0, int _1) -> Tensor _0"), (2, 13))
    assert result.outcomes == ()


def test_nothing_happens_after_a_throw() -> None:
    block = Block(kind=BlockKind.DEF, namespace="ns", dispatch_key=None, file="a.cpp", line=1)
    define = Define(block=block, text="f(Tensor x) -> Tensor")
    later = Define(block=block, text="g(Tensor x) -> Tensor")
    result = replay_events(State(), [OpenBlock(block=block), define, define, later], (2, 13))
    assert [outcome.kind for outcome in result.outcomes] == [OutcomeKind.RAISES]
    assert "ns::g" not in result.state.operators


def block_of(kind: BlockKind, namespace: str | None, key: str | None = None) -> Block:
    return Block(kind=kind, namespace=namespace, dispatch_key=key, file="a.cpp", line=1)


def test_what_is_refused_behind_a_throw_is_told_once_for_each_operator() -> None:
    unary, binary = "FN2at6TensorERKS0_E", "FN2at6TensorERKS0_S2_E"
    fragment, cpu = block_of(BlockKind.FRAGMENT, "ns"), block_of(BlockKind.IMPL, "ns", "CPU")
    there = {name: f"{name}(Tensor x) -> Tensor" for name in ("ns::f", "ns::g", "ns::h")}
    state = State(operators={name: OperatorEntry(schema=schema) for name, schema in there.items()})
    two = CppFunction(signature=binary, inferred="(Tensor _0, Tensor _1) -> Tensor _0")
    events: list[Event] = [
        OpenBlock(block=fragment),
        Define(block=fragment, text="f(Tensor x, Tensor y) -> Tensor"),
        Define(block=fragment, text="g(Tensor x) -> Tensor"),
        Define(block=fragment, text="new(Tensor x) -> Tensor"),
        Implement(block=cpu, name="f", kernel=two),  # as its own definition has it
        Implement(block=cpu, name="h", kernel=CppFunction(signature=unary, inferred="(Tensor _0) -> Tensor _0")),
        Implement(block=cpu, name="h", kernel=two),
        Define(block=fragment, text="g(Tensor x) -> Tensor"),
    ]
    result = replay_events(state, events, (2, 13))
    assert [outcome.subject for outcome in result.outcomes] == ["ns::f"]
    assert [(outcome.subject, outcome.message and outcome.message.id) for outcome in result.behind] == [
        ("ns::g", "D1"),
        ("ns::h", "K1"),
    ]
    assert "ns::new" not in result.state.operators  # nothing of it happens


def test_nothing_is_said_of_what_is_in_a_block_that_is_refused() -> None:
    mine, theirs = block_of(BlockKind.DEF, "ns"), "registered at b.cpp:1"
    state = State(
        libraries={"ns": theirs, "aten": theirs},
        operators={"ns::f": OperatorEntry(schema="ns::f(Tensor x) -> Tensor", debug=theirs)},
        fallbacks={"XLA": theirs},
    )
    of_all = block_of(BlockKind.IMPL, None, "XLA")
    events: list[Event] = [
        OpenBlock(block=mine),
        Define(block=mine, text="f(Tensor x) -> Tensor"),
        OpenBlock(block=block_of(BlockKind.DEF, "aten")),
        FallBack(block=of_all, kernel=CppFunction()),
        FallBack(block=of_all, kernel=CppFunction()),
    ]
    result = replay_events(state, events, (2, 13))
    assert [outcome.subject for outcome in (*result.outcomes, *result.behind)] == ["ns", "aten", "XLA"]


def test_nothing_is_behind_what_torch_accepts() -> None:
    accepted = [NameBackend(name="a"), NameBackend(name="a")]
    assert replay_events(State(), accepted, (2, 13)).behind == ()
    refused = [*accepted, NameBackend(name="b"), NameBackend(name="c"), NameBackend(name="b")]
    assert [outcome.subject for outcome in replay_events(State(), refused, (2, 13)).behind] == ["c"]


def test_classes_count_only_where_they_are_known() -> None:
    events = [RegisterClass(name="ns.C"), RegisterClass(name="ns.C")]
    assert replay_events(State(), events, (2, 13)).failure is None
    failure = replay_events(State(classes=frozenset()), events, (2, 13)).failure
    assert failure is not None
    assert failure.message is not None
    assert failure.message.id == "C1"


LINE = {"file": "macro.cpp", "line": 3, "phase": model.Phase.STATIC_INIT}  # one macro may open several blocks
KEYS = DispatchKeys(minor=(2, 13), names={1: "CPU"})


def _library(namespace: str, order: int) -> model.Library:
    kind = model.LibraryKind.FRAGMENT
    return model.Library(kind=kind, namespace=namespace, dispatch_key=None, order=order, **LINE)  # type: ignore[arg-type]


def _implementation(operator: str, order: int, library: int) -> model.RegisteredKernel:
    return model.RegisteredKernel(
        operator=operator,
        dispatch_key=1,
        signature=None,
        inferred_schema=None,
        boxed=True,
        fallthrough=False,
        abi_version=None,
        order=order,
        library=library,
        **LINE,  # type: ignore[arg-type]
    )


def _definition(name: str, order: int, library: int | None) -> model.RegisteredOperator:
    return model.RegisteredOperator(
        name=name,
        schema=None,
        inferred=True,
        tags=(),
        jit_only=False,
        order=order,
        library=library,
        **LINE,  # type: ignore[arg-type]
    )


def test_events_come_in_the_order_of_the_code_each_with_its_block() -> None:
    registrations = model.Registrations(
        libraries=(_library("one", 0), _library("two", 3)),
        operators=(_definition("two::f", 1, 0), _definition("old::g", 2, None)),
        kernels=(_implementation("two::f", 1, 0), _implementation("two::f", 4, 3), _implementation("one::f", 6, 0)),
        classes=(model.CustomClass(name="two.C", methods=(), phase=model.Phase.STATIC_INIT, order=5),),
    )
    kernel = CppFunction(dispatch_key="CPU")
    one, two = (
        Block(kind=BlockKind.FRAGMENT, namespace=namespace, dispatch_key=None, file="macro.cpp", line=3)
        for namespace in ("one", "two")
    )
    # An event is equal to itself alone; its text says all that it holds.
    assert list(map(repr, events_of(registrations, KEYS, model.Phase.STATIC_INIT))) == [
        repr(OpenBlock(block=one)),
        repr(Define(block=one, text="two::f", kernel=kernel)),
        repr(RegisterOperator(text="old::g", kernels=())),
        repr(OpenBlock(block=two)),
        repr(Implement(block=two, name="f", kernel=kernel)),
        repr(RegisterClass(name="two.C")),
        repr(Implement(block=one, name="f", kernel=kernel)),
    ]


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
    block = Block(kind=BlockKind.DEF, namespace="abiscan_sym", dispatch_key=None, file="sy.cpp", line=11)
    kernel = CppFunction(signature=mangled, inferred=inferred)
    events: list[Event] = [Define(block=block, text=schema), Implement(block=block, name="op", kernel=kernel)]
    failure = replay_events(State(), events, (2, 15)).failure
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
        CppFunction(dispatch_key=key, inferred=inferred)
        for key, inferred in (
            ("CPUTensorId", "(Tensor _0) -> Tensor _0"),
            ("CUDATensorId", "(Tensor _0) -> Tensor _0"),
            ("XLATensorId", "(Tensor _0, int _1) -> Tensor _0"),
        )
    )
    same = replay_events(State(), [RegisterOperator(text="ns::f", kernels=kernels[:2])], (1, 4))
    assert same.failure is None
    failure = replay_events(State(), [RegisterOperator(text="ns::f", kernels=kernels[::2])], (1, 4)).failure
    assert failure is not None
    assert failure.message is not None
    assert failure.message.id == "R7"
    assert "[(Tensor _0) -> (Tensor _0)] doesn't match [(Tensor _0, int _1) -> (Tensor _0)]" in failure.message.text
    assert failure.message.text.endswith("The number of arguments is different. 1 vs 2.")
