"""What a fix says is tried: the command is run, and what it leads to is imported by the real torch."""

from __future__ import annotations

import json
import re
import shlex
import zipfile
from pathlib import Path
from typing import Any

import click.testing
import pytest

from abiscan.cli import main
from tests import live_torch
from tests.elf_builder import uses
from tests.fakes import extension, package_wheel
from tests.index_server import serving

pytestmark = pytest.mark.skipif(live_torch.build() != "2.13.0+cpu", reason="needs torch 2.13.0+cpu")

LOAD = "import torch\nfrom pathlib import Path\ntorch.ops.load_library(str(Path(__file__).parent / '_C.so'))\n"
GONE = uses("_ZN2at4goneEv")
OF_CUDA = ("libtorch_cuda.so",)
COMMAND = re.compile(r"\((abiscan fit [^)]+) finds the newest\)")


def run(*words: str | Path) -> Any:
    done = click.testing.CliRunner().invoke(main, [*map(str, words), "--format", "json"])
    return json.loads(done.stdout)


def advice(wheel: Path) -> list[str]:
    """The command in the fix for what stops a wheel on torch 2.13.0+cpu."""
    findings = run("check", wheel, "--torch", "2.13.0+cpu")["results"][0]["findings"]
    (finding,) = (one for one in findings if one["effect"] == "load-fails")
    command = COMMAND.search(finding["fix"])
    assert command, finding["fix"]
    return shlex.split(command[1])[1:]


def works(wheel: Path, folder: Path) -> bool:
    """Whether a package can really be imported."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    done = live_torch.run("import sys, torch\nsys.path.insert(0, sys.argv[1])\nimport pkg", folder)
    return done.returncode == 0


@pytest.mark.parametrize("kind", ["a symbol", "a library of CUDA"])
def test_the_version_that_a_fix_finds_works(kind: str, tmp_path: Path) -> None:
    failing = extension(undefined=GONE) if kind == "a symbol" else extension(needed=OF_CUDA)
    code = {"pkg/__init__.py": LOAD}
    wheels = {
        version: package_wheel(tmp_path / "index", "pkg", {"pkg/_C.so": elf}, version=version, files=code)
        for version, elf in (("1.0", extension()), ("2.0", failing), ("3.0", extension(needed=OF_CUDA)))
    }
    with serving(tmp_path / "index") as index:
        found = run(*advice(wheels["2.0"]), "--index-url", index.url)
    (chosen,) = found["packages"]
    assert chosen["version"] == "1.0"
    assert {version: works(wheel, tmp_path / version) for version, wheel in wheels.items()} == {
        "1.0": True,
        "2.0": False,
        "3.0": False,
    }
