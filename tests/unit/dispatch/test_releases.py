"""Where releases of torch differ in what they do with the same registrations: their sources say what is expected."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from abiscan.dispatch.keys import keys_of_minor
from abiscan.dispatch.outcomes import Outcome, OutcomeKind, Replay
from abiscan.dispatch.state import OperatorEntry, State, StoredKernel, StoredSignature
from abiscan.inputs.version import MinorVersion
from abiscan.registrations import Library, LibraryKind, RegisteredKernel, Registration
from tests.torch_calls import (
    cpp_function,
    define_operator,
    enter_registry,
    fall_back,
    implement_operator,
    open_library,
    register_operator,
    replay,
)

UNARY: Final = cpp_function(signature="FN2at6TensorERKS0_E", inferred="(Tensor _0) -> Tensor _0")
BINARY: Final = cpp_function(signature="FN2at6TensorERKS0_S2_E", inferred="(Tensor _0, Tensor _1) -> Tensor _0")
TEXT: Final = "f(Tensor x) -> Tensor"


def block(kind: LibraryKind, namespace: str | None = "ns", key: str | None = None, line: int = 1) -> Library:
    return open_library(kind=kind, namespace=namespace, dispatch_key=key, file="a.cpp", line=line)


DEF: Final = block(LibraryKind.FRAGMENT)


def of_key(key: str | None, kernel: RegisteredKernel = UNARY) -> RegisteredKernel:
    return cpp_function(dispatch_key=key, signature=kernel.signature, inferred=kernel.inferred_schema)


def implement(key: str | None, line: int = 2, kernel: RegisteredKernel = UNARY, name: str = "f") -> RegisteredKernel:
    return implement_operator(block=block(LibraryKind.IMPL, line=line), name=name, kernel=of_key(key, kernel))


def overrides(events: list[Registration], release: MinorVersion, state: State | None = None) -> list[Outcome]:
    outcomes = replay(state or State(), events, release).outcomes
    assert {outcome.kind for outcome in outcomes} <= {OutcomeKind.OVERRIDES}
    return list(outcomes)


def refusal(result: Replay) -> tuple[str, str]:
    """The id of the message, and its text."""
    assert result.failure is not None
    assert result.failure.message is not None
    return result.failure.message.id, result.failure.message.text


@pytest.mark.parametrize(
    ("key", "release", "warns"),
    [
        ("CPU", (1, 13), True),
        ("CPU", (2, 13), True),
        ("Meta", (1, 13), True),
        ("Meta", (2, 0), False),  # python meta functions replace those of C++ (OperatorEntry.cpp)
        ("MTIA", (2, 4), True),
        ("MTIA", (2, 5), False),
    ],
)
def test_a_second_kernel_of_some_keys_is_no_news(key: str, release: MinorVersion, warns: bool) -> None:
    (outcome,) = overrides([define_operator(block=DEF, text=TEXT), implement(key, 2), implement(key, 3)], release)
    assert (outcome.message is not None) is warns
    assert (outcome.old, outcome.new) == ("registered at a.cpp:2", "registered at a.cpp:3")


@pytest.mark.parametrize(("release", "warnings"), [((2, 0), 3), ((2, 1), 1), ((2, 13), 1)])
def test_from_2_1_on_torch_warns_once_of_all_operators(release: MinorVersion, warnings: int) -> None:
    definitions = [define_operator(block=DEF, text=TEXT), define_operator(block=DEF, text="g(Tensor x) -> Tensor")]
    kernels = [implement("CPU"), implement("CPU"), implement("CPU"), implement("CPU", name="g")]
    events: list[Registration] = [*definitions, *kernels, implement("CPU", name="g")]
    found = overrides(events, release)
    assert [outcome.subject for outcome in found] == ["ns::f", "ns::f", "ns::g"]
    assert sum(outcome.message is not None for outcome in found) == warnings
    assert found[0].message is not None
    assert not any(outcome.message for outcome in overrides(events, release, State(warned=True))) or warnings == 3


def test_a_silent_replacement_leaves_the_only_warning_for_the_next() -> None:
    define = define_operator(block=DEF, text=TEXT)
    events: list[Registration] = [define, implement("Meta"), implement("Meta"), implement("CPU"), implement("CPU")]
    first, second = overrides(events, (2, 13))
    assert first.message is None
    assert second.message is not None


@pytest.mark.parametrize(
    ("release", "alias", "replaces"),
    [
        ((1, 7), "Math", False),  # a slot of its own, the catch-all
        ((1, 8), "Math", True),
        ((1, 8), "CompositeImplicitAutograd", False),
        ((1, 9), "Math", False),
        ((1, 9), "CompositeImplicitAutograd", True),
        ((2, 13), "CompositeImplicitAutograd", True),
        ((2, 13), "CompositeExplicitAutograd", False),
    ],
)
def test_a_kernel_without_a_key_has_that_of_the_release(release: MinorVersion, alias: str, replaces: bool) -> None:
    """``Math`` in 1.8, ``CompositeImplicitAutograd`` from 1.9 on (``OperatorEntry::registerKernel``)."""
    found = overrides([define_operator(block=DEF, text=TEXT), implement(alias), implement(None)], release)
    assert bool(found) is replaces


@pytest.mark.parametrize(
    ("release", "keys"),
    [
        ((1, 7), {"Autograd"}),  # a key like others
        (
            (1, 8),
            {"AutogradOther", "AutogradCPU", "AutogradCUDA", "AutogradXLA", "AutogradNestedTensor", "AutogradXPU"},
        ),
        ((1, 10), {"AutogradOther", "AutogradCPU", "AutogradCUDA", "AutogradXLA", "AutogradLazy", "AutogradXPU"}),
    ],
)
def test_a_fallback_for_autograd_is_one_for_each_backend(release: MinorVersion, keys: set[str]) -> None:
    kernel = cpp_function(dispatch_key="Autograd")
    state = replay(State(), [fall_back(block=block(LibraryKind.IMPL, None), kernel=kernel)], release).state
    assert keys <= state.fallbacks.keys()
    numbers = {name: number for number, name in keys_of_minor(release).names.items()}
    order = [numbers[key] for key in state.fallbacks]
    assert order == sorted(order)
    assert len(keys) == 1 or not {"Autograd", "CPU"} & state.fallbacks.keys()
    assert all(key.startswith("Autograd") for key in state.fallbacks)


def test_functionality_keys_have_no_fallback_of_their_own() -> None:
    kernel = cpp_function(dispatch_key="Autograd")
    state = replay(State(), [fall_back(block=block(LibraryKind.IMPL, None), kernel=kernel)], (2, 13)).state
    assert "AutogradFunctionality" in keys_of_minor((2, 13)).names.values()
    assert "AutogradFunctionality" not in state.fallbacks
    assert "AutogradXPU" in state.fallbacks


@pytest.mark.parametrize(
    ("release", "id_"), [((1, 4), "F2"), ((1, 5), "F2"), ((1, 6), None), ((1, 7), "F1"), ((2, 13), "F1")]
)
def test_a_second_fallback_of_a_key(release: MinorVersion, id_: str | None) -> None:
    where = block(LibraryKind.IMPL, None) if release >= (1, 6) else None
    one = fall_back(block=where, kernel=cpp_function(dispatch_key="XLA", debug="here"))
    two = fall_back(block=where, kernel=cpp_function(dispatch_key="XLA", debug="there"))
    result = replay(State(), [one, two], release)
    if id_ is None:
        (outcome,) = result.outcomes
        assert outcome.kind is OutcomeKind.OVERRIDES
        assert (outcome.old, outcome.new) == ("here", "there")
        assert result.state.fallbacks["XLA"] == "there"
    else:
        found, text = refusal(result)
        assert found == id_
        assert "XLA" in text
        assert ("previous registration here, new registration there" in text) is (id_ == "F1")


@pytest.mark.parametrize("release", [(1, 6), (1, 7)])
def test_until_1_7_an_equal_definition_may_come_again(release: MinorVersion) -> None:
    first = register_operator(text="ns::f(Tensor x) -> Tensor", kernels=())
    assert replay(State(), [first, first], release).outcomes == ()
    other = register_operator(text="ns::f(Tensor y) -> Tensor", kernels=())
    id_, text = refusal(replay(State(), [first, other], release))
    assert id_ == "D2"
    assert text.startswith("Tried to register multiple operators with the same name and the same overload name but")
    assert refusal(replay(State(), [first, first], (1, 8)))[0] == "D1"


@pytest.mark.parametrize(
    ("release", "id_", "text"),
    [
        ((1, 4), "D3", "Tried to register multiple operators with the same schema but different options: "),
        ((1, 5), "D4", "Tried to register multiple operators with the same schema but different alias analysis kind: "),
        (
            (1, 6),
            "D5",
            (
                "Tried to define the schema for ns::f with different alias analysis kinds: CONSERVATIVE (registered by "
                "RegisterOperators) vs PURE_FUNCTION (registered by RegisterOperators)"
            ),
        ),
    ],
)
def test_an_equal_definition_must_have_the_same_alias_analysis(release: MinorVersion, id_: str, text: str) -> None:
    declared = "ns::f(Tensor x) -> Tensor"
    kinds = ("CONSERVATIVE", "PURE_FUNCTION")
    first, second = (register_operator(text=declared, kernels=(), alias_analysis=kind) for kind in kinds)
    found = refusal(replay(State(), [first, second], release))
    assert found[0] == id_
    assert found[1].startswith(text)
    silent = register_operator(text=declared, kernels=())
    assert replay(State(), [first, silent], release).outcomes == ()
    # What was defined without one takes that of the next, from which a third must not differ.
    taken = replay(State(), [silent, first], release)
    assert taken.outcomes == ()
    assert taken.state.operators["ns::f"].alias_analysis == "CONSERVATIVE"
    assert refusal(replay(State(), [silent, first, second], release))[0] == id_


@pytest.mark.parametrize(
    ("count", "release", "fails"), [(64, (2, 13), False), (65, (2, 13), True), (65, (1, 5), False)]
)
def test_the_dispatcher_keeps_64_arguments(count: int, release: MinorVersion, fails: bool) -> None:
    """One bit for each (DispatchKeyExtractor.h), from 1.6 on."""
    arguments = ", ".join(f"Tensor x{number}" for number in range(count))
    event = register_operator(text=f"ns::f({arguments}) -> Tensor", kernels=())
    result = replay(State(), [event], release)
    assert (result.failure is not None) is fails
    if fails:
        expected = f"The function schema has {count} arguments but this PyTorch build only supports 64"
        assert refusal(result) == ("K11", expected)


def test_kernels_of_one_key_or_of_none_stand_once_in_a_call() -> None:
    text = "ns::f(Tensor x) -> Tensor"
    two_for_cpu = register_operator(text=text, kernels=(of_key("CPU"), of_key("CUDA"), of_key("CPU")))
    id_, said = refusal(replay(State(), [two_for_cpu], (2, 13)))
    assert id_ == "R3"
    assert "multiple kernels with same dispatch key CPU for operator schema ns::f(Tensor x) -> " in said
    id_, said = refusal(replay(State(), [register_operator(text=text, kernels=(of_key(None), of_key(None)))], (2, 13)))
    assert id_ == "R4"
    assert "Tried to register multiple catch-all kernels for operator schema ns::f(Tensor x) -> " in said
    different = register_operator(text=text, kernels=(of_key("CPU"), of_key("CUDA"), of_key(None)))
    assert replay(State(), [different], (2, 13)).failure is None


def test_a_name_alone_needs_a_kernel_that_tells_the_schema() -> None:
    nothing = register_operator(text="ns::f", kernels=())
    assert refusal(replay(State(), [nothing], (2, 13)))[0] == "R5"
    boxed = register_operator(text="ns::f", kernels=(cpp_function(dispatch_key="CPU"),))
    assert refusal(replay(State(), [boxed], (2, 13)))[0] == "R6"
    both = register_operator(text="ns::f", kernels=(cpp_function(dispatch_key="CUDA"), of_key("CPU")))
    state = replay(State(), [both], (2, 13)).state
    assert state.operators["ns::f"].schema == "ns::f(Tensor _0) -> Tensor _0"


@pytest.mark.parametrize(("release", "id_"), [((1, 5), "R7"), ((1, 6), "K2")])
def test_kernels_that_tell_different_schemas(release: MinorVersion, id_: str) -> None:
    kernels = (of_key("CPU"), cpp_function(dispatch_key="CUDA", inferred=BINARY.inferred_schema))
    found, text = refusal(replay(State(), [register_operator(text="ns::f", kernels=kernels)], release))
    assert found == id_
    assert "The number of arguments is different. 1 vs 2." in text


@pytest.mark.parametrize(("release", "id_"), [((1, 5), "R8"), ((1, 6), "K2")])
def test_a_kernel_against_its_definition(release: MinorVersion, id_: str) -> None:
    event = register_operator(text="ns::f(Tensor x) -> Tensor", kernels=(of_key("CPU", BINARY),))
    found, text = refusal(replay(State(), [event], release))
    assert found == id_
    assert "The number of arguments is different. 1 vs 2." in text
    right = register_operator(
        text="ns::f(Tensor x) -> Tensor", kernels=(of_key("CPU"), cpp_function(dispatch_key="XLA"))
    )
    assert replay(State(), [right], release).failure is None


@pytest.mark.parametrize(
    ("text", "kernels", "alias", "release", "id_"),
    [
        ("ns::f", (UNARY,), "FROM_SCHEMA", (2, 13), "R9"),
        ("ns::f", (UNARY,), "CONSERVATIVE", (2, 13), None),
        ("ns::f(Tensor x) -> Tensor", (), "FROM_SCHEMA", (2, 13), None),
        ("ns::f(Tensor(a!) x) -> Tensor(a!)", (), None, (1, 4), "R10"),
        ("ns::f(Tensor x) -> Tensor(a)", (), None, (1, 4), "R10"),
        ("ns::f(Tensor(a!) x) -> Tensor(a!)", (), "FROM_SCHEMA", (1, 4), None),
        ("ns::f(Tensor x) -> Tensor", (), None, (1, 4), None),
        ("ns::f(Tensor(a!) x) -> Tensor(a!)", (), None, (1, 5), None),
    ],
)
def test_alias_analysis_and_annotations(
    text: str, kernels: tuple[RegisteredKernel, ...], alias: str | None, release: MinorVersion, id_: str | None
) -> None:
    result = replay(State(), [register_operator(text=text, kernels=kernels, alias_analysis=alias)], release)
    assert (refusal(result)[0] if result.failure else None) == id_


def test_what_a_kernel_says_of_a_definition_that_comes_later() -> None:
    kernel = implement("CPU", 5, BINARY)
    id_, text = refusal(replay(State(), [kernel, define_operator(block=DEF, text=TEXT)], (2, 13)))
    assert id_ == "K2"
    assert "expected schema: ns::f(Tensor x) -> Tensor" in text
    assert "registered at a.cpp:5" in text
    boxed = implement_operator(block=block(LibraryKind.IMPL), name="f", kernel=cpp_function(dispatch_key="CPU"))
    assert replay(State(), [boxed, define_operator(block=DEF, text=TEXT)], (2, 13)).outcomes == ()


def test_a_kernel_of_nothing_is_dead() -> None:
    (outcome,) = replay(State(), [implement("CPU"), implement("CUDA")], (2, 13)).outcomes
    assert (outcome.kind, outcome.subject, outcome.message) == (OutcomeKind.DEAD, "ns::f", None)


@pytest.mark.parametrize("release", [(1, 12), (1, 13)])
def test_kernels_with_and_without_a_symint_have_types_of_their_own_from_1_13_on(release: MinorVersion) -> None:
    symbolic = cpp_function(
        signature="FN2at6TensorERKS0_N3c106SymIntEE", inferred="(Tensor _0, SymInt _1) -> Tensor _0"
    )
    plain = cpp_function(signature="FN2at6TensorERKS0_lE", inferred="(Tensor _0, int _1) -> Tensor _0")
    operator = OperatorEntry(schema="ns::f(Tensor x, SymInt n) -> Tensor", debug="there")
    state = State(operators={"ns::f": operator})
    result = replay(state, [implement("CPU", 2, symbolic), implement("CUDA", 3, plain)], release)
    if release < (1, 13):
        assert refusal(result)[0] == "K1"
        return
    assert result.outcomes == ()
    entry = result.state.operators["ns::f"]
    assert entry.signature == StoredSignature(
        mangled=str(plain.signature), dispatch_key="CUDA", debug="registered at a.cpp:3"
    )
    assert entry.sym_signature == StoredSignature(
        mangled=str(symbolic.signature), dispatch_key="CPU", debug="registered at a.cpp:2"
    )
    assert refusal(replay(result.state, [implement("XLA", 4, UNARY)], release))[0] == "K1"


def test_another_type_is_told_with_both_places() -> None:
    events: list[Registration] = [
        define_operator(block=DEF, text=TEXT),
        implement("CPU", 5),
        implement("CUDA", 6, BINARY),
    ]
    id_, text = refusal(replay(State(), events, (2, 13)))
    assert id_ == "K1"
    assert text == (
        "\nMismatch in kernel C++ signatures\n"
        "  operator: ns::f(Tensor x) -> Tensor\n"
        "    registered at a.cpp:1\n"
        "  kernel 1: at::Tensor (at::Tensor const&)\n"
        "    dispatch key: CPU\n"
        "    registered at a.cpp:5\n"
        "  kernel 2: at::Tensor (at::Tensor const&, at::Tensor const&)\n"
        "    dispatch key: CUDA\n"
        "    registered at a.cpp:6\n"
    )


def test_another_type_without_a_definition_and_a_key() -> None:
    _, text = refusal(replay(State(), [implement(None, 5), implement("CUDA", 6, BINARY)], (2, 13)))
    assert "  operator: ns::f\n    no debug info\n" in text
    assert "    dispatch key: (catch all)\n    registered at a.cpp:5\n" in text


@pytest.mark.parametrize("known", [True, False])
def test_a_guess_needs_a_kernel_whose_schema_is_known(known: bool) -> None:
    """Types that torch does not tell differ where the schemas do; a SymInt has a type of its own from 1.13 on."""
    stored = StoredKernel(debug="there", inferred="(Tensor _0) -> Tensor _0" if known else None)
    entry = OperatorEntry(schema=None, kernels={"CPU": (stored,)}, signatures_known=False)
    state = State(operators={"ns::f": entry})
    assert (replay(state, [implement("CUDA", 3, BINARY)], (2, 13)).failure is not None) is known
    assert replay(state, [implement("CUDA", 3, UNARY)], (2, 13)).failure is None
    symbolic = cpp_function(signature="FN2at6TensorEN3c106SymIntEE", inferred="(SymInt _0) -> Tensor _0")
    assert replay(state, [implement("CUDA", 3, symbolic)], (2, 13)).failure is None
    assert (replay(state, [implement("CUDA", 3, symbolic)], (1, 12)).failure is not None) is known


@pytest.mark.parametrize(
    ("event", "id_", "subject"),
    [
        (block(LibraryKind.DEF, None), "L1b", "_"),
        (block(LibraryKind.FRAGMENT, None), "L1", "_"),
        (block(LibraryKind.FRAGMENT, "ns", "CPU"), "L2", "ns"),
        (block(LibraryKind.IMPL, None), None, ""),
        (define_operator(block=block(LibraryKind.IMPL), text=TEXT), "L3", "f"),
        (define_operator(block=DEF, text="other::f(Tensor x) -> Tensor"), "L4", "other::f"),
        (define_operator(block=DEF, text="ns::f(Tensor x) -> Tensor"), None, ""),
        (define_operator(block=DEF, text="f", kernel=cpp_function()), "L5", "f"),
        (define_operator(block=DEF, text="f"), "G1", "f"),
        (implement("CPU", name="other::f"), "L6", "other::f"),
        (implement("CPU", name="ns::f"), None, ""),
        (implement_operator(block=block(LibraryKind.IMPL, "ns", "CPU"), name="f", kernel=of_key("CUDA")), "L7", "f"),
        (implement_operator(block=block(LibraryKind.IMPL, "ns", "CPU"), name="f", kernel=of_key("CPU")), None, ""),
        (fall_back(block=DEF, kernel=cpp_function(dispatch_key="CPU")), "L8", "ns"),
        (fall_back(block=block(LibraryKind.IMPL, None), kernel=cpp_function()), "L9", "_"),
        (fall_back(block=block(LibraryKind.IMPL, "ns"), kernel=cpp_function(dispatch_key="CPU")), "L10", "CPU"),
        (fall_back(block=block(LibraryKind.IMPL, None, "XLA"), kernel=cpp_function()), None, ""),
    ],
)
def test_what_a_block_allows(event: Registration, id_: str | None, subject: str) -> None:
    """The checks of library.cpp."""
    result = replay(State(), [event], (2, 13))
    assert (refusal(result)[0] if result.failure else None) == id_
    assert result.failure is None or result.failure.subject == subject


def test_the_own_namespace_is_refused_by_1_6_alone() -> None:
    define = define_operator(block=DEF, text="ns::f(Tensor x) -> Tensor")
    id_, text = refusal(replay(State(), [define], (1, 6)))
    assert id_ == "L4"
    assert text.startswith("1Explicitly provided namespace (ns)")  # it prints the comparison
    assert replay(State(), [define], (1, 7)).failure is None
    other = define_operator(block=DEF, text="other::f(Tensor x) -> Tensor")
    assert refusal(replay(State(), [other], (1, 6)))[1].startswith("0Explicitly provided namespace (other)")


def test_a_kernel_has_the_namespace_and_the_key_of_its_block() -> None:
    where = block(LibraryKind.IMPL, "ns", "CPU", line=7)
    one = implement_operator(block=where, name="f.out", kernel=cpp_function())
    state = replay(State(), [one, implement("XLA", name="ns::g")], (2, 13)).state
    assert state.operators["ns::f.out"].kernels == {
        "CPU": (StoredKernel(debug="registered at a.cpp:7", inferred=None),)
    }
    assert state.operators["ns::g"].kernels.keys() == {"XLA"}
    wildcard = implement_operator(block=block(LibraryKind.IMPL, None), name="other::f", kernel=of_key("CPU"))
    assert "namespace" in refusal(replay(State(), [wildcard], (2, 13)))[1]
    own = implement_operator(block=where, name="f", kernel=cpp_function(debug="registered at b.py:3"))
    assert replay(State(), [own], (2, 13)).state.operators["ns::f"].kernels["CPU"][0].debug == "registered at b.py:3"


def test_a_definition_with_a_kernel_takes_both_in() -> None:
    kernel = cpp_function(
        signature=UNARY.signature, inferred=UNARY.inferred_schema, dispatch_key="CPU", debug="of the kernel"
    )
    state = replay(State(), [define_operator(block=DEF, text="f", kernel=kernel)], (2, 13)).state
    entry = state.operators["ns::f"]
    assert (entry.schema, entry.alias_analysis, entry.debug) == (
        "ns::f(Tensor _0) -> Tensor _0",
        "CONSERVATIVE",
        "registered at a.cpp:1",
    )
    assert entry.kernels == {"CPU": (StoredKernel(debug="of the kernel", inferred=UNARY.inferred_schema),)}
    written = replay(State(), [define_operator(block=DEF, text=TEXT)], (2, 13)).state.operators["ns::f"]
    assert (written.alias_analysis, written.kernels) == ("FROM_SCHEMA", {})
    asked = define_operator(block=DEF, text=TEXT, alias_analysis="PURE_FUNCTION")
    assert replay(State(), [asked], (2, 13)).state.operators["ns::f"].alias_analysis == "PURE_FUNCTION"


OVERRIDING: Final = (
    "Overriding a previously registered kernel for the same operator and the same dispatch key\n"
    "  operator: {}\n"
    "  dispatch key: {}\n"
    "  previous kernel: {}\n"
    "       new kernel: registered at a.cpp:2"
)
PLAIN: Final = StoredSignature(mangled=str(UNARY.signature), dispatch_key="CUDA", debug="of the plain type")
SYMBOLIC: Final = StoredSignature(mangled="FvN3c106SymIntEE", dispatch_key="XLA", debug="of the type with a SymInt")


@pytest.mark.parametrize(
    ("plain", "symbolic", "known", "previous", "exact"),
    [
        (PLAIN, None, True, "of the plain type", True),
        (None, SYMBOLIC, True, "of the type with a SymInt", True),
        (PLAIN, SYMBOLIC, True, "of the plain type", True),
        (None, None, True, "no debug info", True),
        (None, None, False, "?", False),
        (PLAIN, None, False, "of the plain type", True),
    ],
)
def test_the_kernel_before_is_the_first_with_a_type(
    plain: StoredSignature | None, symbolic: StoredSignature | None, known: bool, previous: str, exact: bool
) -> None:
    """``OperatorEntry::registerKernel``: ``cpp_signature_``, or else ``sym_cpp_signature_``, whatever their key."""
    there: dict[str | None, tuple[StoredKernel, ...]] = {
        "CPU": (StoredKernel(debug="the one that is replaced", inferred=None),)
    }
    entry = OperatorEntry(
        schema="ns::f(Tensor x) -> Tensor",
        debug="of the definition",
        kernels=there,
        signature=plain,
        sym_signature=symbolic,
        signatures_known=known,
    )
    boxed = implement("CPU", kernel=cpp_function())  # or else its own type might be the first
    for release, result in (((1, 8), "(Tensor)"), ((2, 0), "Tensor")):
        (found,) = overrides([boxed], release, State(operators={"ns::f": entry}))
        definition = f"ns::f(Tensor x) -> {result}\n    of the definition"
        assert found.message is not None
        assert found.message.exact is exact
        assert found.message.text == OVERRIDING.format(definition, "CPU", previous)
        assert (found.old, found.new) == ("the one that is replaced", "registered at a.cpp:2")


@pytest.mark.parametrize(
    ("release", "key", "text"),
    [
        (
            (1, 5),
            "CPU",
            (
                "Registered a kernel for operator ns::f with dispatch key CPU that overwrote a previously registered "
                "kernel with the same dispatch key for the same operator."
            ),
        ),
        (
            (1, 5),
            None,
            (
                "Registered a catch-all kernel for operator ns::f that overwrote a previously registered catch-all "
                "kernel for the same operator."
            ),
        ),
        (
            (1, 7),
            None,
            (
                "Registering a kernel (registered at a.cpp:2) for operator ns::f for dispatch key (catch all) that "
                "overwrote a previously registered kernel with the same dispatch key for the same operator."
            ),
        ),
        ((1, 8), None, OVERRIDING.format("ns::f\n    no debug info", "(catch all)", "?")),
        (
            (2, 4),
            None,
            "Warning only once for all operators,  other operators may also be overrided.\n  "
            + OVERRIDING.format("ns::f\n    no debug info", "(catch all)", "?"),
        ),
    ],
)
def test_what_each_release_says_of_a_second_kernel(release: MinorVersion, key: str | None, text: str) -> None:
    """Up to 1.7 without the kernel before, so that nothing is unknown even if its type is."""
    slot = key or {(1, 8): "Math", (2, 4): "CompositeImplicitAutograd"}.get(release)
    there = {slot: (StoredKernel(debug="there", inferred=None),)}
    state = State(operators={"ns::f": OperatorEntry(kernels=there, signatures_known=False)})
    found = replay(state, [implement(key)], release).outcomes[0]
    assert found.kind is OutcomeKind.OVERRIDES
    assert found.message is not None
    assert (found.message.text, found.message.exact) == (text, release < (1, 8))


@pytest.mark.parametrize("between", [(), (of_key("CUDA"),), (cpp_function(dispatch_key="XLA"), of_key("CUDA"))])
def test_which_of_the_schemas_that_kernels_tell_is_another_one(between: tuple[RegisteredKernel, ...]) -> None:
    """The first one is compared with each of the others (op_registration.cpp of 1.5)."""
    kernels = (UNARY, *between, of_key("CPU", BINARY))
    result = replay(State(), [register_operator(text="ns::f", kernels=kernels)], (1, 5))
    one, two = "(Tensor _0) -> (Tensor _0)", "(Tensor _0, Tensor _1) -> (Tensor _0)"
    assert refusal(result) == (
        "R7",
        (
            "In operator registration: Tried to register kernels for same operator that infer a different function "
            f"schema: [{one}] doesn't match [{two}]. The number of arguments is different. 1 vs 2."
        ),
    )
    assert result.failure is not None
    assert (result.failure.old, result.failure.new) == (one, two)


@pytest.mark.parametrize(
    ("text", "kernel", "release", "accepts"),
    [
        ("f(t x) -> t", None, (2, 3), True),  # parseSchema(text)
        ("f(t x) -> t", None, (2, 4), False),  # parseSchema(text, allow_typevars=false)
        ("f(t x) -> t", None, (2, 13), False),
        ("f(double x) -> ()", None, (2, 3), True),
        ("f(double x) -> ()", None, (2, 13), False),
        ("f(t x) -> t", cpp_function(), (2, 13), True),  # parseSchemaOrName(text), which allows them
        ("aten::f(t x) -> t", None, (2, 13), True),
    ],
)
@pytest.mark.parametrize("namespace", ["ns", "aten"])
def test_type_variables_in_a_definition(
    namespace: str, text: str, kernel: RegisteredKernel | None, release: MinorVersion, accepts: bool
) -> None:
    """As torch 2.13.0 takes them; the parameter is in the names that 2.4 and newer export, and not in those of 2.3."""
    where = block(LibraryKind.FRAGMENT, "aten" if text.startswith("aten::") else namespace)
    result = replay(State(), [define_operator(block=where, text=text, kernel=kernel)], release)
    assert (result.failure is None) is accepts
    if not accepts:
        assert refusal(result)[0] == "G1"


@pytest.mark.parametrize("kernel", [None, cpp_function()])
@pytest.mark.parametrize("allowed", [True, False])
def test_type_variables_in_a_schema_that_the_code_parses_itself(allowed: bool, kernel: RegisteredKernel | None) -> None:
    """``m.def(torch::schema("f(t x) -> t"), kernel)`` ends torch 2.13.0, and with ``allow_typevars`` it does not."""
    where = block(LibraryKind.FRAGMENT, "ns")
    definition = replace(define_operator(block=where, text="f(t x) -> t", kernel=kernel), typevars=allowed)
    assert (replay(State(), [definition], (2, 13)).failure is None) is allowed
    assert replay(State(), [definition], (2, 3)).failure is None


def test_type_variables_in_a_call_of_register_operators() -> None:
    kernels = (cpp_function(),)
    assert replay(State(), [register_operator(text="ns::f(t x) -> t", kernels=kernels)], (2, 13)).failure is None


@pytest.mark.parametrize(
    ("release", "kind", "printed"),
    [
        ((1, 6), LibraryKind.DEF, "0"),
        ((1, 6), LibraryKind.IMPL, "1"),
        ((1, 6), LibraryKind.FRAGMENT, "2"),
        ((1, 7), LibraryKind.IMPL, "TORCH_LIBRARY_IMPL"),
        ((2, 13), LibraryKind.IMPL, "TORCH_LIBRARY_IMPL"),
    ],
)
def test_how_a_block_is_called(release: MinorVersion, kind: LibraryKind, printed: str) -> None:
    """``enum Kind { DEF, IMPL, FRAGMENT }`` of torch/library.h: 1.6 prints the number."""
    kernel = of_key("CPU")
    result = replay(State(), [implement_operator(block=block(kind), name="other::f", kernel=kernel)], release)
    id_, text = refusal(result)
    assert id_ == "L6"
    assert text.endswith(f"(Error occurred while processing {printed} block at a.cpp:1)")
    assert result.failure is not None
    assert result.failure.message is not None
    assert result.failure.message.exact


@pytest.mark.parametrize(("namespace", "printed"), [("ns", "(ns)"), (None, "(std::nullopt)")])
def test_a_kernel_of_another_namespace(namespace: str | None, printed: str) -> None:
    event = implement_operator(block=block(LibraryKind.IMPL, namespace), name="other::f", kernel=of_key("CPU"))
    assert printed in refusal(replay(State(), [event], (2, 13)))[1]


@pytest.mark.parametrize("release", [(1, 12), (1, 13)])
def test_a_guess_keeps_types_with_a_symint_apart_from_1_13_on(release: MinorVersion) -> None:
    stored = StoredKernel(debug="there", inferred="(int _0) -> Tensor _0")
    state = State(operators={"ns::f": OperatorEntry(kernels={"CPU": (stored,)}, signatures_known=False)})
    symbolic = cpp_function(signature="FN2at6TensorEN3c106SymIntES3_E", inferred="(SymInt _0, SymInt _1) -> Tensor _0")
    result = replay(state, [implement("CUDA", 3, symbolic)], release)
    assert (result.failure is None) is (release == (1, 13))


@pytest.mark.parametrize(
    "kernel", [cpp_function(signature=BINARY.signature), cpp_function(inferred=BINARY.inferred_schema), cpp_function()]
)
def test_a_guess_needs_a_type_and_its_schema(kernel: RegisteredKernel) -> None:
    stored = StoredKernel(debug="there", inferred=UNARY.inferred_schema)
    state = State(operators={"ns::f": OperatorEntry(kernels={"CPU": (stored,)}, signatures_known=False)})
    assert replay(state, [implement("CUDA", 3, kernel)], (2, 13)).failure is None


@pytest.mark.parametrize(("release", "id_"), [((1, 5), None), ((1, 6), "K11"), ((2, 13), "K11")])
def test_since_when_65_arguments_are_too_many(release: MinorVersion, id_: str | None) -> None:
    arguments = ", ".join(f"Tensor x{number}" for number in range(65))
    result = replay(State(), [register_operator(text=f"ns::f({arguments}) -> Tensor", kernels=())], release)
    assert (refusal(result)[0] if result.failure else None) == id_


@pytest.mark.parametrize(
    ("release", "other", "reason"),
    [
        ((2, 3), BINARY, "The number of arguments is different. 1 vs 2."),
        ((2, 4), BINARY, "The number of arguments is different. 1 vs 2."),
        ((2, 3), cpp_function(inferred="(Tensor _0) -> ()"), "The number of returns is different. 1 vs 0"),
        ((2, 4), cpp_function(inferred="(Tensor _0) -> ()"), "The number of returns is different. 1 vs 0."),
        ((2, 3), cpp_function(inferred="(int _0) -> Tensor _0"), "Type mismatch in argument 1: Tensor vs int"),
        ((2, 4), cpp_function(inferred="(int _0) -> Tensor _0"), "Type mismatch in argument 1: Tensor vs int."),
        ((2, 13), cpp_function(inferred="(Tensor _0) -> int _0"), "Type mismatch in return 1: Tensor vs int."),
    ],
)
def test_how_two_schemas_differ(release: MinorVersion, other: RegisteredKernel, reason: str) -> None:
    """``findSchemaDifferences`` (infer_schema.cpp), whose sentences have ended with a full stop since 2.4."""
    result = replay(State(), [define_operator(block=DEF, text=TEXT), implement("CPU", kernel=other)], release)
    id_, text = refusal(result)
    assert id_ == "K2"
    assert text.endswith(f"reason: {reason}")


@pytest.mark.parametrize(("release", "advises"), [((2, 3), False), ((2, 4), True)])
def test_since_when_torch_lists_the_types(release: MinorVersion, advises: bool) -> None:
    id_, text = refusal(replay(State(), [define_operator(block=DEF, text="f(Nothing x) -> ()")], release))
    assert id_ == "G1"
    assert ("Common valid schema types include Tensor" in text) is advises


@pytest.mark.parametrize(("release", "reads"), [((1, 11), False), ((1, 12), True)])
def test_a_definition_is_read_with_the_words_of_the_release(release: MinorVersion, reads: bool) -> None:
    result = replay(State(), [define_operator(block=DEF, text="f(SymInt n) -> ()")], release)
    assert (result.failure is None) is reads


@pytest.mark.parametrize(
    ("registry", "priorities", "kinds", "kept"),
    [
        # SetAllocator (c10/core/Allocator.cpp): the higher priority, or the later one of two.
        ("allocator", (None,), [], 0),
        ("allocator", (None, 0), [OutcomeKind.OVERRIDES], 0),
        ("allocator", (1, None), [OutcomeKind.SKIPS], 1),
        ("allocator", (1, 2), [OutcomeKind.OVERRIDES], 2),
        ("allocator", (2, 1, 2), [OutcomeKind.SKIPS, OutcomeKind.OVERRIDES], 2),
        ("device-guard", (None, None), [OutcomeKind.OVERRIDES], 0),
        # c10/util/Registry.h
        ("AnyRegistry", (1, 1), [OutcomeKind.EXITS], 1),
        ("AnyRegistry", (2, 1), [OutcomeKind.SKIPS], 2),
        ("AnyRegistry", (1, 2), [OutcomeKind.OVERRIDES], 2),
        ("AnyRegistry", (1, None), [], 1),  # some other table
    ],
)
def test_a_second_entry_in_a_registry(
    registry: str, priorities: tuple[int | None, ...], kinds: list[OutcomeKind], kept: int
) -> None:
    events = [enter_registry(registry, key="XLA", priority=priority) for priority in priorities]
    result = replay(State(), events, (2, 13))
    assert [outcome.kind for outcome in result.outcomes] == kinds
    assert result.state.entries == {(registry, "XLA"): kept}
    said = [outcome.message and outcome.message.id for outcome in result.outcomes]
    of_registry = {OutcomeKind.EXITS: "C4", OutcomeKind.SKIPS: "C4b"} if registry == "AnyRegistry" else {}
    assert said == [of_registry.get(kind) for kind in kinds]


@pytest.mark.parametrize(
    ("registry", "key", "count", "release", "id_"),
    [
        ("privateuse1-hooks", None, 2, (2, 1), "E1"),
        ("privateuse1-hooks", None, 2, (2, 0), None),
        ("privateuse1-hooks", None, 1, (2, 13), None),
        ("privateuse1-generator", None, 2, (2, 0), "E2"),
        ("privateuse1-generator", None, 2, (1, 13), None),
        ("storage", "PrivateUse1", 1, (2, 13), None),
        ("storage", "PrivateUse1", 2, (2, 13), "E3"),
        ("storage", "XLA", 1, (2, 13), "E4"),
        ("storage", "XLA", 1, (2, 0), None),
        ("AcceleratorAllocatorConfig", "key", 2, (2, 9), "E5"),
        ("AcceleratorAllocatorConfig", "key", 2, (2, 8), None),
    ],
)
def test_registries_that_take_one_entry(
    registry: str, key: str | None, count: int, release: MinorVersion, id_: str | None
) -> None:
    result = replay(State(), [enter_registry(registry, key=key) for _ in range(count)], release)
    assert (refusal(result)[0] if result.failure else None) == id_
    assert result.failure is None or result.failure.subject == (key or "PrivateUse1")


@pytest.mark.parametrize(("backend", "device"), [(None, "privateuseone"), ("NPU", "npu")])
def test_the_device_has_the_name_of_the_backend(backend: str | None, device: str) -> None:
    events = [enter_registry("storage", key="PrivateUse1") for _ in range(2)]
    expected = f"The StorageImplCreate function pointer for {device} has been registered."
    assert refusal(replay(State(backend=backend), events, (2, 13))) == ("E3", expected)
