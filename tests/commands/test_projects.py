"""``abiscan uv`` on projects, with the real uv: what is refused leaves the project as it was, byte for byte."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.commands.processes import ABISCAN, Finished, run
from tests.elf_builder import uses
from tests.fakes import extension, package_wheel

UV = Path(sys.executable).parent / "uv"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"),
        reason="needs x86_64 Linux",
    ),
    pytest.mark.skipif(not UV.is_file(), reason="needs uv"),
]
GONE = uses("_ZN2at4goneEv")
INIT = {"vision/__init__.py": "from . import _C\n"}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder of wheels: of vision, the newest version does not work with the torch that is there."""
    folder = tmp_path / "wheels"
    # What torch has in it is known; only its name and version count here.
    package_wheel(folder, "torch", {}, version="2.13.0", tag="py3-none-any")
    torch = {"Requires-Dist": "torch"}
    package_wheel(folder, "vision", {"vision/_C.so": extension()}, files=INIT, metadata=torch)
    package_wheel(
        folder, "vision", {"vision/_C.so": extension(undefined=GONE)}, version="2.0", files=INIT, metadata=torch
    )
    code = {"metrics/__init__.py": "import torch\nimport vision\n"}
    package_wheel(folder, "metrics", {}, files=code, metadata={"Requires-Dist": "vision"}, tag="py3-none-any")
    package_wheel(folder, "tool", {}, files={"tool.py": ""}, metadata={"Requires-Dist": "vision"}, tag="py3-none-any")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "project"\nversion = "1.0"\nrequires-python = ">=3.10"\n'
        'dependencies = ["metrics", "vision<2"]\n[tool.uv]\nno-index = true\n'
    )
    (folder / "code.py").write_text("import vision\n")
    return folder


def variables(index: Path) -> dict[str, str]:
    return {
        "PATH": f"{UV.parent}{os.pathsep}{os.environ['PATH']}",
        "UV_FIND_LINKS": str(index),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_INSTALL_DIR": str(index.parent / "pythons"),
        "UV_CACHE_DIR": str(index.parent / "uv"),
        "UV_TOOL_DIR": str(index.parent / "tools"),
        "PIP_NO_INDEX": "1",
        "XDG_CACHE_HOME": str(index.parent / "cache"),
        "VIRTUAL_ENV": "",
    }


def uv(project: Path, index: Path, *words: str) -> Finished:
    return run("uv", *words, cwd=project, env=variables(index))


def contents(project: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in project.rglob("*") if path.is_file()}


def test_what_becomes_worse_is_refused_and_leaves_no_trace(project: Path, index: Path) -> None:
    assert uv(project, index, "lock").code == 0
    # A link is followed by uv as it writes.
    (project / "pyproject.toml").rename(project.parent / "elsewhere.toml")
    (project / "pyproject.toml").symlink_to(project.parent / "elsewhere.toml")
    before = contents(project)
    assert str(project / "uv.lock") in before
    refused = uv(project, index, "add", "vision>=2")
    assert refused.code == 1
    assert "vision 2.0 no longer loads" in refused.err
    assert "undefined symbol: _ZN2at4goneEv" in refused.err
    assert "metrics 1.0 no longer loads: because of vision: " in refused.err
    assert "this works: uv add 'vision==1.0'\n" in refused.err
    assert contents(project) == before
    # Somebody insists: uv does what it is told.
    assert uv(project, index, "--force", "add", "--no-sync", "vision>=2").code == 0
    assert b'name = "vision"\nversion = "2.0"' in (project / "uv.lock").read_bytes()
    # A lock that is broken already is not installed for the first time, either.
    before = contents(project)
    refused = uv(project, index, "sync")
    assert (refused.code, contents(project)) == (1, before)


def test_what_is_killed_leaves_no_trace(project: Path, index: Path) -> None:
    before = contents(project)
    for number in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen(
            [*ABISCAN, "uv", "lock"],
            cwd=project,
            env=os.environ | variables(index),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.15)
        process.send_signal(number)
        if process.wait() == 0:  # it was faster than the signal, and has done what it is for
            (project / "uv.lock").unlink()
        assert contents(project) == before


def test_what_is_not_understood_is_refused(project: Path, index: Path) -> None:
    before = contents(project)
    for words in (
        ("sync", "--new-option"),
        ("run", "--with", "vision", "code.py"),
        ("add", "--script", "code.py", "x"),
        ("add", "-r", "/dev/stdin"),
    ):
        refused = uv(project, index, *words)
        assert (refused.code, contents(project)) == (3, before)
        assert "is not understood" in refused.err or "from a pipe are not checked" in refused.err
    # The error of uv, and its exit code.
    failed = uv(project, index, "add", "absent")
    assert (failed.code, contents(project)) == (1, before)
    assert "absent was not found" in failed.err


def test_tools_are_resolved_and_examined(project: Path, index: Path) -> None:
    refused = uv(project, index, "tool", "install", "--no-index", "tool")
    assert refused.code == 1
    assert "vision==2.0 would not work" in refused.err
    assert not (index.parent / "tools").exists()


LOCKS = {
    "poetry": (
        "poetry.lock",
        """[[package]]
name = "vision"
version = "{vision}"
optional = false
python-versions = ">=3.9"
groups = ["main"]
files = []
[package.dependencies]
torch = "*"
[[package]]
name = "torch"
version = "2.13.0"
optional = false
python-versions = ">=3.9"
groups = ["main"]
files = []
[metadata]
lock-version = "2.1"
python-versions = ">=3.10"
""",
    ),
    "pdm": (
        "pdm.lock",
        """[metadata]
groups = ["default"]
lock_version = "4.5.0"
[[package]]
name = "vision"
version = "{vision}"
groups = ["default"]
dependencies = ["torch"]
[[package]]
name = "torch"
version = "2.13.0"
groups = ["default"]
""",
    ),
    "pixi": (
        "pixi.lock",
        """version: 6
environments:
  default:
    packages:
      linux-64:
      - conda: https://channel.example/linux-64/python-3.12.4-h_0.conda
      - pypi: file://{index}/vision-{vision}-py3-none-linux_x86_64.whl
      - pypi: file://{index}/torch-2.13.0-py3-none-any.whl
packages:
- conda: https://channel.example/linux-64/python-3.12.4-h_0.conda
- pypi: file://{index}/vision-{vision}-py3-none-linux_x86_64.whl
  requires_dist: [torch]
- pypi: file://{index}/torch-2.13.0-py3-none-any.whl
""",
    ),
}
TOOL = """#!{python}
import pathlib, sys
words = sys.argv[1:]
lock = pathlib.Path({lock!r})
if words[0] in ("env", "info") or (words[0] == "lock" and lock.exists()):
    sys.exit(words[0] != "lock")
vision = "1.0" if "vision==1.0" in words or words[0] == "lock" else "2.0"
lock.write_text({text!r}.replace("{{vision}}", vision).replace("{{index}}", {index!r}))
print(" ".join(words))
"""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name == "poetry" else name for name in LOCKS]
)
def test_other_tools_lock_a_copy_as_well(project: Path, index: Path, name: str) -> None:
    """With a program in the place of the tool, which writes its lock as the tool does."""
    lock, text = LOCKS[name]
    programs = index.parent / "programs"
    programs.mkdir()
    program = programs / name
    program.write_text(TOOL.format(python=sys.executable, lock=lock, text=text, index=str(index)))
    program.chmod(0o755)
    (project / "pixi.toml").write_text("")
    settings = variables(index) | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PIP_FIND_LINKS": str(index)}

    subprocess.run([program, "lock"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    before = contents(project)
    refused = run(name, "add", "vision", cwd=project, env=settings)
    assert (refused.code, refused.out, contents(project)) == (1, "", before)
    assert "vision 2.0 no longer loads" in refused.err
    assert f"this works: {name} add {'--pypi ' if name == 'pixi' else ''}'vision==1.0'" in refused.err
    if name == "poetry":
        # What does not become worse is done; a lock that is broken already is not installed for the first time.
        assert run(name, "add", "vision==1.0", cwd=project, env=settings).out == "add vision==1.0\n"
        subprocess.run([program, "add", "vision"], cwd=project, check=True, stdout=subprocess.DEVNULL)
        refused = run(name, "install", cwd=project, env=settings)
        assert (refused.code, refused.out) == (1, "")


@pytest.mark.long
@pytest.mark.parametrize("name", ["from an empty folder", "poetry", "pdm"])
def test_the_page_works_from_an_empty_folder(tmp_path: Path, name: str) -> None:
    """The commands of docs/projects.md, with the real index."""
    if name in LOCKS and shutil.which(name) is None:
        pytest.skip(f"needs {name}")
    page = (Path(__file__).parents[2] / "docs" / "projects.md").read_text("utf-8")
    commands = page.partition(f"<!-- {name} -->\n```sh\n")[2].partition("```")[0]
    assert commands.count("\n") >= 3
    folder = tmp_path / "project"
    folder.mkdir()
    settings = {
        "PATH": f"{UV.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "UV_PYTHON_INSTALL_DIR": str(tmp_path / "pythons"),
    }
    done = subprocess.run(
        ["bash", "-euc", commands], cwd=folder, env=os.environ | settings, capture_output=True, text=True, check=False
    )
    if name == "poetry" and "not found" in done.stderr:
        pytest.skip("the index has no JSON API, which poetry asks where a project names no source")
    assert (done.returncode, done.stdout.partition("Python 3.11 on ")[2]) == (
        0,
        "linux_x86_64, torch 2.9.1: 1 distribution uses torch: 1 works\n  ✓ torchvision 0.24.1\n",
    ), done.stderr
