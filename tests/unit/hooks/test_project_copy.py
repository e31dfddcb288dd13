"""The copy of a project in which its tool locks: what the tool may write there must not reach the project."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.hooks.install import InstallerError
from abiscan.hooks.project_copy import ProjectCopy
from abiscan.hooks.project_tool import read_command
from abiscan.hooks.project_tools import UV


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called uv that appends its words to the lock, and fails for the package ``bad``."""
    script = tmp_path / "bin" / "uv"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\ncase "$*" in *bad*) echo "no bad in $PWD" >&2; exit 2;; esac\necho "$*" >> uv.lock\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    return script


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "space" / "project"
    for name in ("src/pkg/a.py", ".git/HEAD", ".venv/bin/python", "data/large.bin", "pyproject.toml", "uv.lock"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    (folder / "data" / "large.bin").write_bytes(bytes((4 << 20) + 1))
    (folder / "linked.toml").symlink_to(folder / "pyproject.toml")
    (folder / "gone").symlink_to("nowhere")
    (folder.parent / "beside").mkdir()
    return folder


def copied(project: Path, tmp_path: Path) -> ProjectCopy:
    (tmp_path / "scratch").mkdir()
    return ProjectCopy(UV, project, tmp_path / "scratch")


@pytest.mark.usefixtures("uv")
def test_what_is_copied_and_what_is_linked(project: Path, tmp_path: Path) -> None:
    copy = copied(project, tmp_path)
    there = {path.relative_to(copy.root).as_posix(): path.is_symlink() for path in copy.root.rglob("*")}
    assert {name: linked for name, linked in there.items() if not name.startswith(".git/")} == {
        **dict.fromkeys(("src", "src/pkg", "src/pkg/a.py", "data", "pyproject.toml", "uv.lock", "linked.toml"), False),
        **dict.fromkeys((".git", "data/large.bin", "gone"), True),
    }
    assert (copy.root / "gone").readlink() == Path("nowhere")
    assert (copy.root / ".." / "beside").resolve() == project.parent / "beside"
    for name in ("linked.toml", "src/pkg/a.py"):
        (copy.root / name).write_text("changed")
    assert (project / "pyproject.toml").read_text() == "pyproject.toml\n"
    assert (project / "src/pkg/a.py").read_text() == "src/pkg/a.py\n"


@pytest.mark.usefixtures("uv")
def test_the_tool_locks_in_the_copy_alone(project: Path, tmp_path: Path) -> None:
    copy = copied(project, tmp_path)
    command = read_command(UV, ["lock", "--upgrade-package", "torch"])
    assert command is not None
    copy.run(command)
    assert copy.add(["torch==2.9.1"], [], of_index=False)
    assert not copy.add(["bad==1"], [], of_index=False)
    first, *more = copy.lock.read_text().splitlines()
    assert (first, more) == ("uv.lock", ["lock --upgrade-package torch", more[-1]])
    assert more[-1].split()[0] == "add"
    assert "torch==2.9.1" in more[-1]
    assert (project / "uv.lock").read_text() == "uv.lock\n"


def test_what_the_tool_says_names_the_project(uv: Path, project: Path, tmp_path: Path) -> None:
    copy = copied(project, tmp_path)
    command = read_command(UV, ["add", "bad"])
    assert command is not None
    with pytest.raises(InstallerError) as error:
        copy.run(command)
    assert f"no bad in {project}" in str(error.value)
    copy.lock.unlink()
    uv.write_text("#!/bin/sh\n")
    with pytest.raises(InputError, match=r"has written no uv\.lock"):
        copy.run(command)
