"""What the commands print, to the letter. ``pytest tests/golden --update-golden`` rewrites the files beside this one.

The torch is built on the spot (``fakes.py``) and the samples are files of this repository, so nothing depends on what
is installed; paths are those of the sample folder and of ``TORCH``.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from pathlib import Path
from typing import Final

import click
import click.testing
import pytest

import abiscan
from abiscan.cli import main
from abiscan.rules import EVERY_RULE
from tests.conftest import Golden
from tests.fakes import SAMPLES, torch_package
from tests.schemas import validate

EFFORT: Final = re.compile(r"abiscan: \d+\.\d s; looked at .*\n")
"""With ``-v``, what differs in each run."""

HERE: Final = Path(__file__).parent
CHECKED: Final = {
    "loads": "weak_reference/weak_reference.so",
    "missing_torch_library": "missing_torch_library/missing_torch_library.so",
    "missing_sibling": "missing_sibling/missing_sibling.so",
    "undefined_symbol": "undefined_symbol_signature/undefined_symbol_signature.so",
    "not_linked": "undefined_symbol_not_linked/undefined_symbol_not_linked.so",
    "cxx11_abi": "cxx11_abi/cxx11_abi.so",
    "architecture": "architecture/architecture.so",
    "wheel": "wheels/abiscan_sample-1.0-py3-none-linux_x86_64.whl",
}

needs_machine_of_samples = pytest.mark.skipif(
    (platform.system(), platform.machine(), sys.version_info[:2]) != ("Linux", "x86_64", (3, 11)),
    reason="needs Python 3.11 on x86_64 Linux, which the samples are for",
)


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The built torch; the samples are named relative to their folder."""
    monkeypatch.chdir(SAMPLES)
    return torch_package(tmp_path)


def printed(*words: str) -> str:
    result = click.testing.CliRunner().invoke(main, words, prog_name="abiscan", terminal_width=100)
    assert EFFORT.sub("", result.stderr) == ""
    return result.stdout


def normal(text: str, torch: Path) -> str:
    return text.replace(str(torch), "TORCH").replace(str(SAMPLES), "SAMPLES").replace(abiscan.__version__, "VERSION")


@needs_machine_of_samples
@pytest.mark.parametrize("sample", CHECKED)
@pytest.mark.parametrize("verbosity", ["quiet", "normal", "verbose"])
def test_text(sample: str, verbosity: str, torch: Path, golden: Golden) -> None:
    options = {"quiet": ["-q"], "normal": [], "verbose": ["-v"]}[verbosity]
    text = printed("check", CHECKED[sample], "--torch", str(torch), *options)
    golden(HERE / "text" / f"{sample}.{verbosity}.txt", normal(text, torch))


@needs_machine_of_samples
@pytest.mark.parametrize("sample", CHECKED)
def test_json(sample: str, torch: Path, golden: Golden) -> None:
    text = printed("check", CHECKED[sample], "--torch", str(torch), "--format", "json")
    validate(json.loads(text), "check")
    golden(HERE / "json" / f"{sample}.json", normal(text, torch))


@needs_machine_of_samples
@pytest.mark.parametrize("form", ["sarif", "junit", "github", "markdown"])
def test_formats_for_ci(form: str, torch: Path, golden: Golden) -> None:
    text = printed("check", CHECKED["undefined_symbol"], "--torch", str(torch), "--format", form)
    if form == "sarif":  # the rules are those of test_explain
        log = json.loads(text)
        log["runs"][0]["tool"]["driver"]["rules"] = []
        text = json.dumps(log, indent=1) + "\n"
    golden(HERE / "ci" / f"undefined_symbol.{form}.txt", normal(text, torch))


def test_help_of_the_program(golden: Golden) -> None:
    golden(HERE / "help" / "abiscan.txt", printed("--help"))


@pytest.mark.parametrize("command", main.list_commands(click.Context(main)))
def test_help_of_a_command(command: str, golden: Golden) -> None:
    golden(HERE / "help" / f"{command}.txt", printed(command, "--help"))


def test_explain(golden: Golden) -> None:
    golden(HERE / "explain" / "all.txt", printed("explain"))


@pytest.mark.parametrize("rule", [rule.name for rule in EVERY_RULE])
def test_explain_a_rule(rule: str, golden: Golden) -> None:
    golden(HERE / "explain" / f"{rule}.txt", printed("explain", rule))


def test_no_file_is_left_over() -> None:
    expected = {f"help/{name}.txt" for name in ("abiscan", *main.list_commands(click.Context(main)))}
    expected |= {f"explain/{name}.txt" for name in ("all", *(rule.name for rule in EVERY_RULE))}
    expected |= {f"text/{sample}.{verbosity}.txt" for sample in CHECKED for verbosity in ("quiet", "normal", "verbose")}
    expected |= {f"json/{sample}.json" for sample in CHECKED}
    expected |= {f"ci/undefined_symbol.{form}.txt" for form in ("sarif", "junit", "github", "markdown")}
    found = {file.relative_to(HERE).as_posix() for file in HERE.rglob("*") if file.suffix in {".txt", ".json"}}
    assert found == expected | {"matrix.txt", "findings.txt"}  # the latter is of test_cases.py
