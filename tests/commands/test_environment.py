"""Which environment the commands mean, with real virtual environments, and that they name it first."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import venv
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

import abiscan
from tests.commands.processes import run
from tests.fakes import extension, install, package_wheel, site_of, torch_package

pytestmark = [
    pytest.mark.usefixtures("wheel_index"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
]
NOTHING: Final = {"VIRTUAL_ENV": None, "CONDA_PREFIX": None, "PYTHONPATH": None}


def needed() -> set[Path]:
    """What abiscan needs, as it is installed here, and pip: what else is installed here takes seconds to examine.

    Not abiscan: the metadata of an editable install lead to the test data, which fit no torch.
    """
    names, paths = ["abiscan", "pip"], set()
    for name in names:
        distribution = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or ()}
        paths |= {Path(str(distribution.locate_file(top))) for top in tops if "abiscan" not in top and top != ".."}
        required = [one for one in map(Requirement, distribution.requires or ()) if one.name not in names]
        names += [one.name for one in required if one.marker is None or one.marker.evaluate({"extra": ""})]
    return paths


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three environments, ``own`` with abiscan; each has a torch, and a package of its own name."""
    folder = tmp_path_factory.mktemp("environments")
    for name in ("own", "active", "on_path"):
        venv.create(folder / name, with_pip=False)
        site = site_of(folder / name)
        (torch_package(site) / "__init__.py").touch()
        install(site, "torch", {}, version="9.9.0", requires="")
        install(site, f"in_{name}", {f"in_{name}/_C.so": extension()}, requires="")
        (site / f"in_{name}" / "__init__.py").touch()
    site = site_of(folder / "own")
    for path in needed():
        (site / path.name).symlink_to(path)
    (site / "abiscan").symlink_to(Path(abiscan.__file__).parent)
    package_wheel(folder / "wheels", "pkg", {"pkg/_C.so": extension()}, files={"pkg/__init__.py": ""})
    return folder


def first_line(folder: Path, tmp_path: Path, *words: str, env: dict[str, str | None], code: int = 0) -> str:
    """The line that names the environment, of what abiscan does that is installed in ``own``."""
    more = {"PATH": f"{folder}/on_path/bin:/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path)}
    more["PIP_FIND_LINKS"] = (folder / "wheels").as_uri()
    command = (folder / "own" / "bin" / "python", "-m", "abiscan")
    finished = run(*words, cwd=folder, env={**NOTHING, **more, **env}, command=command)
    assert finished.code == code, finished.err
    if words[0] == "doctor":
        # Its first line says how many distributions work.
        return finished.out.partition("\n")[2].partition(", torch")[0]
    return finished.err.partition("\n")[0].removeprefix("abiscan: ")


@pytest.mark.parametrize(
    ("variable", "name", "origin"),
    [
        (None, "own", "where abiscan is installed"),
        ("VIRTUAL_ENV", "active", "VIRTUAL_ENV"),
        pytest.param("CONDA_PREFIX", "active", "CONDA_PREFIX", marks=pytest.mark.long),
        ("--python", "active", "--python"),
    ],
)
def test_one_rule(variable: str | None, name: str, origin: str, folder: Path, tmp_path: Path) -> None:
    env: dict[str, str | None] = {variable: str(folder / name)} if variable and variable.isupper() else {}
    option = ["--python", str(folder / name)] if variable == "--python" else []
    expected = f"environment {folder / name} ({origin})"
    assert first_line(folder, tmp_path, "doctor", *option, env=env) == expected
    assert first_line(folder, tmp_path, "check", f"in_{name}", *option, env=env) == expected
    if not option:  # test_installs.py has the option
        line = first_line(folder, tmp_path, "pip", "install", "-q", "--no-deps", "--dry-run", "pkg", env=env)
        assert line == expected


def test_pip_installs_into_the_environment_that_abiscan_is_in(folder: Path, tmp_path: Path) -> None:
    first_line(folder, tmp_path, "pip", "install", "-q", "--no-deps", "pkg", env={})
    assert [name for name in ("own", "on_path") if (site_of(folder / name) / "pkg").exists()] == ["own"]


@pytest.mark.parametrize("marker", ["pipx_metadata.json", pytest.param("uv-receipt.toml", marks=pytest.mark.long)])
def test_the_environment_of_a_tool_is_not_meant(marker: str, folder: Path, tmp_path: Path) -> None:
    (folder / "own" / marker).touch()
    try:
        line = first_line(folder, tmp_path, "check", "in_on_path", env={})
        assert line == f"environment {folder / 'on_path'} (python on the search path)"
        line = first_line(folder, tmp_path, "pip", "install", "-q", "--dry-run", "pkg", env={})
        assert line == f"environment {folder / 'on_path'} (python on the search path)"
    finally:
        (folder / "own" / marker).unlink()


def test_what_needs_no_environment_names_none_and_json_stays_json(folder: Path, tmp_path: Path) -> None:
    extension().write(tmp_path / "x.so")
    assert first_line(folder, tmp_path, "check", str(tmp_path / "x.so"), "--torch", "2.13.0", env={}) == ""
    assert first_line(folder, tmp_path, "check", "in_own", "--quiet", env={}) == ""
    command = (folder / "own" / "bin" / "python", "-m", "abiscan")
    finished = run("check", "in_own", "--format", "json", cwd=folder, env=NOTHING, command=command)
    assert json.loads(finished.out)["results"]
