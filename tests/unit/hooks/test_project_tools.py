"""Command lines of the tools for projects: what is understood, and that nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.errors import UnclearPlanError
from abiscan.hooks.project_gate import part_of_project
from abiscan.hooks.project_tool import find_root, read_command
from abiscan.hooks.project_tools import PIXI, POETRY, TOOLS, UV
from abiscan.locks.listed import ListedLock
from abiscan.locks.model import ProjectPart


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("poetry install --with docs,test -E train -v", {"groups": ("docs", "test"), "extras": ("train",)}),
        ("poetry install --without dev --no-root", {"without": ("dev",)}),
        ("poetry install --only main", {"only": ("main",)}),
        ("poetry add -G train torch==2.9.1", {"groups": ("train",), "changes": ("-G", "train", "torch==2.9.1")}),
        ("poetry add --dry-run torch", {"harmless": True}),
        ("poetry add --lock torch", {"harmless": False}),
        ("poetry lock --no-update", {"changes": ("--no-update",), "harmless": False}),
        ("poetry -C sub/folder sync", {"folder": Path("sub/folder")}),
        ("pdm add -dG test pytest", {"groups": ("test",), "changes": ("-d", "-G", "test", "pytest")}),
        ("pdm install -G :all --prod", {"all_groups": True, "dev": False}),
        ("pdm -I install -p ../other", {"folder": Path("../other"), "resolving": ("-I",)}),
        ("pdm update --no-sync torch", {"harmless": False, "changes": ("torch",)}),
        ("pixi install -e train --frozen", {"groups": ("train",), "frozen": True}),
        ("pixi run -e train python --version", {"groups": ("train",), "changes": ()}),
        ("uv sync --extra a --no-dev -qv", {"extras": ("a",), "dev": False, "resolving": ("-q", "-v")}),
        ("uv sync --no-sync", {"harmless": True}),
        ("uv add --optional gpu torch", {"extras": ("gpu",), "changes": ("--optional", "gpu", "torch")}),
    ],
)
def test_what_is_understood(line: str, expected: dict[str, object]) -> None:
    program, *words = line.split()
    command = read_command(TOOLS[program], words)
    assert command is not None
    assert {name: getattr(command, name) for name in expected} == expected


@pytest.mark.parametrize(
    "line",
    [
        "poetry install --new-option",
        "poetry add --optional train torch",  # a flag in poetry 1, and an option with a value in poetry 2
        "poetry frobnicate",
        "poetry install torch",
        "pdm install -g",
        "pdm install -L other.lock",
        "pdm add --frozen-lockfile torch",
        "pixi add --manifest-path other/pixi.toml torch",
        "pixi global install torch",
        "pixi exec python",
    ],
)
def test_what_is_not_understood(line: str) -> None:
    program, *words = line.split()
    with pytest.raises(UnclearPlanError, match="is not understood"):
        read_command(TOOLS[program], words)


@pytest.mark.parametrize("file", ["-", "/dev/stdin", "/proc/self/fd/3"])
def test_requirements_that_can_be_read_once(file: str) -> None:
    with pytest.raises(UnclearPlanError, match="requirements from a pipe are not checked"):
        read_command(TOOLS["uv"], ["add", "-r", file])
    assert read_command(TOOLS["uv"], ["add", "-r", "requirements.txt"]) is not None


@pytest.mark.parametrize("line", ["poetry show", "poetry --version", "pdm run python", "pixi list", "uv pip list"])
def test_what_installs_nothing_in_a_project(line: str) -> None:
    program, *words = line.split()
    assert read_command(TOOLS[program], words) is None


def test_variables_that_lead_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDM_PROJECT", "/elsewhere")
    with pytest.raises(UnclearPlanError, match="PDM_PROJECT selects another project"):
        read_command(TOOLS["pdm"], ["install"])


def test_where_a_project_begins(tmp_path: Path) -> None:
    inner = tmp_path / "member" / "src"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.uv.workspace]\n")
    (tmp_path / "member" / "pyproject.toml").write_text("")
    assert find_root(UV, inner) == tmp_path
    assert find_root(POETRY, inner) == tmp_path / "member"
    assert find_root(PIXI, inner) is None
    (tmp_path / "pixi.toml").write_text("")
    assert find_root(PIXI, inner) == tmp_path


@pytest.mark.parametrize(
    ("line", "part"),
    [
        # What the tools' own help says is installed; the lock has the groups dev (by default), docs and test.
        ("poetry install", ProjectPart()),
        ("poetry install --with docs,other -E train -E none", ProjectPart(extras=("train",), groups=("docs",))),
        ("poetry install --all-extras", ProjectPart(extras=("train", "serve"))),
        ("poetry install --without dev", ProjectPart(dev=False)),
        ("poetry install --without docs", ProjectPart(groups=("dev",), dev=False)),
        ("poetry install --only test", ProjectPart(groups=("test",), dev=False)),
        ("pdm install -G :all", ProjectPart(extras=("train", "serve"), groups=("dev", "docs", "test"))),
        ("uv sync --no-dev", ProjectPart(dev=False)),
        ("uv sync --group test --extra serve", ProjectPart(extras=("serve",), groups=("test",))),
        ("uv sync --all-groups", ProjectPart(groups=("dev", "docs", "test"))),
    ],
)
def test_the_part_of_a_project(line: str, part: ProjectPart) -> None:
    lock = ListedLock(
        path=Path("lock"), entries=(), extras=("train", "serve"), groups=("dev", "docs", "test"), defaults=("dev",)
    )
    program, *words = line.split()
    command = read_command(TOOLS[program], words)
    assert command is not None
    assert part_of_project(command, lock) == part
