"""The house keeps its order: import-linter's contracts in ``pyproject.toml``, and who prints and who opens files."""

from __future__ import annotations

import ast
import functools
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
    "linkage/declaration.py": "from abiscan.findings import Finding",
    "extension/built_for.py": "from abiscan.results.check import Result",
    "rules/advice.py": "from abiscan.pipelines import check",
    "report/markdown.py": "from abiscan.pipelines import matrix",
    "pipelines/api_history.py": "from abiscan.report import characters",
    "results/doctor.py": "import click",
    "report/junit.py": "import torch",
    "rules/symptom.py": "from abiscan.rules import undefined_symbol",
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


def test_the_contracts_hold(copy: Path) -> None:
    done = lint_imports(copy.parent)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("module", WRONG)
def test_a_wrong_import_breaks_a_contract(module: str, copy: Path) -> None:
    file = copy / module
    file.write_text(file.read_text("utf-8") + f"\n\ndef wrong() -> None:\n    {WRONG[module]}\n", encoding="utf-8")
    done = lint_imports(copy.parent)
    assert done.returncode == 1, done.stdout
    assert "1 broken" in done.stdout or "2 broken" in done.stdout


def test_a_room_that_no_contract_names_breaks_one(copy: Path) -> None:
    copy.joinpath("attic").mkdir()
    copy.joinpath("attic", "__init__.py").touch()
    assert lint_imports(copy.parent).returncode == 1


def test_each_room_says_what_may_come_in() -> None:
    rooms = {module: ast.parse(file.read_text("utf-8")) for module, file in MODULES.items() if file.name[0] == "_"}
    assert len(rooms) > 12
    assert [module for module, tree in rooms.items() if not ast.get_docstring(tree)] == []


def below(module: str, *folders: str) -> bool:
    return any(module == folder or module.startswith(f"{folder}.") for folder in folders)


@functools.cache
def calls(module: str) -> frozenset[str]:
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    return frozenset(ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))


def imports(module: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative imports hide the direction"
            found.add(node.module or "")
    return found


def test_only_cli_prints_or_exits() -> None:
    ending = {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write", "click.echo"}
    wrong = {
        (module, call)
        for module in MODULES
        if not below(module, "abiscan.cli", "abiscan.hooks")
        for call in calls(module)
        if call in ending
    }
    # Of processes that they have started themselves, and of one that is still importing the command line.
    assert {module for module, call in wrong if call == "os._exit"} == {
        *("abiscan.inputs.branches", "abiscan.pipelines.local_workers", "abiscan.__main__")
    }
    assert {(module, call) for module, call in wrong if call != "os._exit"} == {
        ("abiscan.inputs.tracing", "print"),  # that a trace cannot be written any more
        ("abiscan.inputs.programs", "sys.exit"),  # in the place of a program, where it cannot take that of this process
    }
    assert "sys.exit" in calls("abiscan.cli.check")  # the search finds what is there


def test_models_and_rules_open_no_files() -> None:
    reading = {"pathlib", "io", "os", "mmap", "zipfile", "subprocess", "shutil", "glob", "tempfile"}
    pure = ("abiscan.linkage", "abiscan.rules", "abiscan.findings", "abiscan.results.check")
    concerned = [module for module in MODULES if below(module, *pure)]
    assert len(concerned) > 30
    wrong = {(module, name) for module in concerned for name in imports(module) if name in reading}
    wrong |= {(module, call) for module in concerned for call in calls(module) if call == "open"}
    assert wrong == set()


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path.name)
    assert len(places) > 100
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_one_module_starts_programs() -> None:
    """A Python that another module starts could run code of the current folder."""
    starting = re.compile(
        r"os\.(exec|spawn|posix_spawn|system|popen|startfile)|(runpy|multiprocessing|pty)\.|ProcessPoolExecutor|"
        r"asyncio\.create_subprocess|subprocess\.(?!(CompletedProcess|DEVNULL|PIPE|SubprocessError|TimeoutExpired)$)"
    )
    modules = {"subprocess", "multiprocessing", "runpy", "pty"}
    places: dict[str, set[str]] = {}
    of_interest = re.compile(r"\b(os|runpy|multiprocessing|pty|asyncio|subprocess|ProcessPoolExecutor)\b")
    for module, file in MODULES.items():
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if of_interest.search(text) else ():
            if isinstance(node, ast.ImportFrom):
                assert node.module not in modules, f"{module}: hides who starts a program"
            elif isinstance(node, ast.Attribute | ast.Call):
                name = ast.unparse(node.func if isinstance(node, ast.Call) else node)
                if starting.match(name):
                    places.setdefault(module, set()).add(name)
    assert places.pop("abiscan.inputs.start_python") == {"runpy.run_module"}
    assert places == {"abiscan.inputs.programs": {"subprocess.run", "subprocess.Popen", "subprocess.call", "os.execvp"}}


def test_each_row_of_what_to_touch_has_at_most_three_files_that_exist() -> None:
    text = ROOT.joinpath("CONTRIBUTING.md").read_text("utf-8")
    table = re.search(r"\| what \| files \|\n\|---\|---\|\n((?:\|.*\n)+)", text)
    assert table is not None
    for row in table[1].splitlines():
        files = re.findall(r"`([\w/]+\.(?:py|json)|[\w/-]+\.json)`", row)
        assert 0 < len(files) <= 3, row
        assert all(PACKAGE.joinpath(file).is_file() for file in files), row


def test_a_kind_of_package_takes_its_name_its_reader_and_the_line_that_chooses_it() -> None:
    """Conda packages show it: no other module knows what they are."""
    knowing = {
        module
        for module, file in MODULES.items()
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr == "CONDA")
        or (isinstance(node, ast.alias) and node.name == "CondaPackage")
        or (isinstance(node, ast.Constant) and node.value in {".conda", ".tar.bz2"})
    }
    assert knowing == {"abiscan.inputs.kinds", "abiscan.inputs.conda", "abiscan.inputs.sources"}


def test_only_the_tables_of_processors_name_one_of_them() -> None:
    """``x86_64`` is the default in places; whoever names another one knows what belongs into a table."""
    tables = {"abiscan.binary.machines", "abiscan.cpu.architectures", "abiscan.cpu.instructions"}
    naming = {
        module
        for module, file in MODULES.items()
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr == "AARCH64")
        or (isinstance(node, ast.Constant) and str(node.value).lower() in {"aarch64", "arm64"})
    }
    assert {module for module in naming if not below(module, "abiscan.emulation.arch")} == tables


def test_processors_differ_for_the_emulator_in_its_tables_alone() -> None:
    """No other module of it asks for which processor an object is."""
    asking = {
        module
        for module, file in MODULES.items()
        if below(module, "abiscan.emulation") and not below(module, "abiscan.emulation.arch")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Machine"
    }
    assert asking == set()


def test_for_which_system_something_is_is_decided_in_one_place() -> None:
    """A target and a torch in the verdict, the torches of an index in their platforms; both ask for this machine."""
    deciding = re.compile(
        r"= .*own_image_system\(\)|if .*own_image_system\(\)|, ImageTorch\)|if (?:\w+\.)*target\.images\b"
    )
    modules = {module for module, file in MODULES.items() if deciding.search(file.read_text("utf-8"))}
    assert modules == {"abiscan.verdict.systems", "abiscan.torches.platforms"}


def test_what_torch_raises_in_python_is_in_one_table() -> None:
    """The words of torch/_ops.py and torch/library.py, of which no other module has a copy."""
    words = re.compile(
        r"_OpNamespace' |No such operator|The underlying op of '|Could not load this|Failed to load the b"
    )
    modules = {module for module, file in MODULES.items() if words.search(file.read_text("utf-8"))}
    assert modules == {"abiscan.python.torch_texts"}
