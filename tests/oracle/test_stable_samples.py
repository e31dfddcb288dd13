"""What is said about extensions of the stable ABI, against what a real torch does when their operators are called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import abiscan
from abiscan import Effect, Finding, Verdict
from tests import live_torch

SAMPLES = Path(__file__).resolve().parents[2] / "sample_binaries" / "stable"
TORCH = "2.13.0"


def findings(sample: str, torch: str = TORCH) -> tuple[Verdict, dict[str, Finding]]:
    result = abiscan.check(SAMPLES / sample, torch).results[0]
    return result.verdict, {finding.rule: finding for finding in result.findings}


def call(sample: str, expression: str) -> subprocess.CompletedProcess[str]:
    program = (
        f"import torch; torch.ops.load_library({str(SAMPLES / sample)!r}); print('loaded', flush=True); {expression}"
    )
    return live_torch.run(program)


def test_a_call_with_fewer_arguments_than_the_operator_has_now_is_said_to_corrupt() -> None:
    verdict, found = findings("call_by_name.so")
    assert verdict is Verdict.CORRUPTS
    mismatch = found["stable-call-mismatch"]
    assert mismatch.effect is Effect.CORRUPTS
    assert "torch reads 5 arguments from an array of 4" in mismatch.message


def test_the_note_names_the_headers_and_no_target_version() -> None:
    _, found = findings("scalar_argument.so")
    assert "layout-drift" not in found
    assert "compiled with the headers of torch 2.10.0" in found["stable-abi"].message
    assert "needs torch 2.10.0 or newer" in found["stable-abi"].message


def test_a_type_that_does_not_cross_is_said_to_make_the_call_fail() -> None:
    verdict, found = findings("scalar_argument.so")
    assert verdict is Verdict.LOADS
    unsupported = found["stable-type-unsupported"]
    assert unsupported.effect is Effect.CALL_FAILS
    assert [evidence.subject for evidence in unsupported.evidence] == ["abiscan_scalar_argument::scale"]


@pytest.mark.skipif(live_torch.version() != TORCH, reason=f"needs torch {TORCH} in this interpreter")
def test_the_call_really_kills_the_process() -> None:
    arguments = "torch.zeros(1, 1, dtype=torch.long), torch.ones(1), [2]"
    run = call("call_by_name.so", f"torch.ops.abiscan_call_by_name.validate({arguments}); print('done')")
    assert run.stdout == "loaded\n"
    assert run.returncode < 0  # a signal: SIGSEGV or SIGBUS


@pytest.mark.skipif(live_torch.version() != TORCH, reason=f"needs torch {TORCH} in this interpreter")
def test_the_message_is_the_real_one() -> None:
    says = findings("scalar_argument.so")[1]["stable-type-unsupported"].says
    run = call("scalar_argument.so", "torch.ops.abiscan_scalar_argument.scale(torch.ones(2), 2.0)")
    assert run.stdout == "loaded\n"
    assert run.stderr.rstrip().endswith(f"RuntimeError: {says}")
    fine = call("scalar_argument.so", "print(torch.ops.abiscan_scalar_argument.same(torch.ones(2), 2.0).tolist())")
    assert fine.stdout == "loaded\n[1.0, 1.0]\n"
