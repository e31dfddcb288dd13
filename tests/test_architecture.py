"""What ``pyproject.toml`` keeps in order: import-linter's contracts, and the names that ruff bans from most modules."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import abiscan

PACKAGE: Final = Path(abiscan.__file__).parent
ROOT: Final = Path(__file__).resolve().parents[1]
MODULES: Final = {
    ".".join((abiscan.__name__, *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in sorted(PACKAGE.rglob("*.py"))
}
# A module, and an import that must not stand in it.
WRONG: Final = {
    "binary/elf.py": "from abiscan.inputs import files",
    "binary/ownership.py": "from abiscan.dispatch.operators import Operators",
    "inputs/system.py": "from abiscan.torches import embedded",
    "dispatch/tags.py": "from abiscan.torches.api_version import fingerprint",
    "emulation/strings.py": "import cxxfilt",
    "linkage/scope.py": "from abiscan.rules import RULES",
    "linkage/promises.py": "from abiscan.findings import Finding",
    "extension/built_for.py": "from abiscan.results.check import Result",
    "rules/advice.py": "from abiscan.report import characters",
    "report/markdown.py": "from abiscan.pipelines import matrix",
    "verdict/systems.py": "from abiscan.verdict.checker import Checker",
    "verdict/package_reading.py": "from abiscan.verdict.package import package_result",
    "pipelines/api_history.py": "from abiscan.report import characters",
    "results/doctor.py": "import click",
    "report/junit.py": "import torch",
    "rules/symptom.py": "from abiscan.rules import undefined_symbol",
    "rules/undefined_symbol.py": "import pathlib",
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts for the package in a folder."""
    program = Path(sys.executable).with_name("lint-imports")
    command: list[str | Path] = [program, "--no-cache", "--config", ROOT / "pyproject.toml"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package without its data."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "abiscan", ignore=shutil.ignore_patterns("data", "__pycache__")))


@pytest.mark.slow
def test_each_wrong_import_breaks_a_contract(copy: Path) -> None:
    lines = {}
    for module, wrong in WRONG.items():
        file = copy / module
        source = file.read_text("utf-8") + f"\n\ndef wrong() -> None:\n    {wrong}\n"
        file.write_text(source, encoding="utf-8")
        lines[module] = f"(l.{source.count(chr(10))})"
    done = lint_imports(copy.parent)
    assert done.returncode == 1, done.stdout
    chains = re.findall(r"^- +(abiscan\..*)$", done.stdout, re.MULTILINE)
    starts = {module: f"abiscan.{module.removesuffix('.py').replace('/', '.')} -> " for module in WRONG}
    missed = [
        module
        for module, start in starts.items()
        if not any(chain.startswith(start) and lines[module] in chain for chain in chains)
    ]
    # What is wrong inside a room is shown as the import that would have to go, which may be the one against it.
    assert missed == ["rules/symptom.py"]
    assert "- .undefined_symbol -> .symptom (1 import)" in done.stdout


@pytest.mark.slow
def test_a_room_that_no_contract_names_breaks_one(copy: Path) -> None:
    copy.joinpath("attic").mkdir()
    copy.joinpath("attic", "__init__.py").touch()
    assert lint_imports(copy.parent).returncode == 1


def test_each_room_says_what_may_come_in() -> None:
    rooms = {module: ast.parse(file.read_text("utf-8")) for module, file in MODULES.items() if file.name[0] == "_"}
    assert len(rooms) > 12
    assert [module for module, tree in rooms.items() if not ast.get_docstring(tree)] == []


def test_no_keyword_of_a_package_meets_a_parameter_of_ours() -> None:
    # A call that the reader carries out may have any keyword: ``"{name}".format(name="x")``.
    taking = [
        (f"{module}:{getattr(node, 'name', 'lambda')}", node.args)
        for module in MODULES
        if module.startswith("abiscan.python.")
        for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node.args.kwarg
    ]
    assert "abiscan.python.interpreter.operations:attempt_operation" in dict(taking)
    assert [name for name, parameters in taking if parameters.args or parameters.kwonlyargs] == []


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in re.findall(r"^class ([^_\W]\w*)", path.read_text("utf-8"), re.MULTILINE):
            places.setdefault(name, []).append(path.name)
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_each_row_of_what_to_touch_has_at_most_three_files_that_exist() -> None:
    text = ROOT.joinpath("CONTRIBUTING.md").read_text("utf-8")
    table = re.search(r"\| what \| files \|\n\|---\|---\|\n((?:\|.*\n)+)", text)
    assert table is not None
    for row in table[1].splitlines():
        files = re.findall(r"`([\w/]+\.(?:py|json)|[\w/-]+\.json)`", row)
        assert 0 < len(files) <= 3, row
        assert all(PACKAGE.joinpath(file).is_file() for file in files), row


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("rules/advice.py", "print('fix')"),
        ("verdict/checker.py", "import sys; sys.exit(1)"),
        ("inputs/files.py", "import subprocess; subprocess.run(['ld.so'], check=True)"),
        ("hooks/pip.py", "import os; os.execvp('pip', [])"),
        ("linkage/scope.py", "from abiscan.binary.elf import Machine; Machine.AARCH64"),
        ("emulation/recovery.py", "from abiscan.binary.machines import Machine; Machine.AARCH64"),
        ("pipelines/check.py", "from abiscan.torches.torch import ImageTorch"),
        ("verdict/package.py", "from abiscan.inputs.system import own_image_system"),
        ("inputs/files.py", "from abiscan.inputs.kinds import TargetKind; TargetKind.CONDA"),
    ],
)
def test_ruff_bans_what_few_modules_may_do(module: str, line: str) -> None:
    program = Path(sys.executable).with_name("ruff")
    command: list[str | Path] = [program, "check", "--select", "T20,TID251", "--stdin-filename", PACKAGE / module, "-"]
    done = subprocess.run(command, cwd=ROOT, input=f"{line}\n", capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search("T201|TID251", done.stdout)
