"""Which environment is meant, and that it is not the one of a tool."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import click.testing
import pytest

from abiscan.cli import main
from abiscan.errors import InputError
from abiscan.inputs import environment as environments
from abiscan.inputs.environment import (
    PythonEnvironment,
    choose_environment,
    executable_in,
    heard_by,
    refuse_tool_environment,
    use_environment,
)
from tests.fakes import torch_package


@pytest.fixture(autouse=True)
def unasked() -> None:
    """What one test asked of a Python on the search path is no answer for another."""
    environments._ask_python.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False)
    return folder


def conda(folder: Path) -> Path:
    """An environment as conda makes them, with a link for a Python."""
    (folder / "bin").mkdir(parents=True)
    (folder / "conda-meta").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    return folder


def made_for_a_tool(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let abiscan be installed by pipx."""
    folder.mkdir(exist_ok=True)
    (folder / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(folder))


def test_which_environment_comes_first(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_conda, nothing = conda(tmp_path / "conda"), tmp_path / "nothing"
    nothing.mkdir()
    monkeypatch.setenv("PATH", str(nothing))
    own = PythonEnvironment(python=None, origin="where abiscan is installed")
    assert choose_environment() == own
    monkeypatch.setenv("PATH", str(folder / "bin"))
    assert choose_environment() == own
    with monkeypatch.context() as patch:
        made_for_a_tool(patch, tmp_path / "tool")
        of_path = PythonEnvironment(python=str(folder / "bin" / "python"), origin="python on the search path")
        assert choose_environment() == of_path
        patch.setenv("PATH", str(nothing))
        assert choose_environment() == own  # there is no other
    monkeypatch.setenv("CONDA_PREFIX", str(of_conda))
    assert choose_environment() == PythonEnvironment(python=str(of_conda / "bin" / "python"), origin="CONDA_PREFIX")
    monkeypatch.setenv("VIRTUAL_ENV", str(folder))
    assert choose_environment() == PythonEnvironment(python=str(folder / "bin" / "python"), origin="VIRTUAL_ENV")
    assert choose_environment(str(of_conda)) == PythonEnvironment(
        python=str(of_conda / "bin" / "python"), origin="--python"
    )
    monkeypatch.setenv("VIRTUAL_ENV", str(nothing))  # which was deleted
    assert choose_environment().origin == "CONDA_PREFIX"


def test_a_program_that_chooses_a_python_is_asked_which(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "shims" / "python"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {folder}/bin/python "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    made_for_a_tool(monkeypatch, tmp_path / "tool")
    monkeypatch.setenv("PATH", str(shim.parent))
    assert choose_environment().python == str(folder / "bin" / "python")
    shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    environments._ask_python.cache_clear()
    assert choose_environment() == PythonEnvironment(python=None, origin="where abiscan is installed")


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_one_that_abiscan_runs_in_needs_no_other_python(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, sys.prefix)
    assert choose_environment() == PythonEnvironment(python=None, origin=variable)


def test_how_it_is_named(folder: Path) -> None:
    assert str(choose_environment(str(folder))) == f"{folder} (--python)"
    assert str(PythonEnvironment(python=None, origin="VIRTUAL_ENV")) == f"{sys.prefix} (VIRTUAL_ENV)"
    assert str(choose_environment("/usr/bin/python3.9")) == "/usr/bin/python3.9 (--python)"


def test_a_folder_without_a_python(tmp_path: Path) -> None:
    assert executable_in("/no/such/python") == "/no/such/python"  # whoever runs it will say so
    with pytest.raises(InputError, match="is a folder without bin/python"):
        executable_in(str(tmp_path))


def test_a_folder_names_an_environment_for_every_command(folder: Path) -> None:
    result = click.testing.CliRunner().invoke(main, ["doctor", "--python", str(folder)])
    assert result.exit_code == 2
    # The environment itself, not the Python that it has a link to.
    assert result.stderr.startswith(f"abiscan: {folder}/bin/python: has no torch")
    torch = torch_package(folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages")
    (torch / "__init__.py").touch()
    result = click.testing.CliRunner().invoke(main, ["doctor", "--python", str(folder)])
    assert result.stdout.splitlines()[1] == f"environment {folder} (--python), torch 9.9.0+cpu"


@pytest.mark.parametrize(
    ("prefix", "marker"),
    [
        ("pipx/venvs/abiscan", "pipx_metadata.json"),
        ("uv/tools/abiscan", "uv-receipt.toml"),
        ("anywhere/archive-v0/x1", "../../CACHEDIR.TAG"),
        ("anywhere/builds-v0/.tmpx1", "../../CACHEDIR.TAG"),
    ],
)
def test_nothing_is_installed_into_the_environment_of_a_tool(prefix: str, marker: str, tmp_path: Path) -> None:
    folder = conda(tmp_path / prefix)
    (folder / marker).touch()
    with pytest.raises(InputError, match="is the environment of a tool"):
        refuse_tool_environment(choose_environment(str(folder)))
    result = click.testing.CliRunner().invoke(main, ["pip", "--python", str(folder), "install", "anything"])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[1].startswith(f"abiscan: {folder}: is the environment of a tool (pipx, uv tool)")


def test_who_listens_hears_of_what_is_used() -> None:
    heard: list[PythonEnvironment] = []
    with heard_by(heard.append):
        choose_environment()
        assert heard == []
        chosen = use_environment()
    use_environment()
    assert heard == [chosen]


def test_other_environments_are_no_tools(folder: Path) -> None:
    refuse_tool_environment(choose_environment(str(folder)))
