"""Packages that are Python code alone: their imports, on releases of which the names are known."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import abiscan
from abiscan.cli import main
from abiscan.findings import Effect
from abiscan.results.package import PackageVerdict


def _wheel(folder: Path, source: str, further: str = "numpy", torch: str = "torch") -> Path:
    path = folder / "pure-1.0-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: pure\nVersion: 1.0\nRequires-Dist: {torch}\n"
    metadata += f"Requires-Dist: {further}\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pure/__init__.py", source)
        archive.writestr("pure-1.0.dist-info/METADATA", metadata)
        archive.writestr("pure-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("pure-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.parametrize(
    ("source", "release", "code", "words"),
    [
        ("from torch.amp import custom_bwd\n", "2.3.0", 1, "cannot import name 'custom_bwd' from 'torch.amp'"),
        ("from torch.amp import custom_bwd\n", "2.4.0", 0, "works"),
        # torch/cuda/__init__.py of 2.3.1: ``def is_bf16_supported():``; 2.4.0 has the parameter.
        (
            "import torch\ntorch.cuda.is_bf16_supported(including_emulation=False)\n",
            "2.3.1",
            1,
            "is_bf16_supported() got an unexpected keyword argument 'including_emulation'",
        ),
        ("import torch\ntorch.cuda.is_bf16_supported(including_emulation=False)\n", "2.4.0", 0, "works"),
        ("import torch\nraise ValueError('who knows')\n", "2.4.0", 3, "unknown"),
    ],
)
def test_names_that_a_release_lacks_in_pure_python(
    source: str, release: str, code: int, words: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(main, ["check", str(_wheel(tmp_path, source)), "--torch", release])

    assert result.exit_code == code, result.output
    assert words in result.output


_GUARDED = "import sys, torch\nif sys.version_info < (3, {}):\n    from torch.amp import no_such_name\n"


# torch 2.4.0 has wheels for Python 3.8 to 3.12.
@pytest.mark.parametrize(
    ("minor", "required", "code"), [(8, "", 0), (9, "", 3), (9, ">=3.9", 0), (13, ">=3.9", 1), (12, ">=3.9,<3.12", 1)]
)
def test_the_python_is_not_known_but_for_those_that_may_be(
    minor: int, required: str, code: int, tmp_path: Path
) -> None:
    wheel = _wheel(tmp_path, _GUARDED.format(minor))
    if required:
        _add_line(wheel, f"Requires-Python: {required}\n")

    result = CliRunner().invoke(main, ["check", str(wheel), "--torch", "2.4.0"])

    assert result.exit_code == code, result.output


def _add_line(wheel: Path, line: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text + line if name.endswith("METADATA") else text)


@pytest.mark.parametrize("requirement", ["torch", "torch>=1.7.*", "torch ; extra == 'torch'", "numpy"])
@pytest.mark.parametrize(
    "source",
    [
        "from torch.amp import custom_bwd\n",
        "import os, torch as t\nt.amp.custom_bwd\n",
        "import importlib\nimportlib.import_module('torch.amp').custom_bwd\n",
    ],
)
def test_code_that_imports_torch_is_checked_whatever_its_metadata_require(
    source: str, requirement: str, tmp_path: Path
) -> None:
    wheel = _wheel(tmp_path, source, torch=requirement)
    result = CliRunner().invoke(main, ["check", str(wheel), "--torch", "2.3.0"])

    assert result.exit_code == 1, result.output
    assert "custom_bwd" in result.output


def test_code_that_does_not_import_torch_is_nothing_to_check(tmp_path: Path) -> None:
    source = "import torchlike\nfrom .torch import x\ntext = 'import torch'\n"
    result = CliRunner().invoke(main, ["check", str(_wheel(tmp_path, source)), "--torch", "2.3.0"])

    assert (result.exit_code, "nothing to check" in result.output) == (0, True), result.output


@pytest.mark.parametrize(("package", "code"), [("torchmetrics", 1), ("torchvision", 1), ("torch_npu", 0)])
def test_a_package_that_may_add_names_to_torch_opens_them(package: str, code: int, tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, f"import {package}\nfrom torch.amp import custom_bwd\n", package)
    result = CliRunner().invoke(main, ["check", str(wheel), "--torch", "2.3.0"])

    assert result.exit_code == code, result.output


def test_matrix_says_on_which_releases_it_imports(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, "from torch.nn.parameter import Buffer\n")
    result = CliRunner().invoke(main, ["matrix", str(wheel), "--torch", "2.4.1", "--torch", "2.5.0"])

    row = next(line for line in result.output.splitlines() if line.startswith("pure 1.0"))
    assert row.split()[2:] == ["✗", "✓"]


LATER = "import torch\ndef measured(time):\n    return torch.autograd.profiler.format_time(time)\n"


def test_a_name_that_a_function_uses_later_is_a_note(tmp_path: Path) -> None:
    command = ["check", str(_wheel(tmp_path, LATER)), "--torch", "2.13.0"]
    text, strict, ignored, there = (
        CliRunner().invoke(main, words)
        for words in (
            command,
            [*command, "--fail-on", "call-fails"],
            [*command, "--fail-on", "call-fails", "--ignore", "missing-torch-name"],
            [*command[:-1], "1.9.1", "--fail-on", "call-fails"],
        )
    )

    assert (text.exit_code, strict.exit_code, ignored.exit_code, there.exit_code) == (0, 1, 0, 0)
    assert "torch.autograd.profiler.format_time is missing in torch 2.13.0: pure uses it in 1 function" in text.output
    assert "pure/__init__.py:3" in text.output
    assert "missing-torch-name" not in ignored.output + there.output


def test_a_use_that_a_guard_elsewhere_may_not_cover_is_no_line_of_a_matrix(tmp_path: Path) -> None:
    guarded = "def asked():\n    return hasattr(torch.autograd.profiler, 'format_time')\n"
    wheel = str(_wheel(tmp_path, LATER + guarded))
    checked, matrix = (
        CliRunner().invoke(main, [command, wheel, "--torch", "2.13.0"]).output for command in ("check", "matrix")
    )
    assert "note[missing-torch-name]" in checked
    assert "missing-torch-name" not in matrix


def test_the_note_says_which_releases_have_the_name(tmp_path: Path) -> None:
    report = abiscan.check(_wheel(tmp_path, LATER), "2.13.0")
    (finding,) = report.packages[0].own_findings
    (evidence,) = json.loads(report.to_json())["packages"][0]["findings"][0]["evidence"]

    assert finding.effect is Effect.CALL_FAILS
    assert (evidence["subject"], evidence["object"]) == ("pure/__init__.py:3", "measured")
    assert ("since" in evidence, evidence["until"]) == (False, "1.9.1")


CALLS = """import torch
import numpy as np
def fit(optimizer, path):
    torch.load(path).eval()
    np.float_(1)
    return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, verbose=True)
"""


def test_what_functions_call_later_is_a_note_with_the_releases_that_take_it(tmp_path: Path) -> None:
    """``inspect.signature`` says so in 2.6.0 and 2.7.0; ``torch/serialization.py`` in 2.5.1 and 2.6.0."""
    report = abiscan.check(_wheel(tmp_path, CALLS, "numpy>=2"), "2.7.0")
    name, load, call = sorted(report.packages[0].own_findings, key=lambda finding: finding.message)

    assert [finding.rule for finding in (name, load, call)] == ["missing-torch-name", *["rejected-torch-call"] * 2]
    assert name.message == "numpy.float_ is missing in numpy 2.0-2.4: pure uses it in 1 function"
    assert name.says == "`np.float_` was removed in the NumPy 2.0 release."
    assert load.fix == "use torch 1.4.0-2.5.1, which takes it, or pass weights_only=False if you trust the file"
    assert call.fix == "use torch 1.4.0-2.6.0, which takes it, or a version of pure for torch 2.7.0"
    assert call.says == "ReduceLROnPlateau.__init__() got an unexpected keyword argument 'verbose'"
    assert [evidence.subject for evidence in call.evidence] == ["pure/__init__.py:6"]


def test_matrix_says_on_which_releases_a_note_appears(tmp_path: Path) -> None:
    words = [word for release in ("1.8.1", "1.9.1", "1.10.0", "1.11.0") for word in ("--torch", release)]
    text, json_text = (
        CliRunner().invoke(main, ["matrix", str(_wheel(tmp_path, LATER)), *words, "--format", form]).output
        for form in ("text", "json")
    )

    assert "missing-torch-name 1.10.0-1.11.0: torch.autograd.profiler.format_time (pure/__init__.py:3)" in text
    cells = json.loads(json_text)["packages"][0]["releases"]
    assert [cell["rules"] for cell in cells.values()] == [[], [], *[["missing-torch-name"]] * 2]


def test_where_the_import_fails_there_is_no_note(tmp_path: Path) -> None:
    report = abiscan.check(_wheel(tmp_path, f"import torch._six\n{LATER}"), "2.13.0")

    assert report.packages[0].verdict is PackageVerdict.IMPORT_FAILS
    assert not report.packages[0].own_findings


def test_a_page_and_a_table_have_python_code_alone(tmp_path: Path) -> None:
    works = _wheel(tmp_path, "from torch.amp import custom_bwd\n")
    (tmp_path / "second").mkdir()
    open_ = _wheel(tmp_path / "second", "import torch\nraise ValueError('who knows')\n")
    words = ["matrix", str(works), str(open_), "--torch", "2.3.0", "--torch", "2.4.0", "--format"]
    page = CliRunner().invoke(main, [*words, "html"]).stdout
    assert [page.count(f'<h2 id="t{number}">') for number in range(3)] == [1, 1, 0]
    assert page.count('<span class="badge loads">torch 2.4.0</span>') == 2  # in the list of answers, and at its table
    assert page.count('<span class="badge unknown">unknown</span>') == 2
    table = CliRunner().invoke(main, [*words, "markdown"]).stdout.splitlines()
    assert table[:4] == [
        "| | torch 2.4.0 | torch 2.3.0 |",
        "|---|:-:|:-:|",
        f"| `pure 1.0 ({tmp_path})` | ✓ | ✗ |",  # one name, one version, one set of tags: the folders differ
        f"| `pure 1.0 ({tmp_path}/second)` | ? | ? |",
    ]
    assert f"- `{works}`: requires torch; works on torch 2.4.0" in "\n".join(table)


def test_builds_of_one_version_are_told_apart(tmp_path: Path) -> None:
    works = _wheel(tmp_path, "import torch\n")
    second = works.rename(tmp_path / "pure-1.0-cp311-none-any.whl"), _wheel(tmp_path, "import torch\n")
    result = CliRunner().invoke(main, ["check", *map(str, second), "--torch", "2.4.0", "-q"])
    assert [line.partition(" on ")[0] for line in result.stdout.splitlines()] == ["pure 1.0 (cp311)", "pure 1.0 (py3)"]
    report = abiscan.check(second, "2.4.0")
    assert [answer.title for answer in report.answers] == ["pure 1.0 (cp311)", "pure 1.0 (py3)"]
