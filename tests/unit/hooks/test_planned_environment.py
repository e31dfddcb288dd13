"""What an installation breaks around it: real pip, and imports that really work before and fail afterwards."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

import click.testing
import msgspec.structs
import pytest

from abiscan.cli import main
from abiscan.environments.model import wheel_uses_torch
from abiscan.hooks.install import Inspection, Inspector
from abiscan.hooks.plan import Plan, Planned
from abiscan.inputs.packages import FetchedWheel
from abiscan.inputs.session import Session
from tests.elf_builder import exports
from tests.fakes import extension, install, package_wheel, site_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("warm_pip"),
    pytest.mark.skipif((platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="needs x86_64 Linux"),
]


@pytest.fixture(autouse=True)
def index(wheel_index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index; what abiscan hands over to runs, but does not replace the tests."""

    def execvp(_: str, program: list[str]) -> None:
        raise SystemExit(subprocess.run(program, capture_output=True, check=False).returncode)

    monkeypatch.setattr(os, "execvp", execvp)
    return wheel_index


def pip(python: str, *words: str) -> tuple[int, str]:
    result = click.testing.CliRunner().invoke(main, ["pip", "--python", python, "install", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr


def imported(python: str, module: str) -> str:
    """What Python says of an import, with a torch that has nothing in it."""
    command = [python, "-c", f"import sys, types; sys.modules['torch'] = types.ModuleType('torch'); import {module}"]
    return (subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines() or [""])[-1]


LOWER = {"lower/__init__.py": "", "lower/dtypes/__init__.py": "", "lower/dtypes/nf4.py": "class Tensor: pass\n"}
MOVED = {"lower/__init__.py": "", "lower/prototype.py": "class Tensor: pass\n"}


@pytest.mark.parametrize(
    ("line", "new", "error"),
    [
        ("from lower.dtypes.nf4 import Tensor", MOVED, "ModuleNotFoundError: No module named 'lower.dtypes'"),
        pytest.param(
            *("import lower.dtypes.nf4", MOVED, "ModuleNotFoundError: No module named 'lower.dtypes'"),
            marks=pytest.mark.long,
        ),
        (
            "from lower.dtypes.nf4 import Tensor",
            {**LOWER, "lower/dtypes/nf4.py": ""},
            "ImportError: cannot import name 'Tensor' from 'lower.dtypes.nf4'",
        ),
        ("try:\n    import lower.dtypes.nf4\nexcept ImportError:\n    pass", MOVED, ""),
        ("def use():\n    import lower.dtypes.nf4", MOVED, ""),
        ("import lower", MOVED, ""),
    ],
)
def test_what_an_upgrade_breaks(
    python: str, index: Path, environment: Path, line: str, new: dict[str, str], error: str
) -> None:
    site = site_of(environment)
    install(site, "lower", {}, version="0.10", requires="", files=LOWER)
    install(site, "upper", {}, requires="", files={"upper/__init__.py": f"import torch\n{line}\n"})
    package_wheel(index, "lower", {}, version="0.18", files=new, tag="py3-none-any")
    assert imported(python, "upper") == ""
    code, said = pip(python, "-U", "lower")
    assert (code, "the installed upper 1.0 will not work with lower 0.18: " in said) == (int(bool(error)), bool(error))
    # The path in Python's own words, which says where the file is once it is installed.
    assert f" ({site}/lower/" in said if "cannot import name" in error else True
    assert error in said
    # What is true: the same with the new version in place.
    assert pip(python, "-U", "lower", "--force")[0] == 0
    assert imported(python, "upper").startswith(error)
    if error:  # it is broken already now: that is no reason to stop
        package_wheel(index, "lower", {}, version="0.19", files=new, tag="py3-none-any")
        assert pip(python, "-U", "lower")[0] == 0


def test_a_library_of_another_package_that_is_gone(python: str, index: Path, environment: Path) -> None:
    site = site_of(environment)
    library = extension(soname="libshared.so", needed=("libc.so.6",), defined=exports("shared"))
    code = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libshared.so'))\n"
    install(site, "lower", {"lower/libshared.so": library}, requires="", files={"lower/__init__.py": code})
    using = extension(needed=("libtorch_cpu.so", "libshared.so"))
    install(site, "upper", {"upper/_C.so": using}, files={"upper/__init__.py": "import lower\nfrom . import _C\n"})
    package_wheel(index, "lower", {}, version="2.0", files={"lower/__init__.py": ""})
    code_, said = pip(python, "-U", "lower")
    assert (code_, "the installed upper 1.0 will not work with lower 2.0: " in said) == (1, True), said


@pytest.mark.parametrize(("line", "fails"), [("import lower", True), ("def f():\n    import lower", False)])
def test_a_package_installed_without_its_requirements(python: str, index: Path, line: str, fails: bool) -> None:
    package_wheel(index, "lower", {}, files={"lower/__init__.py": ""}, tag="py3-none-any")
    files = {"upper/__init__.py": f"import torch\n{line}\n"}
    package_wheel(index, "upper", {}, files=files, metadata={"Requires-Dist": "lower>=1"}, tag="py3-none-any")
    code, said = pip(python, "--no-deps", "upper")
    assert code == int(fails)
    if fails:
        assert "upper 1.0 will not work with what would be installed, without lower>=1: ModuleNotFoundError" in said
        assert "No module named 'lower'" in said
        assert pip(python, "--no-deps", "upper", "--force")[0] == 0
        assert imported(python, "upper") == "ModuleNotFoundError: No module named 'lower'"
        assert pip(python, "--no-deps", "--force-reinstall", "upper", "lower")[0] == 0
    else:
        assert "abiscan: upper 1.0 requires lower>=1, which will not be there" in said
        assert imported(python, "upper") == ""


def planned(wheel: Path, sha256: str = "") -> Planned:
    name, version, *_ = wheel.name.split("-")
    url = f"{wheel.as_uri()}#sha256={sha256}" if sha256 else wheel.as_uri()
    return Planned(name=name, version=version, url=url, wheel=True, requires=None)


def test_what_was_examined_of_a_plan_is_kept_until_anything_changes(
    python: str, index: Path, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the changes makes a real import fail, or pip complain; to change it back gives the first answer again."""
    site, examined = site_of(environment), list[str]()
    info = install(site, "lower", {}, requires="", files={"lower/__init__.py": "class Tensor: pass\n"})
    code = {"upper/__init__.py": "import torch\nfrom lower import Tensor\n"}
    inspect = Inspector._inspect

    def noted(self: Inspector, plan: Plan, requested: set[str]) -> Inspection:
        examined.append("")
        return inspect(self, plan, requested)

    monkeypatch.setattr(Inspector, "_inspect", noted)

    def build(marker: str) -> Path:
        required = {"Requires-Dist": f"lower>=1\nRequires-Dist: absent; {marker}"}
        return package_wheel(index, "upper", {}, files=code, metadata=required, tag="py3-none-any")

    def said() -> tuple[str, bool]:
        """What is said of the plan, and whether it was examined for that."""
        time.sleep(0.05)  # what has changed within a tick of the clock is never kept
        examined.clear()
        folder = tmp_path / f"{time.monotonic_ns()}"
        folder.mkdir()
        inspector = Inspector(folder, (), Session(folder=tmp_path / "kept"))
        inspection = inspector.inspect_plan(Plan(python=python, packages=(planned(wheel),)))
        lines = [problem.checked_package.error for problem in inspection.problems]
        return "; ".join([*lines, *inspection.notes]), bool(examined)

    wheel, works = build("python_version < '3'"), ("", True)
    assert [said(), said()] == [works, ("", False)]
    for path, new, error in (
        (site / "lower" / "__init__.py", "", "cannot import name 'Tensor' from 'lower'"),
        (info / "METADATA", "Metadata-Version: 2.1\nName: lower\nVersion: 0.5\n", "requires lower>=1"),
    ):
        old = path.read_text("utf-8")
        path.write_text(new, "utf-8")
        text, again = said()
        assert (error in text, again) == (True, True)
        assert said() == (text, False)
        path.write_text(old, "utf-8")
        assert said() == works
    wheel = build("python_version > '3'")
    text, again = said()
    assert ("requires absent, which will not be there" in text, again) == (True, True)


def test_a_plan_with_other_files_is_another_plan(python: str, index: Path, tmp_path: Path) -> None:
    wheel = package_wheel(index, "upper", {}, files={"upper/__init__.py": "import torch\n"}, tag="py3-none-any")
    time.sleep(0.05)
    for number, sha256 in enumerate(("1" * 64, "1" * 64, "2" * 64)):
        (tmp_path / str(number)).mkdir()
        inspector = Inspector(tmp_path / str(number), (), Session(folder=tmp_path / "kept"))
        inspector.inspect_plan(Plan(python=python, packages=(planned(wheel, sha256),)))
    assert len(list((tmp_path / "kept").glob("*.answer"))) == 2


def test_whether_a_wheel_uses_torch_is_kept_for_other_plans(
    python: str, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = list[str]()

    def look(wheel: FetchedWheel) -> bool:
        looked_at.append(wheel.path.name.partition("-")[0])
        return wheel_uses_torch(wheel)

    def fetch(wanted: list[str], *_: object) -> tuple[Path, ...]:
        return tuple(next(index.glob(f"{text.partition(' ')[0]}-*.whl")) for text in wanted)

    monkeypatch.setattr("abiscan.hooks.install.wheel_uses_torch", look)
    monkeypatch.setattr("abiscan.inputs.packages.fetch_wheels", fetch)
    wheels = [package_wheel(index, name, {}, files={f"{name}.py": ""}, tag="py3-none-any") for name in ("one", "two")]
    one, two = (
        Planned(
            name=path.name[:3], version="1.0", url=f"https://i/{path.name}#sha256={mark * 64}", wheel=True, requires=()
        )
        for path, mark in zip(wheels, "12", strict=True)
    )
    changed = msgspec.structs.replace(two, url=str(two.url).replace("2" * 64, "3" * 64))
    for number, packages in enumerate([(one,), (one, two), (two, one), (changed,)]):
        (tmp_path / str(number)).mkdir()
        inspector = Inspector(tmp_path / str(number), (), Session(folder=tmp_path / "kept"))
        assert inspector.inspect_plan(Plan(python=python, packages=packages)).problems == ()
    assert looked_at == ["one", "two", "two"]
