from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest
from click.testing import CliRunner
from rich.console import Console

import abiscan
from abiscan.cli import main
from abiscan.report import coverage_text
from tests.fakes import torch_package
from tests.schemas import validate

SAMPLES = Path(__file__).resolve().parents[3] / "sample_binaries"
BACKEND = str(SAMPLES / "coverage" / "backend.so")
WITH_FALLBACK = str(SAMPLES / "coverage" / "backend_with_fallback.so")
RENAMED = str(SAMPLES / "registrations" / "backend.so")
ISSUE = str(SAMPLES / "registration_conflicts" / "mini_ipex" / "built_for_1.4.0" / "mini_ipex.so")


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["coverage", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def report(*arguments: str, code: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(*arguments, "--format", "json", code=code))
    validate(document, "coverage")
    return document


@pytest.mark.parametrize(("file", "system"), [("loads.pyd", "Windows"), ("missing_symbol.so", "macOS")])
def test_what_files_for_other_systems_register_is_not_read(file: str, system: str) -> None:
    printed = run(str(SAMPLES / "images" / file), "--torch", "2.13.0", code=2)
    assert f"{file}: is for {system}; what such files register is not read (pass its build for Linux)" in printed


def test_gaps_that_differ_in_an_operator_alone_are_grouped(capsys: pytest.CaptureFixture[str]) -> None:
    found = abiscan.coverage(BACKEND, "2.13.0")
    gaps = [f"a.so: the schema that torch infers for aten::{name} has an unknown type" for name in ("a", "b.out", "c")]
    gaps += ["a.so: calls c10::Symbol::f with a name that is not a constant"] * 2
    gaps += ["a.so: calls c10::Symbol::g with a name that is not a constant"]
    more = "more like it; use -v to show all)"
    for verbose, shown in ((False, [f"{gaps[0]} (and 2 {more}", f"{gaps[3]} (and 1 {more}", gaps[5]]), (True, gaps)):
        page = Console(width=400)
        coverage_text.render_coverage(msgspec.structs.replace(found, gaps=tuple(gaps)), page, verbose=verbose)
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("gap: ")]
        assert lines == [f"gap: {line}" for line in shown]


def test_names_are_in_one_line_where_there_is_no_terminal() -> None:
    lines = run(BACKEND, "--torch", "2.13.0").splitlines()
    (line,) = (line for line in lines if line.startswith("aten::set_.source_Storage_s"))
    assert line.split() == ["aten::set_.source_Storage_storage_offset", "essential"]


def test_the_backend_of_pytorch_issue_38973() -> None:
    """What torch 1.5.0 raises is recorded: see sample_binaries/registration_conflicts/README.md."""
    document = report(ISSUE, "--torch", "1.5.0", code=1)  # it does not load
    assert document["load_error"].startswith("Tried to register multiple operators with the same name")
    assert document["backend"] == "XLATensorId"
    assert "dispatch key 10" in document["notes"][0]
    (tanh,) = (each for each in document["missing"] if each["operator"] == "aten::tanh")
    assert tanh["message"] == (
        "Could not run 'aten::tanh' with arguments from the 'XLATensorId' backend. 'aten::tanh' is only available for "
        "these backends: [CPUTensorId, CUDATensorId, QuantizedCPUTensorId, VariableTensorId]."
    )
    assert tanh["exact"]


def test_the_most_used_operators_come_first() -> None:
    document = report(BACKEND, "--torch", "2.13.0")
    assert (document["backend"], document["kernels"], document["fallback"]) == ("PrivateUse1", 5, False)
    missing = document["missing"]
    marks = [(each["essential"], each["core"], each["general"]) for each in missing]
    assert marks == sorted(marks, reverse=True)
    assert missing[0]["essential"]
    reached = {each["operator"]: each["reached_from"] for each in missing}
    assert reached["aten::tanh.out"] == ["aten::tanh", "aten::tanh_"]
    assert "aten::add.out" not in reached


def test_a_fallback_leaves_nothing_out() -> None:
    document = report(WITH_FALLBACK, "--torch", "2.13.0")
    assert document["fallback"]
    assert document["missing"] == []
    assert "every operator has a kernel" in run(WITH_FALLBACK, "--torch", "2.13.0")


def test_a_backend_that_renames_itself() -> None:
    document = report(RENAMED, "--torch", "2.13.0", "--backend", "sample_device", code=1)  # it is not linked with torch
    assert (document["backend"], document["backend_name"]) == ("PrivateUse1", "sample_device")
    assert "from the 'sample_device' backend" in document["missing"][0]["message"]


def test_another_backend(tmp_path: Path) -> None:
    assert report(BACKEND, "--torch", "2.13.0", "--backend", "cpu")["backend"] == "CPU"
    assert "is not a dispatch key of this torch" in run(BACKEND, "--torch", "2.13.0", "--backend", "TPU", code=2)
    without_keys = str(torch_package(tmp_path))
    assert "(none could be read in it; pass a released torch)" in run(BACKEND, "--torch", without_keys, code=2)


def test_a_workload_limits_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "operators.txt"
    path.write_text("aten::add.Tensor\naten::tanh\naten::gone\n")
    document = report(BACKEND, "--torch", "2.13.0", "--workload", str(path))
    assert [each["operator"] for each in document["missing"]] == ["aten::tanh.out"]
    assert document["unknown"] == ["aten::gone"]
    path.write_text("aten::add.Tensor\n")
    run(BACKEND, "--torch", "2.13.0", "--workload", str(path), "--fail-on", "call-fails")
    path.write_text("aten::tanh\n")
    run(BACKEND, "--torch", "2.13.0", "--workload", str(path), "--fail-on", "call-fails", code=1)


@pytest.mark.parametrize("name", ["loads/loads.so", "weak_reference/weak_reference.so"])
def test_what_brings_no_backend(name: str) -> None:
    found = CliRunner().invoke(main, ["coverage", str(SAMPLES / name), "--torch", "2.13.0"])
    assert found.exit_code in (0, 2)
    assert found.exit_code == 0 or "name one with --backend KEY" in found.output


def test_text_names_the_operators_and_what_torch_says() -> None:
    text = run(BACKEND, "--torch", "2.13.0")
    assert "aten::as_strided" in text
    assert "torch says: Could not run 'aten::_local_scalar_dense'" in text
    assert "more (use -v to show all)" in text


def test_a_target_without_kernels_is_named() -> None:
    target = str(SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so")
    assert f"{target}: registers no kernels for a backend" in run(target, "--torch", "2.13.0", code=2)


def test_that_it_does_not_load_is_said_first() -> None:
    lines = run(ISSUE, "--torch", "1.5.0", code=1).splitlines()
    start = f"{ISSUE} on torch 1.5.0, backend XLATensorId: does not load - Tried to register multiple operators with "
    assert lines[0].startswith(start)
    assert lines[1].startswith("note: its kernels are for dispatch key 10")
    assert report(BACKEND, "--torch", "2.13.0")["load_error"] is None


def test_that_its_dispatch_key_has_moved_is_said_first(capsys: pytest.CaptureFixture[str]) -> None:
    # As above, of an extension that loads all the same.
    moved = msgspec.structs.replace(abiscan.coverage(ISSUE, "1.5.0"), load_error=None)
    coverage_text.render_coverage(moved, Console(width=400))
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"{ISSUE} on torch 1.5.0, backend XLATensorId: none of its kernels is for this backend"
    assert moved.exit_code() == 1
    assert abiscan.coverage(BACKEND, "2.13.0").exit_code() == 0
