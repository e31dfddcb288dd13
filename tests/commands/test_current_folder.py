"""No command runs code of the current folder, which may be a stranger's repository, or is disturbed by it."""

from __future__ import annotations

import os
import re
import sys
import venv
from pathlib import Path
from typing import Final

import pytest

from abiscan.hooks.stamp import GUARD
from abiscan.inputs import programs
from tests.commands.processes import run
from tests.fakes import extension, install, package_wheel, site_of, torch_package

pytestmark = [pytest.mark.hostile, pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")]

MODULES: Final = (
    "json pip site sitecustomize usercustomize os codecs linecache runpy torch multiprocessing threading pickle signal "
    "abiscan click pkgutil readline tokenize"
)
PACKAGES: Final = ("encodings", "importlib", "_distutils_hack")
PROGRAMS: Final = ("python", "python3", "pip", "uv", "keyring", "nvidia-smi", "rocm_agent_enumerator", "clang++", "sh")
RAN: Final = "ran.txt"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with a torch, a package that uses it, and pip."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    site = site_of(folder)
    (torch_package(site) / "__init__.py").write_text("import json, pickle, threading\njson.dumps\n", encoding="utf-8")
    install(site, "torch", {}, version="9.9.0", requires="")
    install(site, "installed", {"installed/_C.so": extension()}, requires="")
    (site / "installed" / "__init__.py").touch()
    import pip

    for path in Path(pip.__file__).parents[1].glob("pip*"):
        (site / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something to check, and what runs leaves a trace."""
    folder = tmp_path_factory.mktemp("repository")
    code = f"open({str(folder / RAN)!r}, 'a').write(__name__ + '\\n')\n"
    for name in PACKAGES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(code, encoding="utf-8")
    for name in MODULES.split():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    for name in PROGRAMS:
        (folder / name).write_text(f'#!/bin/sh\necho "$0" >> {folder / RAN}\n', encoding="utf-8")
        (folder / name).chmod(0o755)
    extension().write(folder / "x.so")
    package_wheel(
        folder / "wheels", "pkg", {"pkg/_C.so": extension()}, files={"pkg/__init__.py": "", f"pkg/{GUARD}": ""}
    )
    return folder


COMMANDS: Final = {
    "check x.so": 0,
    "check x.so --python ENVIRONMENT": 0,
    "check installed": 0,
    "check pkg==1.0": 0,
    "matrix x.so --torch 2.13.0": 0,
    "coverage x.so": 2,  # it registers no backend
    "doctor": 0,
    "fit pkg": 0,
    "ops --live --python ENVIRONMENT": 2,  # this torch is no real one
    "pip install --dry-run --quiet pkg": 0,
    "pip list": 0,
    "stable --env": 0,
    "stamp wheels/pkg-1.0-py3-none-linux_x86_64.whl": 0,
    "survey x.so --output OUTPUT/results.jsonl --jobs 1": 0,
    "uv pip install pkg": 2,  # there is no uv
}


@pytest.mark.usefixtures("wheel_index")
@pytest.mark.parametrize("words", COMMANDS)
def test_nothing_of_the_current_folder_runs(words: str, environment: Path, repository: Path, tmp_path: Path) -> None:
    folders = {"ENVIRONMENT": environment, "OUTPUT": tmp_path}
    arguments = [re.sub("^[A-Z]+", lambda match: str(folders[match[0]]), word) for word in words.split()]
    finished = run(
        *arguments,
        cwd=repository,
        env={
            "PATH": f":.:bin:{environment}/bin:/usr/bin:/bin",
            "VIRTUAL_ENV": None if "--python" in words else str(environment),
            "PIP_FIND_LINKS": "wheels",  # pip takes it from the current folder
            "PYTHONPATH": None,
            "PYTHONSAFEPATH": None,
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
        command=programs.python_command(sys.executable, "-m", "abiscan"),  # like the installed script
    )
    ran = repository / RAN
    assert not ran.exists(), ran.read_text("utf-8")
    assert finished.code == COMMANDS[words], finished.err


def test_a_python_on_the_search_path_is_not_that_of_the_current_folder(
    environment: Path, repository: Path, tmp_path: Path
) -> None:
    variables: dict[str, str | None] = {"VIRTUAL_ENV": None, "CONDA_PREFIX": None, "XDG_CACHE_HOME": str(tmp_path)}
    command = programs.python_command(sys.executable, "-m", "abiscan")
    variables["PATH"] = f".:{os.pathsep}{environment}/bin:/usr/bin:/bin"
    finished = run("check", "x.so", "--python", "python", cwd=repository, env=variables, command=command)
    assert (finished.code, (repository / RAN).exists()) == (0, False), finished.err


def test_python_itself_runs_code_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("open('ran.txt', 'w')", encoding="utf-8")
    run("--version", cwd=tmp_path, env={"PYTHONSAFEPATH": None}, command=(sys.executable, "-c", "import json"))
    assert (tmp_path / RAN).exists()


@pytest.mark.parametrize("value", ["", ":", ".", "./", f":{os.sep}nowhere", "modules:"])
def test_an_empty_entry_in_the_python_path_is_not_the_current_folder(
    value: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PYTHONPATH", value)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    code = "import json, pip, sys; print(json.dumps(sys.path))"
    folders = programs.ask_python(sys.executable, code)
    assert not (repository / RAN).exists()
    assert str(repository) not in folders.replace('"', " ").split()
    assert (str(repository / "modules") in folders) == ("modules" in value)
