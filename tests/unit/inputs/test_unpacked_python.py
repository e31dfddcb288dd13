"""The Python of an unpacked image, by its files: what a real one in the same place says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.inputs import interpreter, programs
from abiscan.inputs.unpacked_python import describe, find_python

SAYS = "import json, sys; print(json.dumps([sys.version.split()[0], [path for path in sys.path if path]]))"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.mark.parametrize("packages", [True, False])
def test_what_a_python_says_of_itself(tmp_path: Path, *, packages: bool) -> None:
    environment = tmp_path / "opt" / "venv"
    venv.create(environment, system_site_packages=packages, symlinks=True)
    done = subprocess.run(
        [environment / "bin" / "python", "-I", "-c", SAYS], capture_output=True, text=True, check=True
    )
    version, folders = json.loads(done.stdout)
    described = describe("/", str(environment / "bin" / "python"))
    assert described.version == version
    assert described.suffix == sysconfig.get_config_var("EXT_SUFFIX")
    there = {folder for folder in folders if Path(folder).is_dir() and "dist-packages" not in folder}
    assert there <= set(described.folders)


def small_image(root: Path) -> None:
    """A Python of which only what is looked at is there; its executable would leave a trace."""
    local = root / "usr" / "local"
    for path in (
        "bin/python3.12",
        "lib/python3.12/os.py",
        "lib/python3.12/lib-dynload/_x.cpython-312-x86_64-linux-gnu.so",
    ):
        (local / path).parent.mkdir(parents=True, exist_ok=True)
        (local / path).write_bytes(b"")
    (local / "lib" / "libpython3.12.so.1.0").write_bytes(b"\0" + b"3.12.4\0")
    (local / "bin" / "python3").symlink_to("/usr/local/bin/python3.12")


def test_links_lead_inside_of_the_image(tmp_path: Path) -> None:
    small_image(tmp_path)
    site = tmp_path / "opt" / "venv" / "lib" / "python3.12" / "site-packages"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").touch()
    (site / "more.pth").write_text("/srv/code\nimport nothing\n# gone\nmissing\n")
    (tmp_path / "srv" / "code").mkdir(parents=True)
    (tmp_path / "opt" / "venv" / "pyvenv.cfg").write_text("home = /usr/local/bin\nversion = 3.12.4\n")
    (tmp_path / "opt" / "venv" / "bin").mkdir()
    python = tmp_path / "opt" / "venv" / "bin" / "python3"
    python.symlink_to("/usr/local/bin/python3")
    assert find_python(str(tmp_path)) == str(python)
    described = describe(str(tmp_path), str(python))
    assert described.version == "3.12.4"
    assert described.suffix == ".cpython-312-x86_64-linux-gnu.so"
    assert described.code == str(tmp_path / "usr" / "local" / "lib" / "libpython3.12.so.1.0")
    assert described.torch == str(site / "torch" / "__init__.py")
    assert [str(site), str(tmp_path / "srv" / "code")] == [*described.folders[2:4]]


def test_an_environment_inside_of_another_one(tmp_path: Path) -> None:
    """Python 3.10 takes the outer one for the home, and finds its library in the folder that it was built for."""
    small_image(tmp_path)
    for name, home in (("outer", "/usr/local"), ("inner", "/opt/outer")):
        (tmp_path / "opt" / name / "bin").mkdir(parents=True)
        (tmp_path / "opt" / name / "bin" / "python3").symlink_to(f"{home}/bin/python3")
        (tmp_path / "opt" / name / "pyvenv.cfg").write_text(f"home = {home}/bin\nversion = 3.12.4\n")
    described = describe(str(tmp_path), str(tmp_path / "opt" / "inner" / "bin" / "python3"))
    assert described.version == "3.12.4"
    assert described.folders[0] == str(tmp_path / "usr" / "local" / "lib" / "python3.12")


def test_the_python_that_is_named(tmp_path: Path) -> None:
    small_image(tmp_path)
    expected = str(tmp_path / "usr" / "local" / "bin" / "python3")
    assert find_python(str(tmp_path), "/usr/local") == find_python(str(tmp_path), "usr/local/bin/python3") == expected
    with pytest.raises(InputError, match="has no Python /opt/other"):
        find_python(str(tmp_path), "/opt/other")


def test_an_image_without_a_python(tmp_path: Path) -> None:
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "python3").symlink_to("python3")
    with pytest.raises(InputError, match="has no Python in"):
        find_python(str(tmp_path))


def test_the_python_of_an_image_is_never_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is named from within its folder: it may be for another machine."""
    small_image(tmp_path)
    python = tmp_path / "usr" / "local" / "bin" / "python3.12"
    monkeypatch.setattr(interpreter, "_ROOTS", {})
    monkeypatch.setattr(programs, "ask_python", None)
    interpreter.only_read(str(python), str(tmp_path))
    monkeypatch.chdir(python.parent)
    assert interpreter.search_path("./python3.12") == interpreter.search_path(str(python)) != ()
