"""What ``abiscan check`` predicts of the samples that register, against what real torches did about each of them.

The record is ``expected.json`` beside the samples. Each release is known by its number; the one that is installed is
read from its own libraries, too.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.findings import Effect
from abiscan.inputs.session import Session
from abiscan.pipelines.check import check_targets
from abiscan.results.verdict import How, Verdict
from abiscan.rules import RULES
from abiscan.torches.torch import ReleaseNumber, TorchChoice, TorchOf
from abiscan.verdict.torch_set import CheckRequest
from tests import live_torch
from tests.oracle.test_samples import TORCH

FOLDER: Final = Path(__file__).parents[2] / "sample_binaries/registration_conflicts"
DEPRECATED: Final = "REGISTER_GENERATOR_PRIVATEUSE1 is deprecated."
RECORDED: Final = f"{TORCH}+cpu"
RUNS: Final = json.loads((FOLDER / "expected.json").read_text("utf-8"))["runs"]


@functools.cache
def cases() -> dict[tuple[str, str], dict[str, Any]]:
    """The recorded loads, by torch and sample."""
    return {(run["on"]["torch"], case["sample"]): case for run in RUNS for case in run["cases"] if "sample" in case}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(("torch", "sample"), cases())
def test_a_recorded_load_is_predicted_from_the_number_of_the_release(
    torch: str, sample: str, cache: Path, tmp_path: Path
) -> None:
    agree(torch, sample, ReleaseNumber(torch), cache, tmp_path)


@pytest.mark.skipif(live_torch.build() != RECORDED, reason=f"needs torch {RECORDED}; here is {live_torch.build()}")
@pytest.mark.parametrize(("torch", "sample"), [key for key in cases() if key[0] == RECORDED])
def test_a_recorded_load_is_predicted_from_the_installed_torch(
    torch: str, sample: str, cache: Path, tmp_path: Path
) -> None:
    agree(torch, sample, TorchOf(None), cache, tmp_path)


def agree(torch: str, sample: str, choice: TorchChoice, cache: Path, tmp_path: Path) -> None:
    case = cases()[torch, sample]
    paths = [FOLDER / sample]
    if "twice" in sample:
        copy = tmp_path / "copy.so"
        copy.write_bytes(paths[0].read_bytes())
        paths.append(copy)
    request = CheckRequest(targets=tuple(paths), torches=(choice,), rules=tuple(RULES))
    *before, result = check_targets(request, Session(folder=cache)).results
    assert all(each.predicted_error is None for each in before)
    error = result.predicted_error
    if case["how"] == "loads":
        assert (result.verdict, error) == (Verdict.LOADS, None)
    else:
        assert error is not None
        assert error.how == (How.RAISES if case["how"] == "raises" else How.ABORTS)
        if error.object:
            assert f"{Path(sample).parent}/{error.object}: {error.message}".endswith(case["message"])
        elif error.exact:
            assert error.message.rstrip("\n") == (case["message"] or "").rstrip("\n")
        else:
            assert all(part in case["message"] for part in error.message.split("?"))
    severe = {finding.effect for finding in result.findings if finding.effect.severity >= Effect.LOAD_FAILS.severity}
    effects = {"loads": set(), "raises": {Effect.LOAD_FAILS}, "aborts": {Effect.ABORTS}, "exits": {Effect.ABORTS}}
    assert severe == effects[case["how"]]
    assert any("(exit code 1)" in finding.message for finding in result.findings) == (case["how"] == "exits")
    for warning in case["warnings"]:
        if not warning.startswith(DEPRECATED):
            assert any(warning in str(finding.says) for finding in result.findings)


@pytest.mark.parametrize(
    ("sample", "torch", "rule"),
    [
        ("mini_ipex/built_for_1.4.0/mini_ipex.so", "1.5.0", "schema-conflict"),
        ("mini_ipex/built_for_1.4.0/mini_ipex.so", "1.5.0", "kernel-override"),
        ("duplicate_def-equal.so", TORCH, "duplicate-def"),
        ("duplicate_def-older.so", TORCH, "duplicate-def"),
        ("duplicate_library-torch.so", TORCH, "duplicate-library"),
        ("duplicate_fallback-alias.so", TORCH, "duplicate-fallback"),
        ("kernel_signature_mismatch-symint.so", TORCH, "kernel-signature-mismatch"),
        ("kernel_schema_mismatch-return_type.so", TORCH, "kernel-schema-mismatch"),
        ("impl_without_def.so", TORCH, "impl-without-def"),
        ("kernel_override.so", TORCH, "kernel-override"),
        ("library_block_misuse-kernel_key.so", TORCH, "library-block-misuse"),
        ("bad_schema_string-type.so", TORCH, "bad-schema-string"),
        ("custom_class_conflict.so", TORCH, "custom-class-conflict"),
        ("registry_conflict-key.so", TORCH, "registry-conflict"),
        ("registry_conflict-override.so", TORCH, "registry-conflict"),
        ("module_init-pybind11.so", TORCH, "duplicate-def"),
        ("dispatch_key_drift.so", TORCH, "dispatch-key-drift"),
    ],
)
def test_each_rule_fires_on_a_real_sample(sample: str, torch: str, rule: str, cache: Path) -> None:
    (result,) = check_targets(
        CheckRequest(targets=(FOLDER / sample,), torches=(ReleaseNumber(torch),), rules=tuple(RULES)),
        Session(folder=cache),
    ).results
    assert rule in {finding.rule for finding in result.findings}


def test_the_conflict_of_pytorch_issue_38973(cache: Path) -> None:
    sample = FOLDER / "mini_ipex/built_for_1.4.0/mini_ipex.so"
    request = CheckRequest(targets=(sample,), torches=(ReleaseNumber("1.5.0"),), rules=tuple(RULES))
    (result,) = check_targets(request, Session(folder=cache)).results
    (finding,) = (finding for finding in result.findings if finding.rule == "schema-conflict")
    said = cases()["1.5.0", "mini_ipex/built_for_1.4.0/mini_ipex.so"]["message"]
    assert finding.says == said
    assert "'include_last_offset': bool include_last_offset=False" in finding.message
    assert "ImportError" in finding.message
    (both,) = finding.evidence
    assert said.endswith(f"different schemas: {both.readable} vs {str(both.instead).replace('«', '').replace('»', '')}")
    request = CheckRequest(targets=(sample,), torches=(ReleaseNumber("1.4.0"),), rules=tuple(RULES))
    (loads,) = check_targets(request, Session(folder=cache)).results
    assert loads.verdict is Verdict.LOADS
    assert {finding.rule for finding in loads.findings} == {"missing-kernel"}  # it loads, and is no whole backend


def test_all_that_torch_refuses_is_in_one_finding(cache: Path) -> None:
    (result,) = check_targets(
        CheckRequest(
            targets=(FOLDER / "several_conflicts-none.so",), torches=(ReleaseNumber(TORCH),), rules=tuple(RULES)
        ),
        Session(folder=cache),
    ).results
    (finding,) = (each for each in result.findings if each.effect is Effect.ABORTS)
    assert (finding.rule, result.predicted_error and result.predicted_error.message) == ("duplicate-def", finding.says)
    rest = "once that is fixed, torch rejects 3 more: aten::sinh, aten::matrix_power, AutogradCPU"
    assert finding.message.endswith(rest)
    subjects = [evidence.subject for evidence in finding.evidence]
    assert subjects == ["aten::tanh", "several_conflicts.cpp:19", "aten::sinh", "aten::matrix_power", "AutogradCPU"]


def test_extensions_are_loaded_into_one_process(cache: Path, tmp_path: Path) -> None:
    sample = FOLDER / "duplicate_library-twice.so"
    (tmp_path / "link.so").symlink_to(sample)
    (tmp_path / "copy.so").write_bytes(sample.read_bytes())
    paths = [sample, tmp_path / "link.so", tmp_path / "copy.so"]
    request = CheckRequest(targets=tuple(paths), torches=(ReleaseNumber(TORCH),), rules=tuple(RULES))
    first, link, copy = check_targets(request, Session(folder=cache)).results
    assert [first.verdict, link.verdict, copy.verdict] == [Verdict.LOADS, Verdict.LOADS, Verdict.FAILS]
    (finding,) = copy.findings
    assert finding.rule == "duplicate-library"
    assert "duplicate_library-twice.so is loaded first" in finding.message
