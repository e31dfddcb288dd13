"""What ``uv tool install`` would install, resolved by the real uv from a folder of wheels."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from abiscan.errors import UnclearPlanError
from abiscan.hooks import uv_tool
from abiscan.hooks.install import InstallerError
from abiscan.hooks.uv import Uv
from abiscan.hooks.uv_tool import check_tool
from abiscan.inputs.session import Session
from abiscan.results.doctor import DistributionState, Origin
from abiscan.results.package import PackageVerdict
from tests.elf_builder import uses
from tests.fakes import extension, package_wheel

GONE = "undefined symbol: _ZN2at4goneEv"


@pytest.fixture
def words(tmp_path: Path, wheel_index: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options for an index with tools for torch 2.13.0: one that works, and one that fails."""
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    # uv asks its own Pythons before those on PATH, and fails where their folder cannot exist, as in the home of tests.
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "pythons"))
    package_wheel(wheel_index, "torch", {}, version="2.13.0")
    for name, library in {"good": extension(), "bad": extension(undefined=uses("_ZN2at4goneEv"))}.items():
        metadata = {"Requires-Dist": "torch==2.13.0"}
        files = {f"{name}/__init__.py": "from . import _C\n"}
        package_wheel(wheel_index, name, {f"{name}/_C.so": library}, files=files, metadata=metadata)
    return ["--no-index", "--find-links", str(wheel_index)]


def problems(tmp_path: Path, *words: str) -> tuple[str, ...]:
    return check_tool(Uv(), words, Session(folder=tmp_path / "kept")).problems


@pytest.mark.slow
def test_what_would_not_work_is_named(tmp_path: Path, words: list[str]) -> None:
    python = ".".join(map(str, sys.version_info[:2]))
    assert problems(tmp_path, "good", *words) == ()
    for chosen in (["--python", python], ["-p", sys.executable]):
        (problem,) = problems(tmp_path, "bad", *chosen, *words)
        assert problem.startswith("bad==1.0 would not work: ")
        assert GONE in problem
    (problem,) = problems(tmp_path, "good", "--with", "bad", "--force", *words)
    assert GONE in problem


def test_what_uv_says_of_a_tool_that_is_not_there(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(InstallerError, match="absent") as raised:
        problems(tmp_path, "absent", *words)
    assert raised.value.code == 1
    assert problems(tmp_path, "absent", "--help") == ()


@pytest.mark.parametrize("given", [("good", "bad"), ("good@latest",), ("good", "--with", "bad@1"), ()])
def test_what_is_not_understood(tmp_path: Path, words: list[str], given: tuple[str, ...]) -> None:
    with pytest.raises(UnclearPlanError, match="is not understood"):
        problems(tmp_path, *given, *words)


@pytest.mark.parametrize(("error", "said"), [("it is damaged\nat 0x10", " it is damaged"), (None, " ")])
def test_what_could_not_be_checked_is_said_in_a_line(error: str | None, said: str) -> None:
    state = DistributionState(
        name="pkg", version="1", origin=Origin.INDEX, verdict=PackageVerdict.UNKNOWN, modules=(), error=error
    )
    assert uv_tool._describe_doubt(state) == f"pkg==1 could not be checked:{said}"
