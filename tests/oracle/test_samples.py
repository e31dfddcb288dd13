"""Every sample, really loaded into the torch at hand, and what abiscan predicted of it."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.inputs.sources import read_target
from abiscan.pipelines.check import check_targets
from abiscan.results.check import Result
from abiscan.results.verdict import PredictedError
from abiscan.rules import RULES
from abiscan.torches.torch import TorchOf
from abiscan.verdict.torch_set import CheckRequest
from tests import live_torch
from tests.fakes import SAMPLES

TORCH: Final = "2.13.0"
EXPECTED: Final = json.loads((SAMPLES / "expected.json").read_text("utf-8"))["samples"]


def recorder() -> ModuleType:
    """``sample_binaries/record.py``, which knows how to load a sample and what to note."""
    spec = importlib.util.spec_from_file_location("sample_recorder", SAMPLES / "record.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECORD: Final = recorder()


def run_child(path: Path, mode: str, name: str, call: str) -> tuple[list[dict[str, Any]], int]:
    """As ``record.py`` does, in a process in which torch is imported already."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "PYTHON"))}
    done = live_torch.run(RECORD.CHILD, path, mode, name, call, env={**kept, "LC_ALL": "C"})
    return list(map(json.loads, done.stdout.splitlines())), done.returncode


pytestmark = pytest.mark.skipif(
    live_torch.version() != TORCH,
    reason=f"needs torch {TORCH}, for which the samples are made; here is {live_torch.build()}",
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all, since reading libtorch takes seconds."""
    return tmp_path_factory.mktemp("cache")


def predict(path: Path, cache: Path) -> Result:
    request = CheckRequest(targets=(path,), torches=(TorchOf(None),), rules=tuple(RULES))
    report = check_targets(request, Session(folder=cache))
    # The wheel brings a vendored library along, which is an extension of its own.
    return next(result for result in report.results if Path(result.path).name in {path.name, "_C.so"})


def without_folders(error: PredictedError | None) -> tuple[str, str | None, str] | None:
    return (error.how.value, error.object, RECORD.strip_folders(error.message)) if error else None


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected["sample"])
def test_what_happens_is_what_was_predicted(
    expected: dict[str, Any], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = expected["sample"]
    if sample != EXPECTED[0]["sample"]:  # which is loaded as record.py does it, from the import of torch on
        monkeypatch.setattr(RECORD, "run_child", run_child)
    real, _ = RECORD.record_sample(sample, tmp_path)
    # First of all the samples still show what they were made to show.
    assert RECORD.comparable(real) == RECORD.comparable(expected)
    result = predict(SAMPLES / expected["file"], cache)
    if sample == "missing_sibling":
        # Libraries of others are assumed to be there; the finding quotes what is said if they are not.
        assert (result.verdict.value, result.external) == ("loads", ("libabiscan_absent.so.1",))
        (finding,) = result.findings
        assert (finding.rule, finding.effect.value) == ("missing-library", "note")
        assert real["message"] in finding.message
        return
    assert result.verdict.value == real["verdict"]
    error = (real["how"], real["object"], real["message"]) if real["verdict"] == "fails" else None
    assert without_folders(result.predicted_error) == error
    assert bool(result.findings) == (error is not None or sample == "pybind11_internals")


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected["sample"])
def test_the_way_of_loading_is_what_the_file_asks_for(expected: dict[str, Any]) -> None:
    """A module with ``PyInit_`` is imported, all others are loaded; abiscan tells them apart as the record does."""
    target = read_target(SAMPLES / expected["file"], Files(), "/site", "/site/torch")
    name = Path(expected["member"] or expected["file"]).name
    (facts,) = (member.facts for member in target.extensions if Path(member.path).name == name)
    assert ("import" if facts.python_modules else "load_library") == expected["mode"]


def test_the_sample_that_loads_and_raises_when_called(cache: Path) -> None:
    (expected,) = (one for one in EXPECTED if one["sample"] == "pybind11_internals")
    result = predict(SAMPLES / expected["file"], cache)
    (finding,) = result.findings
    assert (finding.rule, finding.effect.value) == ("pybind11-internals-mismatch", "note")
    assert expected["call"]["type"] in finding.message
    assert "incompatible function arguments" in expected["call"]["message"]
    assert "incompatible function arguments" in finding.message


def test_all_undefined_symbols_of_a_sample_are_listed(cache: Path) -> None:
    # nm -uD undefined_symbol_signature.so against nm -D of torch 2.13.0; ld.so names the first of them only.
    result = predict(SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so", cache)
    assert set(result.undefined_symbols) == {
        (
            "_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEENS2_8optionalINS2_10ScalarTypeEEENS6_INS2_6LayoutEEE"
            "NS6_INS2_6DeviceEEENS6_IbEE"
        ),
        "_ZN2at4_ops8align_as4callERKNS_6TensorES4_",
    }
