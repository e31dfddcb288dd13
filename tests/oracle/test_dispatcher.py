"""The model of the dispatcher against what real torches did: ``sample_binaries/registration_conflicts/expected.json``.

The events come from the machine code of the samples, or are the steps that ``tools/record_conflicts.py`` made; what
torch has registered itself comes from its own dumps, which are recorded beside the cases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from packaging.version import Version

from abiscan.binary.elf import ElfFile, Machine
from abiscan.dispatch import adapters
from abiscan.dispatch.dispatcher import replay_events
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.messages import has_message, word_message
from abiscan.dispatch.outcomes import OutcomeKind, Replay
from abiscan.dispatch.state import OperatorEntry, State, StoredKernel, StoredSignature
from abiscan.emulation import recover
from abiscan.registrations import Library, LibraryKind, Phase, Registration
from abiscan.torches import embedded, embedded_assertions, embedded_operators
from tests.dumps import fallbacks_of_table, state_of_dumps
from tests.torch_calls import (
    cpp_function,
    define_operator,
    fall_back,
    implement_operator,
    open_library,
    register_class,
    register_operator,
    replay,
)

FOLDER: Final = Path(__file__).parents[2] / "sample_binaries/registration_conflicts"
RECORDED: Final = json.loads((FOLDER / "expected.json").read_text("utf-8"))
RUNS: Final = {run["on"]["torch"]: run for run in RECORDED["runs"]}

ONE: Final = ("FN2at6TensorERKS0_E", "(Tensor _0) -> Tensor _0")
TWO: Final = ("FN2at6TensorERKS0_S2_E", "(Tensor _0, Tensor _1) -> Tensor _0")
SCHEMA: Final = "abiscan::f(Tensor x) -> Tensor"
ANNOTATED: Final = "abiscan::f(Tensor(a!) x) -> Tensor(a!)"
FUNCTIONS: Final = {"impl_t_t": ONE, "impl_tt_t": TWO}

# Which kernel of torch 2.13.0 came first, and its C++ type: no dump tells.
FIRST_KERNELS: Final = {
    "aten::matrix_power": ("FuncTorchBatchedDecomposition", "FN2at6TensorERKS0_lE"),
    "aten::tanh": ("Batched", "FN2at6TensorERKS0_E"),
    "aten::sinh": ("Batched", "FN2at6TensorERKS0_E"),
}
FIRST_SYM_KERNELS: Final = {"aten::narrow": ("Batched", "FN2at6TensorERKS0_lN3c106SymIntES4_E")}
# A class that libtorch_cpu of every release from 1.5 on registers.
CLASSES: Final = frozenset({"quantized.LinearPackedParamsBase"})

# Entries of torch's own in other registries: of libtorch_cpu, and one of the settings of libc10.
ENTRIES: Final[dict[tuple[str, int | str | None], int]] = {
    ("ThreadPoolRegistry", "C10"): 2,
    ("AcceleratorAllocatorConfig", "max_split_size_mb"): 0,
}
DEPRECATED: Final = "REGISTER_GENERATOR_PRIVATEUSE1 is deprecated."

# What torch 1.5.0 has registered, as far as mini_ipex meets it, read off the dispatcher of the real release.
TORCH_1_5: Final = json.loads((FOLDER / "mini_ipex/torch-1.5.0.json").read_text("utf-8"))
KEYS_OF_1_5: Final = DispatchKeys(minor=(1, 5), names={int(key): name for key, name in TORCH_1_5["keys"].items()})


def cases(kind: str) -> list[tuple[str, str]]:
    return [(torch, case[kind]) for torch, run in RUNS.items() for case in run["cases"] if kind in case]


def recorded(torch: str, kind: str, name: str) -> dict[str, Any]:
    found = [case for case in RUNS[torch]["cases"] if case.get(kind) == name]
    assert len(found) == 1
    return dict(found[0])


def release_of(torch: str) -> tuple[int, int]:
    version = Version(torch)
    return version.major, version.minor


def state_of(torch: str) -> State:
    run = RUNS[torch]
    if torch.startswith("1.5"):
        return State(
            operators={
                name: OperatorEntry(
                    schema=schema, kernels={key: (StoredKernel(debug="", inferred=None),) for key in keys}
                )
                for name, (schema, *keys) in TORCH_1_5["operators"].items()
            }
        )
    state = state_of_dumps(run["dumps"], fallbacks=fallbacks_of_table(run["table"] or ""), classes=CLASSES)
    operators = dict(state.operators)
    if torch.startswith("2.13"):
        for name, (key, mangled) in FIRST_KERNELS.items():
            first = StoredSignature(mangled=mangled, dispatch_key=key, debug=operators[name].kernels[key][0].debug)
            operators[name] = replace(operators[name], signature=first, signatures_known=True)
        for name, (key, mangled) in FIRST_SYM_KERNELS.items():
            first = StoredSignature(mangled=mangled, dispatch_key=key, debug=operators[name].kernels[key][0].debug)
            operators[name] = replace(operators[name], sym_signature=first, signatures_known=True)
    # The operators of aten are all defined in its one block.
    libraries = {"aten": operators["aten::tanh"].debug} if operators else {}
    assertions = embedded_assertions.assertions(embedded.build(torch, Machine.X86_64), Machine.X86_64)
    return replace(state, operators=operators, libraries=libraries, entries=ENTRIES, assertions=assertions)


def events_of_sample(path: Path) -> list[Registration]:
    file = ElfFile.open(path)
    registrations = recover(file, file.facts())
    assert not registrations.gaps or registrations.ends  # what follows an initialiser that ends the process is lost
    return [event for phase in Phase for event in registrations.dispatched_in(phase)]


def events_of_steps(name: str) -> Iterator[Registration]:
    block = open_library(kind=LibraryKind.DEF, namespace=None, dispatch_key=None, file="/dev/null", line=0)
    for method, *arguments in RECORDED["steps"][name]:
        if method == "library":
            kind, namespace, key = arguments
            namespace = None if namespace == "_" else namespace
            block = replace(block, kind=LibraryKind[kind], namespace=namespace, dispatch_key=key or None)
            yield block
        elif method == "def_":
            yield define_operator(
                block=block, text=arguments[0], alias_analysis=arguments[1] if arguments[1:] else None
            )
        elif method == "fallback_fallthrough":
            yield fall_back(block=block, kernel=cpp_function(dispatch_key=arguments[0] or None))
        else:
            mangled, inferred = FUNCTIONS[method]
            operator, key, debug = arguments
            kernel = cpp_function(dispatch_key=key or None, signature=mangled, inferred=inferred, debug=debug)
            yield implement_operator(block=block, name=operator, kernel=kernel)


# What the functions of register_operators.cpp and old_checks.cpp register; keys as the release names them, a kind of
# alias analysis behind an equals sign.
CALLS: Final[dict[str, list[tuple[str, ...]]]] = {
    "same_key": [(SCHEMA, "CPU one", "CPU one")],
    "two_catch_alls": [(SCHEMA, "- one", "- one")],
    "nothing_to_infer_from": [("abiscan::f",)],
    "kernels_disagree": [("abiscan::f", "CPU one", "CUDA two")],
    "wrong_arguments": [("abiscan::f(Tensor x, Tensor y) -> Tensor", "CPU one")],
    "wrong_return": [(SCHEMA, "CPU number")],
    "wrong_returns": [("abiscan::f(Tensor x) -> (Tensor, int)", "CPU one")],
    "other_schema": [(SCHEMA, "CPU one"), ("abiscan::f(Tensor y) -> Tensor", "CUDA one")],
    "equal_schema": [(SCHEMA, "CPU one"), (SCHEMA, "CUDA one")],
    "override": [(SCHEMA, "CPU one"), (SCHEMA, "CPU one")],
    "override_catch_all": [(SCHEMA, "- one"), (SCHEMA, "- one")],
    "unknown_type": [("abiscan::f(Tenzor x) -> Tensor",)],
    "other_alias_analysis": [(SCHEMA, "CPU one", "=PURE_FUNCTION"), (SCHEMA, "CUDA one", "=CONSERVATIVE")],
    "default_alias_analysis": [(SCHEMA, "CPU one"), (SCHEMA, "CUDA one", "=CONSERVATIVE"), (SCHEMA, "XLA one")],
    "alias_analysis_given_later": [
        (SCHEMA, "CPU one"),
        (SCHEMA, "CUDA one", "=CONSERVATIVE"),
        (SCHEMA, "XLA one", "=PURE_FUNCTION"),
    ],
    "alias_analysis_of_torch": [("aten::sinh(Tensor self) -> Tensor", "XLA one", "=CONSERVATIVE")],
    "inferred_from_schema": [("abiscan::f", "CPU one", "=FROM_SCHEMA")],
    "annotated": [(ANNOTATED, "CPU one")],
    "annotated_from_schema": [(ANNOTATED, "CPU one", "=FROM_SCHEMA")],
    "annotated_conservative": [(ANNOTATED, "CPU one", "=CONSERVATIVE")],
    "boxed_without_schema": [("abiscan::f", "CPU boxed")],
}
CALLED: Final[dict[str, tuple[str | None, str | None]]] = {
    "boxed": (None, None),
    "one": ("FN2at6TensorES0_E", "(Tensor _0) -> Tensor _0"),
    "two": ("FN2at6TensorES0_S0_E", "(Tensor _0, Tensor _1) -> Tensor _0"),
    "number": ("FlN2at6TensorEE", "(Tensor _0) -> int _0"),
}


# The others of old_checks.cpp. Blocks stand in a file of this name, each in a line of its own.
IN_1_6: Final = partial(open_library, file="old_checks.cpp", namespace="abiscan", dispatch_key=None)
FUNCTION: Final = cpp_function(signature=CALLED["one"][0], inferred=CALLED["one"][1])
BLOCKS: Final[dict[str, tuple[Library, Callable[[Library], list[Registration]]]]] = {
    "fragment_of_all": (IN_1_6(kind=LibraryKind.FRAGMENT, namespace=None, line=2), lambda _: []),
    "other_namespace": (
        IN_1_6(kind=LibraryKind.DEF, line=3),
        lambda block: [define_operator(block=block, text="other::f(Tensor x) -> Tensor")],
    ),
    "own_namespace": (IN_1_6(kind=LibraryKind.DEF, line=4), lambda block: [define_operator(block=block, text=SCHEMA)]),
    "block_of_another_alias_analysis": (
        IN_1_6(kind=LibraryKind.DEF, line=5),
        lambda block: [
            define_operator(block=block, text="f(Tensor x) -> Tensor"),
            define_operator(block=block, text="f(Tensor x) -> Tensor", alias_analysis="PURE_FUNCTION"),
        ],
    ),
    "def_in_impl": (
        IN_1_6(kind=LibraryKind.IMPL, dispatch_key="CPU", line=6),
        lambda block: [define_operator(block=block, text="f(Tensor x) -> Tensor")],
    ),
    "kernel_namespace": (
        IN_1_6(kind=LibraryKind.IMPL, dispatch_key="CPU", line=7),
        lambda block: [implement_operator(block=block, name="other::f", kernel=FUNCTION)],
    ),
    "kernel_key": (
        IN_1_6(kind=LibraryKind.IMPL, dispatch_key="CPU", line=8),
        lambda block: [implement_operator(block=block, name="f", kernel=replace(FUNCTION, dispatch_key="CUDA"))],
    ),
    "fallback_in_def": (
        IN_1_6(kind=LibraryKind.DEF, line=9),
        lambda block: [fall_back(block=block, kernel=cpp_function())],
    ),
    "fallback_of_namespace": (
        IN_1_6(kind=LibraryKind.IMPL, dispatch_key="XLA", line=10),
        lambda block: [fall_back(block=block, kernel=cpp_function())],
    ),
    "boxed_def": (
        IN_1_6(kind=LibraryKind.DEF, line=11),
        lambda block: [define_operator(block=block, text="f", kernel=cpp_function())],
    ),
    "def_of_all": (IN_1_6(kind=LibraryKind.DEF, namespace=None, line=12), lambda _: []),
    "def_with_key": (IN_1_6(kind=LibraryKind.DEF, dispatch_key="CPU", line=13), lambda _: []),
    "fallback_without_key": (
        IN_1_6(kind=LibraryKind.IMPL, namespace=None, line=14),
        lambda block: [fall_back(block=block, kernel=cpp_function())],
    ),
    "second_library": (
        IN_1_6(kind=LibraryKind.DEF, line=15),
        lambda block: [replace(block, line=16)],
    ),
    "inferred_after_schema": (
        IN_1_6(kind=LibraryKind.DEF, line=17),
        lambda block: [
            define_operator(block=block, text="f(Tensor _0) -> Tensor _0"),
            define_operator(block=block, text="f", kernel=FUNCTION),
        ],
    ),
}


def events_of_call(name: str, release: tuple[int, int]) -> Iterator[Registration]:
    if name in BLOCKS:
        block, inside = BLOCKS[name]
        yield block
        yield from inside(block)
    elif name == "second_fallback":
        fallback = cpp_function(dispatch_key=key_in("XLA", release))
        yield from (fall_back(block=None, kernel=fallback) for _ in range(2))
    elif name == "second_class":
        yield from (register_class("abiscan.Class") for _ in range(2))
    else:
        yield from operators_of_call(name, release)


def key_in(name: str, release: tuple[int, int]) -> str:
    return name if release >= (1, 6) else f"{name}TensorId"


def operators_of_call(name: str, release: tuple[int, int]) -> Iterator[Registration]:
    for text, *functions in CALLS[name]:
        kernels, alias = [], None
        for function in functions:
            if function.startswith("="):
                alias = function[1:]
                continue
            key, called = function.split()
            mangled, inferred = CALLED[called]
            named = None if key == "-" else key_in(key, release)
            kernels.append(cpp_function(dispatch_key=named, signature=mangled, inferred=inferred))
        yield register_operator(text=text, kernels=tuple(kernels), alias_analysis=alias)


def assert_as_recorded(result: Replay, case: dict[str, Any], release: tuple[int, int]) -> None:
    failure = result.failure
    if failure is not None and failure.message is not None and failure.message.id == "L1b" and release < (2, 8):
        return  # undefined behaviour: what is recorded is a message, the end of the process, or nothing
    if case["how"] == "loads":
        assert failure is None
    else:
        assert failure is not None
        assert failure.message is not None
        assert (failure.kind is OutcomeKind.EXITS) == (case["how"] == "exits")
        said = case["message"] or ""  # some ends of the process have no words
        if "INTERNAL ASSERT FAILED" in said:
            assert "?" not in failure.message.text  # where in torch's source it is
        if failure.message.exact:
            # Some releases end a message about a schema string with a line break.
            assert failure.message.text.rstrip("\n") == said.rstrip("\n")
        else:
            pattern = re.escape(failure.message.text).replace(re.escape("?"), ".*")
            assert re.fullmatch(pattern, said, re.DOTALL)
    kept = (OutcomeKind.OVERRIDES, OutcomeKind.SKIPS)
    said = [outcome.message for outcome in result.outcomes if outcome.kind in kept]
    warnings = [message.text for message in said if message is not None]
    # 1.4 writes into both copies of its dispatch table (LeftRight.h), and warns at each.
    assert [text for text in warnings for _ in range(2 if release == (1, 4) else 1)] == [
        text for text in case["warnings"] if not text.startswith(DEPRECATED)
    ]


@pytest.mark.parametrize(("torch", "name"), cases("steps"))
def test_recorded_sequences_of_registrations(torch: str, name: str) -> None:
    case = recorded(torch, "steps", name)
    release = release_of(torch)
    assert_as_recorded(replay(state_of(torch), events_of_steps(name), release), case, release)


# What PYBIND11_MODULE of pybind11 3 does cannot be emulated yet.
NOT_EMULATED: Final = ("module_init-pybind11.so",)


@pytest.mark.parametrize(
    ("torch", "name"),
    [(torch, name) for torch, name in cases("sample") if torch.startswith("2.13") and name not in NOT_EMULATED],
)
def test_samples(torch: str, name: str) -> None:
    case = recorded(torch, "sample", name)
    events = events_of_sample(FOLDER / name)
    twice = events * 2 if "twice" in name else events
    release = release_of(torch)
    assert_as_recorded(replay(state_of(torch), twice, release), case, release)


# What a call of an operator, or a look-up, comes to: (id, operator); CUDA has the kernel.
LATER: Final = {
    "call_for_another_key": ("K6", "abiscan::f"),
    "call_without_tensors": ("K7", "abiscan::g"),
    "look_up": ("S1", "abiscan::f."),
    "look_up_undefined": ("S2", "abiscan::f."),
}


@pytest.mark.parametrize(("torch", "name"), cases("call"))
def test_calls(torch: str, name: str) -> None:
    case = recorded(torch, "call", name)
    release = release_of(torch)
    if name in LATER:
        check, operator = LATER[name]
        assert has_message(check, release) == (case["how"] == "raises")
        if case["how"] == "raises":
            key, keys = key_in("CPU", release), f"[{key_in('CUDA', release)}]"
            assert word_message(check, release, name=operator, key=key, keys=keys).text == case["message"]
        return
    there = embedded_operators.operators(torch, Machine.X86_64, ["aten::sinh"])
    state = replace(adapters.state_of(there, release, ["aten::sinh"]), libraries={}, classes=frozenset())
    assert_as_recorded(replay(state, events_of_call(name, release), release), case, release)


@pytest.mark.parametrize("built_for", ["1.4.0", "1.5.0"])
def test_the_backend_of_pytorch_issue_38973(built_for: str) -> None:
    name = f"mini_ipex/built_for_{built_for}/mini_ipex.so"
    case = recorded("1.5.0", "sample", name)
    events = events_of_sample(FOLDER / name)
    result = replay_events(state_of("1.5.0"), events, KEYS_OF_1_5)
    assert_as_recorded(result, case, (1, 5))
    assert result.failure is not None
    assert result.failure.subject == "aten::_embedding_bag"


def test_what_is_behind_a_conflict_is_what_torch_refuses_once_that_is_put_right() -> None:
    events = events_of_sample(FOLDER / "several_conflicts-none.so")
    result = replay(state_of("2.13.0+cpu"), events, (2, 13))
    behind = [outcome.message.text for outcome in result.after_failure if outcome.message is not None]
    rest = [recorded("2.13.0+cpu", "sample", f"several_conflicts-{count}.so") for count in ("one", "two", "three")]
    assert behind == [case["message"] for case in rest]


def test_a_kernel_without_an_operator_is_dead() -> None:
    events = events_of_sample(FOLDER / "impl_without_def.so")
    result = replay(state_of("2.13.0+cpu"), events, (2, 13))
    (outcome,) = result.outcomes
    assert outcome.kind is OutcomeKind.DEAD
    assert outcome.subject == "aten::refine_names"
