"""What ``abiscan check`` predicts of the samples that register, against what real torches did about each of them.

The torch is the installed one, read from its own libraries. ``ABISCAN_TORCHES`` is a folder with ``<version>/torch``,
the packages of other releases; ``expected.json`` beside the samples is the record.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan import interpreter, scan
from abiscan.findings import Effect
from abiscan.releases.store import Store
from abiscan.report.model import How, Result, Verdict
from abiscan.rules import RULES
from tests.oracle.test_samples import TORCH, installed_torch

FOLDER: Final = Path(__file__).parents[2] / "sample_binaries/registration_conflicts"
RUNS: Final = json.loads((FOLDER / "expected.json").read_text("utf-8"))["runs"]
TORCHES: Final = os.environ.get("ABISCAN_TORCHES")


def torch_of(version: str) -> Path | None:
    """The package of a release, None if it is not here."""
    public = version.partition("+")[0]
    if public == TORCH == installed_torch():
        return interpreter.installed_torch()
    package = Path(TORCHES, public, "torch") if TORCHES else None
    return package if package and package.is_dir() else None


@cache
def cases() -> dict[tuple[str, str], dict[str, Any]]:
    """The recorded loads, by torch and sample."""
    return {(run["on"]["torch"], case["sample"]): case for run in RUNS for case in run["cases"] if "sample" in case}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


def predict(paths: list[Path], torch: Path, store: Store) -> list[Result]:
    return list(scan.check(paths, scan.torch_at(torch), RULES, store).results)


@pytest.mark.parametrize(("torch", "sample"), cases())
def test_a_recorded_load_is_predicted(torch: str, sample: str, store: Store, tmp_path: Path) -> None:
    package = torch_of(torch)
    if package is None:
        pytest.skip(f"needs torch {torch}")
    case = cases()[torch, sample]
    paths = [FOLDER / sample]
    if "twice" in sample:
        copy = tmp_path / "copy.so"
        copy.write_bytes(paths[0].read_bytes())
        paths.append(copy)
    *before, result = predict(paths, package, store)
    assert all(each.predicted_error is None for each in before)
    error = result.predicted_error
    if case["how"] == "loads":
        assert (result.verdict, error) == (Verdict.LOADS, None)
    else:
        assert error is not None
        assert error.how == (How.ABORTS if case["how"] == "aborts" else How.RAISES)
        if error.object:
            assert f"{Path(sample).parent}/{error.object}: {error.message}".endswith(case["message"])
        elif error.exact:
            assert error.message.rstrip("\n") == case["message"].rstrip("\n")
        else:
            assert all(part in case["message"] for part in error.message.split("?"))
    severe = {finding.effect for finding in result.findings if finding.effect.severity >= Effect.LOAD_FAILS.severity}
    assert severe == {"loads": set(), "raises": {Effect.LOAD_FAILS}, "aborts": {Effect.ABORTS}}[case["how"]]
    for warning in case["warnings"]:
        assert any(finding.rule == "kernel-override" and finding.says == warning for finding in result.findings)
