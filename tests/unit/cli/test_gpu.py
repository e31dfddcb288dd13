"""GPUs on the command line: ``check --gpu``, ``ops``, ``matrix --gpus``, ``coverage --gpu``, ``doctor``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest

from abiscan.cli import main
from abiscan.extension.examined import examine
from abiscan.hooks import doctor
from abiscan.inputs.gpu_tools import NativeGpu, native_gpus
from tests.fakes import extension, install, python_of, torch_package
from tests.schemas import validate
from tests.unit.gpu.samples import FOLDER

MIXED = FOLDER / "mixed.so"
TORCH = ("--torch", "2.11.0")


def run(*words: str | Path) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def document(command: str, *words: str | Path) -> Any:
    found = json.loads(run(command, *words, "--format", "json").stdout)
    validate(found, command)
    return found


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an RTX 4090 and an MI300X."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (
        ("nvidia-smi", "NVIDIA GeForce RTX 4090, 8.9, 550.54.14"),
        ("rocm_agent_enumerator", "gfx000\ngfx942"),
    ):
        (folder / name).write_text(f"#!{sys.executable}\nprint({text!r})\n", "utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def rules(*words: str) -> dict[str, str]:
    """The rules on code for GPUs that fire, with their effects."""
    (result,) = document("check", MIXED, *TORCH, *words)["results"]
    wanted = ("no-kernel-image", "ptx-too-new", "compression-too-new")
    return {finding["rule"]: finding["effect"] for finding in result["findings"] if finding["rule"] in wanted}


def test_without_a_gpu_nothing_is_said() -> None:
    assert rules() == {}
    assert rules("--driver", "400") == {}


def test_a_gpu_is_checked_and_fails_only_if_asked_for() -> None:
    assert rules("--gpu", "12.1") == {"no-kernel-image": "note", "ptx-too-new": "note"}
    assert rules("--gpu", "12.1", "--driver", "570.26")["ptx-too-new"] == "call-fails"
    assert run("check", MIXED, *TORCH, "--gpu", "8.9").exit_code == 0
    assert run("check", MIXED, *TORCH, "--gpu", "8.9", "--fail-on", "call-fails").exit_code == 1
    assert run("check", MIXED, *TORCH, "--gpu", "gfx942", "--fail-on", "call-fails").exit_code == 0


def test_the_verdict_on_the_load_is_the_same() -> None:
    plain, with_gpu = (document("check", MIXED, *TORCH, *more) for more in ((), ("--gpu", "7.0")))
    assert plain["results"][0]["verdict"] == with_gpu["results"][0]["verdict"] == "loads"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gpu", "GTX 9999"), "GTX 9999: is not a GPU that abiscan knows (pass its compute capability: --gpu 12.0)"),
        (("--gpu", ""), '"": is not a GPU'),
        (("--gpu", "rtx 5900"), "(did you mean RTX 5090? Otherwise pass its compute capability: --gpu 12.0)"),
        (("--gpu", "9.0", "--driver", "new"), "new: is not a version of NVIDIA's driver (pass one like 570.26)"),
    ],
)
def test_what_is_not_known_is_refused(words: tuple[str, ...], message: str) -> None:
    result = run("check", MIXED, *TORCH, *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_native_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("check", MIXED, *TORCH, "--gpu", "native")
    assert result.exit_code == 2
    assert "no GPU of this machine was found" in result.stderr


@pytest.mark.usefixtures("tools")
def test_native_asks_the_tools() -> None:
    assert native_gpus() == [
        NativeGpu("NVIDIA GeForce RTX 4090", "8.9", "550.54.14"),
        NativeGpu("gfx942", "gfx942", None),
    ]
    (result,) = document("check", MIXED, *TORCH, "--gpu", "native")["results"]
    (found,) = (finding for finding in result["findings"] if finding["effect"] == "call-fails")
    assert found["message"].startswith("mixed.so on NVIDIA GeForce RTX 4090 (sm_89): no code that this GPU runs")


def test_ops_lists_the_code() -> None:
    found = document("ops", MIXED)
    assert found["gpu"]["toolkit"] == "13.5"
    assert (found["gpu"]["runtime"], found["gpu"]["driver"]) == ("13", "580")
    assert [entry["target"] for container in found["gpu"]["containers"] for entry in container["entries"]] == [
        *("compute_80", "sm_80", "sm_90a", "sm_120f")
    ]
    targets = {kernel["operator"]: kernel["gpu_targets"] for kernel in found["kernels"]}
    assert targets["gpu_sample::scale"] == ["sm_90a"]
    assert targets["gpu_sample::nothing"] is None
    assert "has code for sm_90a" in run("ops", MIXED).stdout


def test_the_matrix_by_gpu() -> None:
    (row,) = document("matrix", MIXED, *TORCH, "--gpu", "9.0", "--gpu", "12.1")["gpus"]
    assert row["operators"] == {
        "gpu_sample::add": {"sm_90": "jit", "sm_121": "jit"},
        "gpu_sample::scale": {"sm_90": "native", "sm_121": "none"},
        "gpu_sample::fill": {"sm_90": "none", "sm_121": "native"},
        "gpu_sample::either": {"sm_90": "jit", "sm_121": "some"},
    }
    assert "gpus" not in document("matrix", MIXED, *TORCH)
    assert "gpu_sample::scale" in run("matrix", MIXED, *TORCH, "--gpus").stdout
    assert "mixed.so</code> by GPU" in run("matrix", MIXED, *TORCH, "--gpus", "--format", "html").stdout


def test_coverage_lists_operators_without_code() -> None:
    words = (MIXED, *TORCH, "--backend", "CUDA", "--gpu", "8.9")
    assert document("coverage", *words)["without_code"] == {"sm_89": ["gpu_sample::fill", "gpu_sample::scale"]}
    assert "sm_89: no code for 2 operators" in run("coverage", *words).stdout


@pytest.mark.usefixtures("wheel_index")
@pytest.mark.parametrize(("sample", "troubles"), [("mixed.so", []), ("zstd.so", [("good==1.0", "no-gpu-code")])])
def test_doctor_finds_a_package_without_code(
    sample: str, troubles: list[tuple[str, str]], tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    torch_package(site)
    install(site, "torch", {}, version="9.9.0")
    install(site, "good", {"good/_C.so": extension()})
    python = python_of(site, tmp_path)
    (tools / "nvidia-smi").write_text(f"#!{sys.executable}\nprint('H100, 9.0, 580.65.06')\n", "utf-8")
    # The package of a fake torch has no code for GPUs: it borrows that of a sample.
    monkeypatch.setattr(doctor, "examine_target", lambda _, session: examine(FOLDER / sample, session))
    found = json.loads(run("doctor", "--python", python, "--format", "json1").stdout)
    validate(found, "doctor")
    assert [(problem["subject"], problem["trouble"]) for problem in found["ailments"]] == troubles
