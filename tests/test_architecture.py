"""Who may import whom, read from the source.

The layers: cli → scan → stages (sources, releases, linkage, rules, report) → models and readers (elf, files, findings,
interpreter, mangling, system, errors). Adding a module needs no change here, unless it breaks a rule.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import abiscan

PACKAGE: Final = Path(abiscan.__file__).parent
MODULES: Final = {
    ".".join((abiscan.__name__, *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in sorted(PACKAGE.rglob("*.py"))
}

# Module or folder → those of the project that it may not import. Both stand for everything below them.
READERS: Final = (
    *("abiscan.files", "abiscan.sources", "abiscan.scan", "abiscan.cli", "abiscan.system", "abiscan.report"),
    *("abiscan.releases.store", "abiscan.releases.from_libs", "abiscan.releases.libraries"),
)
FORBIDDEN: Final = {
    "abiscan.linkage": (*READERS, "abiscan.rules", "abiscan.findings"),
    "abiscan.rules": READERS,
    "abiscan.report": (
        "abiscan.cli",
        "abiscan.scan",
        "abiscan.sources",
        "abiscan.linkage",
        "abiscan.rules",
        "abiscan.files",
    ),
    "abiscan.sources": ("abiscan.cli", "abiscan.scan", "abiscan.rules", "abiscan.report", "abiscan.releases"),
    "abiscan.releases": ("abiscan.cli", "abiscan.scan", "abiscan.rules", "abiscan.report", "abiscan.sources"),
    "abiscan.files": ("abiscan.cli", "abiscan.scan", "abiscan.sources", "abiscan.linkage", "abiscan.rules"),
    "abiscan.elf": ("abiscan.files", "abiscan.linkage", "abiscan.sources", "abiscan.mangling", "abiscan.scan"),
    "abiscan.mangling": ("abiscan",),
    "abiscan.errors": ("abiscan",),
    "abiscan.scan": ("abiscan.cli", "abiscan.rules"),
    "abiscan.releases.model": (
        *READERS,
        *(f"abiscan.linkage.{name}" for name in ("linkage", "model", "resolve", "scope")),
    ),
}
# Library of others → the modules that may import it.
ONLY: Final = {
    "lief": ("abiscan.elf",),
    "cxxfilt": ("abiscan.mangling",),
    "icicle": ("abiscan.emulation",),
    "capstone": ("abiscan.emulation",),
    "sqlite3": ("abiscan.releases.store",),
    "click": ("abiscan.cli",),
    "rich": ("abiscan.cli", "abiscan.report"),
    "torch": ("abiscan.hooks.guard",),  # vendored, and run beside torch
}


def below(module: str, *folders: str) -> bool:
    return any(module == folder or module.startswith(f"{folder}.") for folder in folders)


def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def imports(module: str, *, at_run_time: bool = False) -> set[str]:
    """What a module imports, as full names; ``at_run_time`` leaves out what stands under ``if TYPE_CHECKING``."""
    skipped: set[ast.AST] = set()
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        if at_run_time and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            skipped |= {inner for statement in node.body for inner in ast.walk(statement)}
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative imports hide the direction"
            source = node.module or ""
            found |= {full if (full := f"{source}.{alias.name}") in MODULES else source for alias in node.names}
    return found


def calls(module: str) -> Iterator[str]:
    return (ast.unparse(node.func) for node in ast.walk(tree(module)) if isinstance(node, ast.Call))


def test_the_whole_package_is_looked_at() -> None:
    assert {"abiscan", "abiscan.elf", "abiscan.cli.check", "abiscan.rules.undefined_symbol"} <= set(MODULES)
    assert imports("abiscan.scan") >= {"abiscan.system", "abiscan.linkage.resolve", "posixpath", "collections.abc"}


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_directions(folder: str) -> None:
    concerned = [module for module in MODULES if below(module, folder)]
    assert concerned
    wrong = {
        (module, name)
        for module in concerned
        for name in imports(module, at_run_time=True)
        if below(name, *FORBIDDEN[folder]) and not below(name, folder)
    }
    assert wrong == set()


@pytest.mark.parametrize("library", ONLY)
def test_one_importer_each(library: str) -> None:
    importers = {module for module in MODULES if any(below(name, library) for name in imports(module))}
    assert {module for module in importers if not below(module, *ONLY[library])} == set()


@pytest.mark.parametrize("library", ["lief", "cxxfilt", "sqlite3", "click", "rich"])
def test_the_importers_are_found(library: str) -> None:
    assert any(below(name, library) for module in MODULES for name in imports(module))


def test_only_cli_is_above_cli() -> None:
    users = {module for module in MODULES if any(below(name, "abiscan.cli") for name in imports(module))}
    assert {module for module in users if not below(module, "abiscan.cli")} == {"abiscan.__main__"}


def test_only_cli_uses_scan() -> None:
    users = {module for module in MODULES if any(below(name, "abiscan.scan") for name in imports(module))}
    assert {module for module in users if not below(module, "abiscan.cli", "abiscan.hooks", "abiscan.matrix")} == set()


def test_only_cli_prints_or_exits() -> None:
    ending = {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write", "click.echo"}
    wrong = {
        (module, call)
        for module in MODULES
        if not below(module, "abiscan.cli", "abiscan.hooks")
        for call in calls(module)
        if call in ending
    }
    assert wrong == set()
    assert "sys.exit" in set(calls("abiscan.cli.check"))  # the search finds what is there


def test_linkage_and_rules_open_no_files() -> None:
    reading = {"pathlib", "io", "os", "mmap", "zipfile", "subprocess", "shutil", "glob", "tempfile"}
    concerned = [module for module in MODULES if below(module, "abiscan.linkage", "abiscan.rules")]
    wrong = {(module, name) for module in concerned for name in imports(module) if name in reading}
    wrong |= {(module, call) for module in concerned for call in calls(module) if call == "open"}
    assert wrong == set()


def test_no_cycles() -> None:
    edges = {
        module: {name for name in imports(module, at_run_time=True) if name in MODULES and name != module}
        for module in MODULES
    }
    rest = dict(edges)
    while free := [module for module, names in rest.items() if not names & set(rest)]:
        for module in free:
            del rest[module]
    assert rest == {}
