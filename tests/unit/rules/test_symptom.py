"""What users see who ignore the load error: the words of torch's ``_ops.py``, release by release."""

from __future__ import annotations

from typing import Any

import pytest

from abiscan.rules.symptom import describe_symptom
from tests import world


def told(version: str, *steps: dict[str, Any], has: dict[str, Any] | None = None) -> str | None:
    case: dict[str, Any] = {
        "extension": world.EXTENSION,
        "objects": {world.EXTENSION: {"needed": ["libtorch_cpu.so"]}},
        "torch": {**world.BASE["torch"], "build": version},
    }
    if steps:
        case |= {"registers": [{"library": "TORCH_LIBRARY", "namespace": "ns"}, *steps]}
    if has is not None:
        case["has"] = has
    return describe_symptom(world.linkage(case).load)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.11.0", "RuntimeError: No such operator ns::f"),
        ("1.12.0", "AttributeError: '_OpNamespace' object has no attribute 'f'"),
        ("1.13.0", "AttributeError: '_OpNamespace' 'ns' object has no attribute 'f'"),
        (
            "2.0.0",
            (
                "RuntimeError: operator ns::f does not exist, "
                "or AttributeError: '_OpNamespace' 'ns' object has no attribute 'f'"
            ),
        ),
    ],
)
def test_the_words_of_a_release(version: str, expected: str) -> None:
    assert told(version, {"def": "f(Tensor x) -> Tensor"}) == f"code that ignores the load error fails with {expected}"


def test_who_defines_nothing_has_no_symptom() -> None:
    assert told("2.9.1") is None
    assert told("2.9.1", {"impl": "f", "key": "CPU"}) is None


def test_a_name_without_a_namespace_has_no_symptom() -> None:
    nameless = {"library": "TORCH_LIBRARY", "namespace": None}
    assert told("2.9.1", nameless, {"def": "f(Tensor x) -> Tensor"}) is None


def test_what_only_a_later_call_defines_is_not_missed() -> None:
    assert told("2.9.1", {"def": "f(Tensor x) -> Tensor", "phase": "on-call"}) is None
    both = [{"def": "g(Tensor x) -> Tensor"}, {"def": "f(Tensor x) -> Tensor", "phase": "on-call"}]
    assert "ns::f" not in (told("2.9.1", *both) or "")


def test_what_torch_has_itself_is_there_all_the_same() -> None:
    has = {"schemas": {"ns::f": "ns::f(Tensor x) -> Tensor"}, "namespaces": ["aten"]}
    assert told("2.9.1", {"def": "f(Tensor x) -> Tensor"}, has=has) is None


def test_public_operators_come_first_each_name_once() -> None:
    names = ["_hidden", "f", "f.out", "g"]
    found = told("1.11.0", *({"def": f"{name}(Tensor x) -> Tensor"} for name in names))
    assert (
        found
        == "code that ignores the load error fails with RuntimeError: No such operator ns::f | No such operator ns::g"
    )
    hidden = told("1.11.0", {"def": "_hidden(Tensor x) -> Tensor"})
    assert hidden == "code that ignores the load error fails with RuntimeError: No such operator ns::_hidden"


@pytest.mark.parametrize(("count", "end"), [(8, "ns::f7"), (9, "ns::f7; the same for 1 more")])
def test_eight_are_named(count: int, end: str) -> None:
    found = told("1.11.0", *({"def": f"f{number}(Tensor x) -> Tensor"} for number in range(count)))
    assert found is not None
    assert found.endswith(f"No such operator {end}")
