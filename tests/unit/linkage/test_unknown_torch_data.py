"""What is said about data of a torch that are missing where an extension depends on them."""

from __future__ import annotations

from typing import Any, Final

import msgspec.structs
import pytest

from abiscan.dispatch.operators import KEYS, TAGS, Rewording
from abiscan.findings import Rule
from abiscan.inputs.version import MinorVersion, TorchVersion
from abiscan.linkage.layout_drift import LayoutDrift
from abiscan.linkage.registering import Registering
from abiscan.linkage.unknown_torch_data import Lack, TorchData, _assumptions, lacks_of
from abiscan.rules import RULES
from tests.registrations import registering

ENTERS: Final[dict[str, Any]] = {
    "registers": [{"enter": "C10FlagsRegistry", "key": "my_flag", "priority": 1}],
    "has": {},
}
DEFINES_AGAIN: Final[dict[str, Any]] = {
    "registers": [{"library": "TORCH_LIBRARY", "namespace": "aten"}, {"def": "f() -> ()"}],
    "has": {"namespaces": ["aten"], "entries": []},
}
FOR_WHAT_PYTHON_DEFINES: Final[dict[str, Any]] = {
    "registers": [{"library": "TORCH_LIBRARY_IMPL", "namespace": "prims", "key": "CPU"}, {"impl": "abs"}],
    "has": {"namespaces": ["aten"], "entries": []},
}


def made(case: dict[str, Any], **changes: Any) -> Registering:
    result = registering(case, "_C.so", TorchVersion("2.13.0"))
    assert result is not None
    assert result.operators is not None
    return msgspec.structs.replace(result, operators=msgspec.structs.replace(result.operators, **changes))


def lacks(registered: Registering, release: str = "2.16.0") -> list[Lack]:
    return list(lacks_of(f"torch {release}", TorchVersion(release), (), registered))


def test_a_torch_of_which_everything_is_known() -> None:
    assert lacks(made(DEFINES_AGAIN)) == []
    assert lacks(made({**ENTERS, "has": {"entries": [["C10FlagsRegistry", "other", 1]]}})) == []


def test_unknown_entries_decide() -> None:
    (lack,) = lacks(made(ENTERS))
    assert (lack.data, lack.decides) == (TorchData.ENTRIES, True)
    assert "C10FlagsRegistry" in lack.reason


def test_unknown_entries_of_registries_that_nobody_fills_do_not_matter() -> None:
    assert lacks(made(DEFINES_AGAIN, entries=None)) == []


def test_operators_that_could_not_be_read() -> None:
    (lack,) = lacks(made(DEFINES_AGAIN, gaps=("libtorch_cpu.so: damaged",)))
    assert (lack.data, lack.decides) == (TorchData.OPERATORS, False)


def test_without_the_operators_of_a_torch_nothing_is_said_about_them() -> None:
    found = registering({"registers": ENTERS["registers"]}, "_C.so", TorchVersion("2.13.0"))
    assert found is not None
    assert (found.operators, lacks(found)) == (None, [])


def unknown_layouts(**fields: Any) -> LayoutDrift:
    known: dict[str, Any] = {"candidates": ("2.5.1",), "types": (), "tables": (), "doubts": ()}
    return LayoutDrift(**{"name": "_C.so", "built_for": "2.5.1", "unknown": ("at::Tensor",), **known, **fields})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "_C.so shares at::Tensor with torch 9.9, whose layouts there are unknown"),
        (
            {"why_unknown": "no compiler"},
            "_C.so shares at::Tensor with torch 9.9, whose layouts there are unknown (no compiler)",
        ),
        ({"candidates": ()}, "_C.so shares at::Tensor with torch 9.9, but what it was built for is unknown"),
    ],
)
def test_classes_whose_layout_is_unknown(fields: dict[str, Any], said: str) -> None:
    assert [lack.reason for lack in lacks_of("torch 9.9", None, (unknown_layouts(**fields),), None)] == [said]


@pytest.mark.parametrize(
    ("at_load", "decides"), [((), False), (("at::Tensor",), True), (("torch::CppFunction",), False)]
)
def test_a_class_whose_layout_is_unknown_decides_if_it_is_passed_at_load(
    at_load: tuple[str, ...], decides: bool
) -> None:
    (lack,) = lacks_of("torch 9.9", None, (unknown_layouts(unknown_at_load=at_load),), None)
    assert (lack.data, lack.decides) == (TorchData.LAYOUTS, decides)


def test_a_predicted_error_whose_text_the_torch_does_not_have() -> None:
    registered = made(DEFINES_AGAIN)
    assert registered.failure is not None
    assert registered.failure.outcome.message is not None
    id_ = registered.failure.outcome.message.id
    (lack,) = lacks(made(DEFINES_AGAIN, unworded=frozenset({id_})))
    assert "does not have the text of the predicted error" in lack.reason
    assert lacks(made(DEFINES_AGAIN, unworded=frozenset({"K1"} - {id_}))) == []


@pytest.mark.parametrize(("absent", "said"), [(False, "words the predicted error"), (True, "does not have the text")])
def test_a_predicted_error_that_the_torch_words_differently(said: str, *, absent: bool) -> None:
    ids = frozenset({"N1"}) if absent else frozenset()
    rewording = Rewording("Only a single ", " Not more than one ")
    (lack,) = lacks(made(DEFINES_AGAIN, unworded=ids, reworded={"N1": (rewording,)}))
    assert not lack.decides
    assert said in lack.reason
    assert '"Not more than one" instead of "Only a single"' in lack.reason
    assert lacks(made(DEFINES_AGAIN, reworded={"K1": (rewording,)})) == []


def test_where_torch_checks_something_is_known_of_its_releases() -> None:
    opens = {"library": "TORCH_LIBRARY_FRAGMENT", "namespace": "ns", "key": "CPU"}  # an internal assertion fails
    case = {"registers": [opens], "has": {"namespaces": ["aten"], "entries": []}}
    (lack,) = lacks(made(case, build=None))
    assert (lack.data, lack.decides) == (TorchData.OPERATORS, False)
    assert lack.reason.startswith("where torch 2.16.0 checks this is not known")
    assert lacks(made(case, build="2.13.0+cpu")) == []
    assert lacks(made(DEFINES_AGAIN, build=None)) == []  # no assertion


@pytest.mark.parametrize(("at_load", "decides"), [((), False), (("c10::Error",), True), (("at::Tensor",), False)])
def test_a_class_with_another_string_decides_if_it_is_passed_at_load(at_load: tuple[str, ...], decides: bool) -> None:
    drift = LayoutDrift(
        name="_C.so", built_for="2.5.1", candidates=("2.5.1",), types=(), tables=(), doubts=(),
        uncompared=("c10::Error",), unknown_at_load=at_load,
    )  # fmt: skip
    (lack,) = lacks_of("torch 2.9.1", TorchVersion("2.9.1"), (drift,), None)
    assert (lack.data, lack.decides) == (TorchData.LAYOUTS, decides)
    assert "the layout that it has of c10::Error is unknown" in lack.reason


@pytest.mark.parametrize(("minor", "is_known"), [((2, 13), True), ((2, 99), False)])
def test_what_a_torch_accepts_is_known_of_its_releases(minor: MinorVersion, is_known: bool) -> None:
    """Whether a second fallback of a key is one too many, and whether a word in a schema is a type."""
    library = {"library": "TORCH_LIBRARY", "namespace": "ns"}
    wildcard = {"library": "TORCH_LIBRARY_IMPL", "namespace": "_", "key": "Meta"}
    twice = [wildcard, {"fallback": None}, wildcard, {"fallback": None}]
    word = [library, {"def": "f(NoSuchType x) -> ()"}]
    for steps, said in ((twice, "accepts a second fallback for"), (word, "types it reads in a schema")):
        found = registering({"registers": steps, "has": {"entries": []}}, "_C.so", TorchVersion("2.13.0"))
        assert found is not None
        assert found.operators is not None
        of_this = msgspec.structs.replace(found, keys=msgspec.structs.replace(found.keys, minor=minor))
        reasons = [lack.reason for lack in _assumptions("it", of_this, found.operators)]
        assert any(said in reason for reason in reasons) is not is_known


META_TWICE: Final = [
    {"library": "TORCH_LIBRARY_IMPL", "namespace": "_", "key": "Meta"}, {"fallback": None},
] * 2  # fmt: skip
NO_TYPE: Final = [{"library": "TORCH_LIBRARY", "namespace": "ns"}, {"def": "f(NoSuchType x) -> ()"}]
STABLE_KERNEL: Final = [
    {"library": "TORCH_LIBRARY", "namespace": "ns"},
    {"def": "f(Storage x) -> Storage"},
    {"impl": "f", "key": "CPU", "abi_version": "0x020d000000000000"},
]
KERNEL_OVER_TORCH_S: Final[list[dict[str, Any]]] = [
    {"library": "TORCH_LIBRARY_IMPL", "namespace": "aten", "key": "CPU"},
    {"impl": "abs"},
]
HAS_ABS: Final[dict[str, Any]] = {
    "namespaces": ["aten"],
    "schemas": {"aten::abs": "aten::abs(Tensor x) -> Tensor"},
    "entries": [],
}
NAMESPACE_TWICE: Final = [{"library": "TORCH_LIBRARY", "namespace": "aten"}]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (META_TWICE, [("whether it accepts a second fallback for Meta", True)]),  # the load fails, or does not
        (NO_TYPE, [("which types it reads in a schema", True)]),
        (STABLE_KERNEL, [("which types cross the stable ABI of it", False)]),  # only calls fail
        (KERNEL_OVER_TORCH_S, []),  # replacing a kernel has been a warning since 1.5
        (NAMESPACE_TWICE, []),  # rejected for another reason
    ],
)
def test_what_is_unknown_about_a_torch_that_is_newer_than_all_that_is_known(
    steps: list[dict[str, Any]], expected: list[tuple[str, bool]]
) -> None:
    has = {**HAS_ABS, "kernels": [["aten::abs", "CPU", None, None]]}

    found = registering({"registers": steps, "has": has}, "_C.so", TorchVersion("2.13.0"))
    assert found is not None
    assert found.operators is not None
    newer = msgspec.structs.replace(found, keys=msgspec.structs.replace(found.keys, minor=(2, 99)))
    said = [(lack.reason, lack.decides) for lack in _assumptions("it", newer, found.operators)]
    assert len(said) == len(expected)
    for (reason, decides), (begins, decisive) in zip(said, expected, strict=True):
        assert reason.startswith(begins)
        assert decides is decisive


@pytest.mark.parametrize(("minor", "said"), [((2, 13), 0), ((2, 99), 1)])
def test_a_fallback_that_replaces_another_one(minor: MinorVersion, said: int) -> None:
    """``registerFallback`` of Sparse, which stands for several backends: torch 2.13 was seen to accept it again."""
    steps = [{"library": "TORCH_LIBRARY_IMPL", "namespace": "_", "key": "Sparse"}, {"fallback": None}]
    found = registering({"registers": steps * 2, "has": {"entries": []}}, "_C.so", TorchVersion("2.13.0"))
    assert found is not None
    assert found.operators is not None
    of_this = msgspec.structs.replace(found, keys=msgspec.structs.replace(found.keys, minor=minor))
    assert found.failure is None
    reasons = [lack.reason for lack in _assumptions("it", of_this, found.operators)]
    assert [reason.partition(" is not known")[0] for reason in reasons] == [
        "whether it accepts a second fallback for Sparse"
    ] * said


NUMBERED_KEY: Final = [{"library": "TORCH_LIBRARY_IMPL", "namespace": "aten", "key": 5}, {"impl": "abs"}]
BACKEND: Final = {"key": "PrivateUse1", "core": ["aten::abs"]}


@pytest.mark.parametrize(
    ("steps", "backend", "assumed", "expected"),
    [
        (NUMBERED_KEY, None, {KEYS}, [("which number stands for which dispatch key in it", True)]),
        (NUMBERED_KEY, None, {TAGS}, []),
        (KERNEL_OVER_TORCH_S, None, {KEYS, TAGS}, []),  # neither a number nor a backend
        (KERNEL_OVER_TORCH_S, BACKEND, {TAGS}, [("which operators of it are core", False)]),
        (KERNEL_OVER_TORCH_S, BACKEND, {KEYS}, []),
        (KERNEL_OVER_TORCH_S, BACKEND, set(), []),
    ],
)
def test_what_the_files_of_a_torch_do_not_tell(
    steps: list[dict[str, Any]],
    backend: dict[str, Any] | None,
    assumed: set[str],
    expected: list[tuple[str, bool]],
) -> None:
    registered = made({"registers": steps, "has": HAS_ABS, "backend": backend}, assumed=frozenset(assumed))
    assert registered.operators is not None
    said = [(lack.reason, lack.decides) for lack in _assumptions("it", registered, registered.operators)]
    assert [(reason.partition(" is not known")[0], decides) for reason, decides in said] == expected


def test_operators_that_the_python_code_of_a_torch_may_define() -> None:
    (lack,) = lacks(made(FOR_WHAT_PYTHON_DEFINES))
    assert (lack.data, lack.decides) == (TorchData.OPERATORS, False)
    assert lack.reason == "what Python code of torch 2.16.0 registers is not recorded: it may define prims::abs"
    assert lacks(made(FOR_WHAT_PYTHON_DEFINES), "2.13.0") == []


def test_each_kind_of_data_is_needed_by_some_rule() -> None:
    needing: dict[TorchData, list[Rule]] = {data: [rule for rule in RULES if data in rule.needs] for data in TorchData}
    assert [rule.name for rule in needing[TorchData.LAYOUTS]] == ["layout-drift", "vtable-drift"]
    assert [rule.name for rule in needing[TorchData.ENTRIES]] == ["registry-conflict"]
    assert {"schema-conflict", "duplicate-library", "kernel-override"} <= {
        rule.name for rule in needing[TorchData.OPERATORS]
    }
