"""Which of its kernels an operator without arguments runs, and that the same code runs once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from abiscan.dispatch.keys import keys_of_minor
from abiscan.extension import operator_results
from abiscan.extension.operator_results import OperatorProvider, compute_result, list_providers
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.model import Closure, Module
from abiscan.registrations import NotRun, Phase, RegisteredKernel, RegisteredOperator, Registrations
from tests.world import shared_object

AT_INIT: dict[str, Any] = {"library": None, "phase": Phase.STATIC_INIT, "order": 0}


def operator(schema: str | None = "a::f() -> int", **changes: Any) -> RegisteredOperator:
    return RegisteredOperator(**{"name": "a::f", "schema": schema, "inferred": False, **AT_INIT, **changes})


def kernel(key: str | int | None = None, **changes: Any) -> RegisteredKernel:
    return RegisteredKernel(**{"operator": "a::f", "dispatch_key": key, **AT_INIT, **changes})


def provider(*records: RegisteredOperator | RegisteredKernel, version: str = "1") -> OperatorProvider:
    source: Any = SimpleNamespace(identify_version=lambda: version, open_elf=lambda: version)
    return OperatorProvider(
        source=source,
        facts=shared_object(),
        registrations=Registrations(in_order=records),
        keys=keys_of_minor((2, 13)),
        built_for=(TorchVersion("2.13.0"),),
    )


UNDEFINED, UNCLEAR = "no library of the package defines it", "which of its kernels is called is not known"


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ((operator(), kernel()), None),
        ((operator(), kernel("CompositeExplicitAutograd")), None),
        ((kernel(),), UNDEFINED),
        ((operator(name="a::g"), kernel()), UNDEFINED),
        ((operator(jit_only=True), kernel()), UNDEFINED),
        ((operator(phase=Phase.ON_CALL), kernel()), UNDEFINED),
        ((operator(), operator("a::f() -> bool"), kernel()), UNDEFINED),
        ((operator(), operator(), kernel()), None),
        ((operator(),), UNCLEAR),
        ((operator(), kernel(), kernel()), UNCLEAR),
        ((operator(), kernel("CPU")), UNCLEAR),
        ((operator(), kernel(49)), UNCLEAR),
        ((operator(), kernel(phase=Phase.ON_CALL)), UNCLEAR),
        ((operator(), kernel(), kernel(operator="a::g")), None),
    ],
)
def test_what_can_be_run(
    records: tuple[RegisteredOperator | RegisteredKernel, ...], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_results, "call_operator", lambda *_, **__: 7)
    result = compute_result([provider(*records)], "a::f", None, {})
    assert result == (NotRun(reason=reason) if reason else 7)


def test_the_same_code_runs_once_for_each_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int | None] = []
    monkeypatch.setattr(operator_results, "call_operator", lambda *_, abi_version, **__: calls.append(abi_version))
    results: dict[object, Any] = {}
    same, other = (provider(operator(), kernel(), version=version) for version in ("1", "2"))
    for registrant, torch in ((same, None), (same, "2.10.1"), (same, "2.10.1"), (same, "2.11.0"), (other, "2.11.0")):
        compute_result([registrant], "a::f", TorchVersion(torch) if torch else None, results)
    # torch/headeronly/version.h: TORCH_ABI_VERSION has the numbers in its highest bytes.
    assert calls == [None, 0x020A0100_00000000, 0x020B0000_00000000, 0x020B0000_00000000]


def test_each_library_of_a_load_registers_its_own() -> None:
    """The extension, which the files may know by another path, and what it brings along; torch's own are not asked."""
    facts, own, brought = shared_object(), Registrations(in_order=(operator(),)), Registrations(in_order=(kernel(),))
    extension, library, bare, torch = (
        Module(path=path, facts=facts) for path in ("/p/_C.so", "/p/libown.so", "/p/libbare.so", "/t/libtorch.so")
    )
    modules = (extension, library, bare, torch)
    closure = Closure(modules=modules, new=modules, needed={}, missing=())
    made: Any = SimpleNamespace(
        own=own, bundled={"libown.so": brought}, keys_built_for=keys_of_minor((2, 13)), built_for=()
    )
    files: Any = SimpleNamespace(find_source=lambda path: f"file at {path}")
    providers = dict(list_providers(cast("Any", "the file itself"), closure, made, files))
    assert [(path, str(one.source), one.registrations) for path, one in providers.items()] == [
        ("/p/_C.so", "the file itself", own),
        ("/p/libown.so", "file at /p/libown.so", brought),
    ]
