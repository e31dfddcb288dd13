"""``doctor`` on a torch that cannot be imported: the last line of what Python says, from the running torch's files."""

from __future__ import annotations

import json
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import live_torch
from tests.commands.processes import run
from tests.elf_builder import Elf
from tests.fakes import install, site_of, torch_package

pytestmark = [pytest.mark.slow, pytest.mark.skipif(live_torch.build() is None, reason="needs torch")]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return live_torch.linked_environment(tmp_path / "environment")


def remove_library(site: Path) -> None:
    (site / "torch" / "lib" / "libshm.so").unlink()


def cut_library(site: Path) -> None:
    (site / "torch" / "lib" / "libc10.so").unlink()
    (site / "torch" / "lib" / "libc10.so").write_bytes(b"x")


def empty_library(site: Path) -> None:
    (site / "torch" / "lib" / "libtorch.so").unlink()
    (site / "torch" / "lib" / "libtorch_cpu.so").unlink()
    for name in ("libtorch.so", "libtorch_cpu.so"):
        Elf(soname=name).write(site / "torch" / "lib" / name)


def remove_requirement(site: Path) -> None:
    (site / "typing_extensions.py").unlink()
    for path in (site / "typing_extensions-4.15.0.dist-info").iterdir():
        path.unlink()
    (site / "typing_extensions-4.15.0.dist-info").rmdir()


def replace_requirement(site: Path) -> None:
    """Install an older version, which does not have all names."""
    text = (site / "typing_extensions.py").read_text("utf-8").replace("TypeIs", "TypeIz")
    remove_requirement(site)
    install(site, "typing_extensions", {}, version="4.5.0", requires="", files={"typing_extensions.py": text})


@pytest.mark.parametrize(
    "damage",
    [
        remove_library,
        pytest.param(cut_library, marks=pytest.mark.long),
        empty_library,
        remove_requirement,
        replace_requirement,
    ],
)
def test_it_says_what_python_says(site: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(site)
    python = tmp_path / "environment" / "bin" / "python"
    real = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True, check=False)
    said = real.stderr.splitlines()[-1]
    done = run("doctor", "--no-index", "--python", str(python), "--format", "json")
    state = json.loads(done.out)["torch"]
    assert (done.code, state["imports"], state["error"]) == (1, False, said)
    if damage is remove_library:
        text = run("doctor", "--no-index", "--python", str(python))
        assert text.out.splitlines()[0] == f"torch itself cannot be imported: {said}"


@pytest.mark.usefixtures("site")
def test_a_torch_that_works_is_known_to(tmp_path: Path) -> None:
    python = tmp_path / "environment" / "bin" / "python"
    done = run("doctor", "--no-index", "--python", str(python), "--format", "json")
    assert (done.code, json.loads(done.out)["torch"]["imports"]) == (0, True)


def test_imports_are_tried_only_if_somebody_asks(tmp_path: Path) -> None:
    """With a torch of nothing but its libraries, which is imported at once."""
    venv.create(tmp_path / "environment", with_pip=False)
    site, mark = site_of(tmp_path / "environment"), tmp_path / "imported"
    (torch_package(site) / "__init__.py").touch()
    install(site, "torch", {}, version="9.9.0+cpu", requires="")
    python = tmp_path / "environment" / "bin" / "python"
    codes = {
        "good": f"import torch\nopen({str(mark)!r}, 'w').close()\n",
        "bad": "import torch\ntorch.nope\n",
        "ends": "import torch, os\nos.kill(os.getpid(), 9)\n",
    }
    for name, code in codes.items():
        install(site, name, {}, requires="torch", files={f"{name}/__init__.py": code})
    words = ("doctor", "--no-index", "--python", str(python))
    assert (run(*words).code, mark.exists()) == (1, False)
    done = run(*words, "--import")
    assert (done.code, mark.exists()) == (1, True)
    assert "  good: works\n" in done.out
    assert "  bad: fails: AttributeError: module 'torch' has no attribute 'nope'\n" in done.out
    assert "  ends: fails: the process died of SIGKILL\n" in done.out
