from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from packaging.version import Version

import abiscan
from abiscan.cache import cache_folder
from abiscan.extension import inventory
from abiscan.extension.examined import examine
from abiscan.extension.inventory import Inventory
from abiscan.inputs.session import Session
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import LibraryKind, Phase, RegisteredKernel, Registrations

SAMPLES = Path(__file__).resolve().parents[3] / "sample_binaries"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(folder=tmp_path / "cache")


def inventories(path: Path, session: Session) -> list[Inventory]:
    return [each.inventory for each in examine(path, session).extensions]


def test_recovers_what_the_source_of_a_sample_registers(session: Session) -> None:
    # sample_binaries/loads/loads.cpp has one TORCH_LIBRARY with one def, one TORCH_LIBRARY_IMPL with one impl.
    (found,) = inventories(SAMPLES / "loads" / "loads.so", session)
    registrations = found.registrations
    assert [library.kind for library in registrations.libraries] == [LibraryKind.DEF, LibraryKind.IMPL]
    assert {library.namespace for library in registrations.libraries} == {"abiscan_loads"}
    assert [operator.name for operator in registrations.operators] == ["abiscan_loads::double_it"]
    (kernel,) = registrations.kernels
    assert isinstance(kernel.dispatch_key, int)
    assert (kernel.operator, found.keys.name(kernel.dispatch_key)) == ("abiscan_loads::double_it", "CPU")
    assert kernel.phase is Phase.STATIC_INIT
    assert found.gaps == ()


@pytest.mark.parametrize("sample", ["backend.so", "classes.so", "expressions_aarch64.so", "legacy_1_4_0.so"])
def test_a_file_is_emulated_once(
    sample: str, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is: what it registers is kept by its bytes."""
    before = inventories(SAMPLES / "registrations" / sample, session)
    copy = tmp_path / "copy.so"
    copy.write_bytes((SAMPLES / "registrations" / sample).read_bytes())
    monkeypatch.setattr("abiscan.extension.inventory.recover", None)
    (found,) = inventories(copy, session)
    assert [found.registrations] == [each.registrations for each in before]


def test_the_sample_was_built_for_the_torch_that_it_was_built_for(session: Session) -> None:
    (found,) = inventories(SAMPLES / "loads" / "loads.so", session)
    assert Version("2.13.0") in found.built_for
    assert Version("2.6.0") not in found.built_for


def test_reads_every_extension_of_a_wheel(session: Session) -> None:
    found = inventories(SAMPLES / "wheels" / "abiscan_sample-1.0-py3-none-linux_x86_64.whl", session)
    assert [operator.name for each in found for operator in each.registrations.operators] == ["abiscan_sample::scale"]


def test_an_extension_that_registers_nothing_has_an_empty_inventory(session: Session) -> None:
    (found,) = inventories(SAMPLES / "weak_reference" / "weak_reference.so", session)
    assert (found.registrations.operators, found.registrations.kernels, found.gaps) == ((), (), ())


@pytest.mark.parametrize(("release", "number"), [("1_11_0", "1.11.0"), ("1_12_1", "1.12.1")])
def test_objects_of_torch_are_as_long_as_in_the_torch_it_was_built_for(
    release: str, number: str, session: Session
) -> None:
    """A ``c10::Argument`` is 16 bytes longer in 1.12 than in 1.11, which nothing in the file says: read with the other
    length, the first method of a class already throws. Both samples are what sample_binaries/registrations/classes.cpp
    says, and load in the torch that they were built for.
    """
    (found,) = inventories(SAMPLES / "registrations" / f"classes_{release}.so", session)
    assert Version(number) in found.built_for
    assert {known.name: known.methods for known in found.registrations.classes} == {
        "class_sample.Plain": ("__init__",),
        "class_sample.Stack": ("__init__", "push", "size", "__getstate__", "__setstate__"),
    }
    assert {kernel.operator for kernel in found.registrations.kernels} == {"class_sample::use", "class_sample::make"}
    assert found.gaps == ()


def test_a_kernel_without_a_schema_of_1_12(session: Session) -> None:
    (found,) = inventories(SAMPLES / "registrations" / "legacy_1_12_1.so", session)
    schemas = {operator.name: operator.schema for operator in found.registrations.operators}
    assert schemas["legacy::power"] == "legacy::power(Tensor _0, int _1, bool _2) -> Tensor _0"
    assert found.gaps == ()


def with_kernels(registrations: Registrations, **changes: Any) -> Registrations:
    """The same, and its kernels, which come without definitions, changed."""
    changed = (replace(it, **changes) if isinstance(it, RegisteredKernel) else it for it in registrations.in_order)
    return replace(registrations, in_order=tuple(changed))


def test_a_schema_that_cannot_be_read_is_a_gap_and_no_error(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    """Whatever the emulator makes of a type that nobody has seen yet."""
    (whole,) = inventories(SAMPLES / "loads" / "loads.so", session)
    strange = with_kernels(whole.registrations, inferred_schema="(<new type> _0) -> ()")
    cache_folder.delete_all(session.folder)
    monkeypatch.setattr("abiscan.extension.inventory.recover", lambda *_: strange)
    (found,) = inventories(SAMPLES / "loads" / "loads.so", session)
    assert [each.inferred_schema for each in found.registrations.kernels] == [None]
    assert [gap.reason for gap in found.gaps] == [
        "the schema inferred for abiscan_loads::double_it cannot be parsed: (<new type> _0) -> ()"
    ]


def test_a_key_that_the_release_does_not_have_is_a_gap(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    (read,) = inventories(SAMPLES / "loads" / "loads.so", session)
    damaged = with_kernels(read.registrations, dispatch_key=190)
    cache_folder.delete_all(session.folder)
    monkeypatch.setattr("abiscan.extension.inventory.recover", lambda *_: damaged)
    (found,) = inventories(SAMPLES / "loads" / "loads.so", session)
    (gap,) = found.gaps
    assert (gap.stage, gap.reason) == ("keys", "registers for dispatch key 190, which torch 2.13.0 does not have")


@pytest.mark.parametrize(
    ("number", "built_for", "reasons"),
    [
        # c10/core/DispatchKey.h: 12 is Python in 2.9 and Fake in 2.13, 2 is FPGA in both.
        (12, ("2.9.1", "2.13.0"), ["may be built for torch 2.9.1-2.13.0, which number dispatch keys differently"]),
        (2, ("2.9.1", "2.13.0"), []),
        (12, ("2.13.0",), []),
        (2, (), ["built for an unknown torch"]),
    ],
)
def test_releases_that_number_keys_differently(number: int, built_for: tuple[str, ...], reasons: list[str]) -> None:
    gaps = inventory._doubts_about_keys([number], tuple(map(TorchVersion, built_for)), TorchVersion("2.13.0"))
    assert [gap.reason.partition("; ")[0] for gap in gaps] == reasons


def test_types_that_contradict_each_other_are_a_gap_and_no_finding(
    monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    """A schema misread like this one was predicted to abort on the torch that the extension was built for."""
    path = SAMPLES / "loads" / "loads.so"
    (whole,) = inventories(path, session)
    (kernel,) = whole.registrations.kernels
    assert kernel.inferred_schema == "(Tensor _0) -> Tensor _0"
    strange = with_kernels(whole.registrations, inferred_schema="(bool _0) -> Tensor _0")
    cache_folder.delete_all(session.folder)
    monkeypatch.setattr("abiscan.extension.inventory.recover", lambda *_: strange)
    (result,) = abiscan.check(path, "2.13.0", session=session).results
    assert (result.verdict, result.predicted_error) == (abiscan.Verdict.LOADS, None)
    assert [finding.rule for finding in result.findings] == ["unread-registration"]
    (gap,) = (gap for gap in result.gaps if gap.stage == "dispatch")
    assert gap.reason == (
        "the schema inferred for abiscan_loads::double_it contradicts its C++ type: "
        "argument 1 is at::Tensor const& in C++, bool in the schema"
    )
