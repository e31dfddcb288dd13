"""The embedded layouts against the binaries of a real torch, and what really comes of a layout that is not torch's.

The samples in ``layout_drift`` are built with the headers of torch 2.8.0 and loaded into the torch at hand.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.findings import Effect
from abiscan.inputs import interpreter
from abiscan.inputs.session import Session
from abiscan.pipelines.check import check_targets
from abiscan.results.check import Result
from abiscan.results.verdict import How, Verdict
from abiscan.rules import RULES
from abiscan.torches import layouts
from abiscan.torches.torch import ReleaseNumber
from abiscan.verdict.torch_set import CheckRequest
from tests import live_torch
from tests.fakes import SAMPLES
from tests.oracle.test_samples import TORCH

FOLDER: Final = SAMPLES / "layout_drift"
BUILT_FOR: Final = "2.8.0"
RULES_HERE: Final = ("layout-drift", "vtable-drift")

needs_torch = pytest.mark.skipif(live_torch.version() != TORCH, reason=f"needs torch {TORCH}")


def predict(name: str, folder: Path, torch: str = TORCH) -> Result:
    """What is predicted for a sample in a wheel that says what it was built for."""
    wheel = folder / "abiscan_layout-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(FOLDER / f"{name}.so", f"{name}.so")
        metadata = f"Metadata-Version: 2.1\nName: abiscan-layout\nVersion: 1.0\nRequires-Dist: torch=={BUILT_FOR}\n"
        archive.writestr("abiscan_layout-1.0.dist-info/METADATA", metadata)
    report = check_targets(
        CheckRequest(targets=(wheel,), torches=(ReleaseNumber(torch),), rules=tuple(RULES)),
        Session(folder=folder / "store"),
    )
    (result,) = report.results
    return result


def effects(result: Result) -> set[tuple[str, Effect]]:
    """What the rules on layouts find, without the notes."""
    found = {(finding.rule, finding.effect) for finding in result.findings}
    return {(rule, effect) for rule, effect in found if rule in RULES_HERE and effect is not Effect.NOTE}


def program(name: str, then: str = "") -> str:
    """A program that really loads a sample, and does something."""
    return f"import ctypes, torch\nsample = ctypes.CDLL({str(FOLDER / f'{name}.so')!r})\n{then}"


def run(name: str, then: str = "") -> subprocess.CompletedProcess[str]:
    return live_torch.run(program(name, then))


def run_cold(name: str) -> subprocess.CompletedProcess[str]:
    """Load a sample in a new process, at addresses of its own: forks of one process share theirs."""
    return subprocess.run([sys.executable, "-c", program(name)], capture_output=True, text=True, check=False)


def died(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode in {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS}


@needs_torch
def test_an_object_that_crosses_in_the_load_kills_it(tmp_path: Path) -> None:
    # What lies behind the object depends on where the system puts things: one load in twenty gets away with it.
    assert any(died(run_cold("crossing")) for _ in range(5))
    result = predict("crossing", tmp_path)
    assert result.verdict is Verdict.FAILS
    assert effects(result) == {("layout-drift", Effect.ABORTS)}
    assert result.predicted_error is not None
    assert result.predicted_error.how is How.ABORTS
    assert "torch::CppFunction" in result.predicted_error.message
    assert "96 → 104 bytes" in result.predicted_error.message


@needs_torch
def test_an_object_that_is_constructed_later_corrupts_then(tmp_path: Path) -> None:
    assert run("on_use").returncode == 0
    assert died(run("on_use", "sample.abiscan_use()"))
    result = predict("on_use", tmp_path)
    assert result.verdict is Verdict.CORRUPTS
    assert effects(result) == {("layout-drift", Effect.CORRUPTS)}
    (finding,) = [finding for finding in result.findings if finding.effect is Effect.CORRUPTS]
    assert "torch::autograd::SavedVariable (104 → 80 bytes)" in finding.message


@needs_torch
def test_torch_calls_another_virtual_function_than_it_means(tmp_path: Path) -> None:
    assert run("device_guard").returncode == 0
    # The engine asks every device guard how many devices there are, and reaches the function before that.
    real = run("device_guard", "torch.autograd.backward(torch.ones(1, requires_grad=True) * 2)")
    assert died(real)
    assert "Backend doesn't support querying streams" in real.stderr
    result = predict("device_guard", tmp_path)
    assert result.verdict is Verdict.CORRUPTS
    assert ("vtable-drift", Effect.CORRUPTS) in effects(result)
    (finding,) = [finding for finding in result.findings if finding.rule == "vtable-drift"]
    slots = {one.readable: one.instead for one in finding.evidence}
    assert slots["slot 15: queryStream"] == "deviceCount"


@pytest.mark.parametrize("name", ["crossing", "on_use", "device_guard"])
def test_nothing_is_wrong_on_the_torch_that_it_was_built_for(name: str, tmp_path: Path) -> None:
    result = predict(name, tmp_path, BUILT_FOR)
    assert result.verdict is Verdict.LOADS
    assert effects(result) == set()


@needs_torch
@pytest.mark.parametrize("library", ["libc10.so", "libtorch_cpu.so"])
def test_virtual_tables_have_the_sizes_of_the_binary(library: str) -> None:
    package = interpreter.installed_torch()
    assert package is not None
    symbols = ElfFile.open(package / "lib" / library).facts().symbols
    compared = 0
    for known in layouts.list_classes(TORCH, Machine.X86_64):
        table = layouts.find_vtable(known.name, TORCH, Machine.X86_64)
        path = "".join(f"{len(part)}{part}" for part in known.name.split("::"))
        found = symbols.find(f"_ZTVN{path}E")
        if table is not None and found:
            compared += 1
            # In front of the slots stand the offset to the top and the type information.
            assert found[0].size == 8 * (2 + len(table.slots)), known.name
    assert compared >= {"libc10.so": 10, "libtorch_cpu.so": 100}[library]
