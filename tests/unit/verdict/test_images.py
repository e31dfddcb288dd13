"""Targets for Windows and macOS through the commands: verdicts, exit codes, documents, mixed and damaged targets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.cli import main
from abiscan.torches import torch_images
from tests.fakes import SAMPLES, extension, wheel
from tests.image_samples import IMAGES, LACKED, WARN, image, package, torch_folder, torch_wheel
from tests.schemas import validate


def run(*words: str | Path) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words])


def checked(*words: str | Path) -> tuple[int, dict[str, Any]]:
    printed = run("check", *words, "--format", "json")
    document = json.loads(printed.stdout)
    validate(document, "check")
    return printed.exit_code, document


@pytest.mark.parametrize(
    ("name", "verdict", "code", "rules"),
    [
        ("loads.pyd", "loads", 0, []),
        ("delayed.pyd", "loads", 0, []),
        ("by_ordinal.pyd", "unknown", 3, []),
        ("missing_symbol.pyd", "fails", 1, ["undefined-symbol"]),
        ("needs_cuda.pyd", "fails", 1, ["missing-library"]),
        ("loads.so", "loads", 0, []),
        ("weak.so", "loads", 0, []),
        ("universal.so", "loads", 0, []),
        ("flat.so", "fails", 1, ["undefined-symbol"]),
        ("missing_symbol.so", "fails", 1, ["undefined-symbol"]),
        ("needs_cuda.so", "fails", 1, ["missing-library"]),
    ],
)
@pytest.mark.parametrize("torch", ["2.9.0", "latest"])
def test_samples_on_embedded_releases(name: str, verdict: str, code: int, rules: list[str], torch: str) -> None:
    found, document = checked(IMAGES / name, "--torch", torch)
    (result,) = document["results"]
    assert (found, result["verdict"], [one["rule"] for one in result["findings"]]) == (code, verdict, rules)
    assert "only imports are checked" in result["gaps"][0]["reason"]  # never a clean "loads" without it


def test_what_is_missing_is_named() -> None:
    _, document = checked(IMAGES / "missing_symbol.pyd", IMAGES / "missing_symbol.so", "--torch", "2.13.0")
    windows, macos = document["results"]
    assert windows["undefined_symbols"] == [LACKED["Windows"]]
    assert macos["undefined_symbols"] == [LACKED["macOS"]]
    for result in (windows, macos):
        assert "at::abiscan_not_in_torch" in result["findings"][0]["evidence"][0]["readable"]
        assert result["predicted_error"]["exact"] is False
        assert result["findings"][0]["fix"].startswith("install a build of the extension made for torch 2.13.0, or ")


@pytest.mark.parametrize(
    ("system", "name"), [("Windows", "loads.pyd"), ("macOS", "universal.so")], ids=["Windows", "macOS"]
)
def test_a_torch_in_files(tmp_path: Path, system: str, name: str) -> None:
    for torch in (torch_folder(tmp_path / "site", system), torch_wheel(tmp_path, system)):
        code, document = checked(IMAGES / name, "--torch", torch)
        assert (code, document["results"][0]["verdict"], document["results"][0]["torch_build"]) == (0, "loads", "9.9.0")


def test_a_torch_in_files_has_the_numbers_of_exports(tmp_path: Path) -> None:
    code, document = checked(IMAGES / "by_ordinal.pyd", "--torch", torch_folder(tmp_path, "Windows"))
    assert (code, document["results"][0]["verdict"]) == (0, "loads")


@pytest.mark.parametrize(
    ("target", "system", "problem"),
    [
        ("images/loads.so", "Windows", "is for Windows on x86_64, the target for macOS on aarch64"),
        ("images/loads.so", "macOS", "is for macOS on x86_64, the target for macOS on aarch64"),
        ("loads/loads.so", "Windows", "is not a torch for Linux"),
    ],
)
def test_a_torch_for_another_system(tmp_path: Path, target: str, system: str, problem: str) -> None:
    printed = run("check", SAMPLES / target, "--torch", torch_folder(tmp_path, system))
    assert printed.exit_code == 2
    assert problem in printed.stderr


def test_a_release_that_is_not_embedded_for_the_system() -> None:
    printed = run("check", IMAGES / "loads.pyd", "--torch", "2.0.0")
    assert printed.exit_code == 2
    assert "not among the releases that are embedded for Windows" in printed.stderr


def test_each_image_of_a_wheel_has_a_verdict(tmp_path: Path) -> None:
    target = package(tmp_path, {"pkg/_C.pyd": image("missing_symbol.pyd"), "pkg/ok.pyd": image("loads.pyd")})
    code, document = checked(target, "--torch", "2.13.0")
    assert code == 1
    assert {one["path"]: one["verdict"] for one in document["results"]} == {
        "pkg/_C.pyd": "fails",
        "pkg/ok.pyd": "loads",
    }


def test_unreadable_members_are_unknown(tmp_path: Path) -> None:
    target = package(tmp_path, {"pkg/_C.pyd": image("loads.pyd")[:900], "pkg/ok.pyd": image("loads.pyd")})
    code, document = checked(target, "--torch", "2.13.0")
    verdicts = {one["path"]: one["verdict"] for one in document["results"]}
    assert (code, verdicts) == (3, {"pkg/_C.pyd": "unknown", "pkg/ok.pyd": "loads"})


@pytest.mark.parametrize("name", ["loads.pyd", "loads.so"])
def test_a_truncated_file_is_not_fine(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(image(name)[:1200])
    printed = run("check", path, "--torch", "2.13.0")
    assert printed.exit_code in (2, 3)
    assert "is truncated" in printed.output or "is damaged" in printed.output


def test_images_among_elf_files_are_not_dropped(tmp_path: Path) -> None:
    extension().write(tmp_path / "build" / "_C.so")
    for name, source in (("_C.pyd", "missing_symbol.pyd"), ("_C.dylib", "loads.so")):
        (tmp_path / "build" / name).write_bytes(image(source))
    other = image("loads.pyd").replace(b"torch", b"other").replace(b"c10", b"xyz")
    (tmp_path / "build" / "launcher.dll").write_bytes(other)
    code, document = checked(tmp_path / "build", "--torch", "2.13.0", "--each-file")
    found = {one["path"]: (one["verdict"], *(gap["reason"] for gap in one["gaps"])) for one in document["results"]}
    assert code == 3
    assert found.pop("_C.so")[0] == "loads"
    assert found == {
        name: ("unknown", f"is for {system}, and not checked together with files for Linux (pass it by itself)")
        for name, system in (("_C.pyd", "Windows"), ("_C.dylib", "macOS"))
    }


def test_the_system_of_a_wheel_decides_what_counts_in_it(tmp_path: Path) -> None:
    members = {"pkg/_C.so": extension().build(), "pkg/_C.pyd": image("missing_symbol.pyd")}
    for tag, paths in (("py3-none-linux_x86_64", ["pkg/_C.so"]), ("py3-none-any", ["pkg/_C.so", "pkg/_C.pyd"])):
        _, document = checked(wheel(tmp_path / f"pkg-1.0-{tag}.whl", members), "--torch", "2.13.0", "--each-file")
        assert [one["path"] for one in document["results"]] == paths


def test_a_target_that_is_no_elf_file_is_no_gap_of_another(tmp_path: Path) -> None:
    extension(needed=("libtorch_cpu.so", "libabsent.so")).write(tmp_path / "needs.so")
    for targets in ((IMAGES / "loads.pyd", tmp_path / "needs.so"), (tmp_path / "needs.so", IMAGES / "loads.pyd")):
        _, document = checked(*targets, "--torch", "2.13.0")
        gaps = {one["path"]: [gap["reason"] for gap in one["gaps"]] for one in document["results"]}
        assert [reason for reason in gaps["needs.so"] if "loads.pyd" in reason] == []
        assert any("libabsent.so" in reason for reason in gaps["needs.so"])


def test_matrix() -> None:
    printed = run("matrix", IMAGES / "missing_symbol.so", IMAGES / "loads.pyd", "--torch", ">=2.12", "--format", "json")
    document = json.loads(printed.stdout)
    validate(document, "matrix")
    assert printed.exit_code == 1
    assert "fails" in printed.stdout
    assert "loads" in printed.stdout


def test_survey(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    words = ("survey", IMAGES / "loads.pyd", IMAGES / "missing_symbol.so", "--torch", "2.13.0", "--output", out)
    printed = run(*words, "--jobs", "1")
    assert printed.exit_code in (0, 1), printed.output
    lines = out.read_text("utf-8").splitlines()
    assert any('"loads"' in line and "loads.pyd" in line for line in lines)
    assert any('"fails"' in line and "missing_symbol.so" in line for line in lines)


def test_what_is_embedded_for_each_system() -> None:
    for system, machine in ((ImageSystem.WINDOWS, Machine.X86_64), (ImageSystem.MACOS, Machine.AARCH64)):
        found = torch_images.releases(system, machine)
        assert len(found) >= 10
        for release in found:
            torch = torch_images.of_release(str(release), system, machine)
            c10 = next(name for name in torch.exports if "c10" in name)
            assert torch.exports[c10](WARN[system.value])
            assert not torch.exports[c10](LACKED[system.value])


@pytest.mark.parametrize("target", [SAMPLES / "loads" / "loads.so", SAMPLES / "wheels"])
def test_elf_does_without_lief(target: Path) -> None:
    code = (
        "import sys, abiscan.cli as cli\n"
        f"cli.main(['--no-isolation', 'check', {str(target)!r}, '--torch', '2.13.0'], standalone_mode=False)\n"
    )
    check = "import atexit, sys; atexit.register(lambda: print('lief' in sys.modules))\n" + code
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "False", done.stderr
