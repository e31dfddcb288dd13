"""Source code of packages: judged by its Python code, and never built."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click.testing
import pytest

import abiscan
from abiscan.cli import main
from abiscan.errors import InputError
from abiscan.pipelines.survey import SurveyTask, SurveyTorches, check_task
from abiscan.results.package import PackageResult

INFO: Final = "Metadata-Version: 2.1\nName: norse\nVersion: 1.1.0\nRequires-Dist: torch\n"
SETUP: Final = "raise SystemExit('setup.py was run')\nfrom torch.utils.cpp_extension import CppExtension\n"
CODE: Final = {
    "norse/__init__.py": "import torch\nfrom norse import _tree\n",
    "norse/_tree.py": "from torch.utils._pytree import register_pytree_node\n",
    "tests/test_norse.py": "import no_such_package\n",
}
"""As norse 1.1.0, which needs torch 2.2 (norse/norse#394)."""


def tar(path: Path, files: Mapping[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"norse-1.1.0/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def zipped(path: Path, files: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"norse-1.1.0/{name}", text)
    return path


def folder(path: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, "utf-8")
    return path


def judge(target: Path, torch: str) -> PackageResult:
    (found,) = abiscan.check(target, torch).packages
    return found


@pytest.mark.parametrize("layout", ["", "src/"])
@pytest.mark.parametrize(
    ("make", "name"), [(tar, "norse-1.1.0.tar.gz"), (zipped, "norse-1.1.0.zip"), (folder, "norse")]
)
def test_the_python_code_is_judged(make: object, name: str, layout: str, tmp_path: Path) -> None:
    files = {f"{layout}{file}": text for file, text in CODE.items()} | {"PKG-INFO": INFO, "setup.py": SETUP}
    assert callable(make)
    target = make(tmp_path / name, files)
    old, new = judge(target, "2.1.2"), judge(target, "2.2.0")
    assert (old.name, old.version, old.module) == ("norse", "1.1.0", "norse")
    assert (old.verdict.value, old.error and old.error.exception) == ("import-fails", "ImportError")
    assert new.verdict.value == "works"
    (condition,) = new.conditions
    assert (condition.kind.value, condition.met) == ("compiler", None)
    assert condition.why == "setup.py compiles an extension of torch: it will be built here, for torch 2.2.0"


@pytest.mark.slow
def test_a_version_without_a_wheel_is_judged_by_its_source(tmp_path: Path) -> None:
    """pip would run its build to download it."""
    tar(tmp_path / "norse-1.1.0.tar.gz", {**CODE, "PKG-INFO": INFO, "setup.py": SETUP})
    words = ["check", "norse==1.1.0", "--no-index", "--find-links", str(tmp_path), "--torch", "2.1.2", "-q"]
    done = click.testing.CliRunner().invoke(main, words)
    assert done.stdout.startswith("norse 1.1.0 on torch 2.1.2+cu121: import fails - ImportError: ")
    assert done.exit_code == 1


@pytest.mark.slow
def test_a_survey_reads_the_same_source(wheel_index: Path) -> None:
    archive = tar(wheel_index / "norse-1.1.0.tar.gz", {**CODE, "PKG-INFO": INFO, "setup.py": SETUP})
    torches = SurveyTorches(specs=("2.1.2",), python=None)
    (line,) = check_task(SurveyTask(target="norse==1.1.0", torches=torches, names=("2.1.2",))).lines
    found = json.loads(line)
    assert (found["package"]["name"], found["verdict"]) == ("norse", "import-fails")
    assert found["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()


@pytest.mark.slow
def test_a_downloaded_archive_is_named_without_its_temporary_folder(tmp_path: Path) -> None:
    archive = tar(tmp_path / "norse-1.1.0.tar.gz", {**CODE, "PKG-INFO": INFO, "setup.py": SETUP})
    words = ["norse==1.1.0", "--no-index", "--find-links", str(tmp_path), "--torch", "2.1.2"]
    shown = click.testing.CliRunner().invoke(main, ["matrix", *words]).stdout
    assert shown.splitlines()[0] == archive.name
    tar(archive, {"readme.txt": "", "main.c": ""})
    refused = click.testing.CliRunner().invoke(main, ["check", *words])
    assert refused.exit_code == 2
    assert f"abiscan: {archive.name}: is an archive of source code" in refused.stderr
    assert "pip wheel --no-deps norse==1.1.0" in refused.stderr


def test_a_folder_of_python_code(tmp_path: Path) -> None:
    target = folder(tmp_path, CODE) / "norse"
    assert judge(target, "2.1.2").verdict.value == "import-fails"
    assert (judge(target, "2.2.0").verdict.value, judge(target, "2.2.0").conditions) == ("works", ())


@pytest.mark.parametrize(("make", "name"), [(tar, "norse-1.1.0.tar.gz"), (folder, "norse")])
def test_modules_that_the_build_makes_of_protobuf(make: object, name: str, tmp_path: Path) -> None:
    """As in hivemind 1.1.10.post2, whose setup.py runs protoc."""
    made = "from norse.proto import dht_pb2, dht_pb2_grpc\nX = dht_pb2.Request(peer=1)\n"
    files = CODE | {
        "norse/__init__.py": f"{made}from norse import _tree\n",
        "norse/proto/dht.proto": "",
        "setup.py": "",
    }
    assert callable(make)
    target = make(tmp_path / name, files)
    error = judge(target, "2.1.2").error
    assert error
    assert (error.exception, error.file) == ("ImportError", "norse/_tree.py")
    assert judge(target, "2.2.0").verdict.value == "works"


def test_a_folder_that_holds_a_package(tmp_path: Path) -> None:
    (tmp_path / "work/pkg").mkdir(parents=True)
    (tmp_path / "work/pkg/__init__.py").write_text("import torch\ntorch.no_such_name\n")
    (package,) = abiscan.check(tmp_path / "work", "2.13.0").packages
    assert package.error
    assert package.error.message == "module 'torch' has no attribute 'no_such_name'"  # as Python words it


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    target = tar(tmp_path / "norse-1.1.0.tar.gz", {"readme.txt": "", "main.c": ""})
    with pytest.raises(InputError, match="is an archive of source code"):
        judge(target, "2.2.0")
