from __future__ import annotations

import ast
import base64
import csv
import hashlib
import inspect
import io
import json
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import click.testing
import pytest

import abiscan
from abiscan.cli import main
from abiscan.hooks import guard
from abiscan.inputs import interpreter
from tests import live_torch
from tests.elf_builder import Elf, exports, uses
from tests.fakes import SAMPLES, extension, package_wheel, torch_package

THREADS = "_ZN2at15get_num_threadsEv"
GUARDED = {"pkg/_abiscan_guard.py": inspect.getsource(guard), "pkg/__init__.py": ""}
STAMP = "pkg/_abiscan_stamp.json"


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    return torch_package(tmp_path / "site")


def run(*words: str | Path, code: int = 0) -> str:
    result = click.testing.CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result.output


def stamp(wheel: Path, torch: Path | str) -> Any:
    run("stamp", wheel, "--torch", torch)
    with zipfile.ZipFile(wheel) as archive:
        return json.loads(archive.read(STAMP))


def test_a_stamp_says_what_the_extensions_rely_on(tmp_path: Path, torch: Path) -> None:
    side = Elf(defined=exports("_ZN2at4mineEv"), needed=("libtorch_cpu.so",), undefined=uses(THREADS))
    module = extension(needed=("libside.so", "libc10.so"), undefined=uses("_ZN2at4mineEv"), runpath="$ORIGIN")
    objects = {"pkg/_C.so": module, "pkg/libside.so": side}
    found = stamp(package_wheel(tmp_path, "pkg", objects, files=GUARDED), torch)
    assert (found["package"], found["package_version"], found["built_for"]) == ("pkg", "1.0", "9.9.0+cpu")
    relied = {one["path"]: (one["needed"], one["symbols"]) for one in found["extensions"]}
    assert relied == {"pkg/_C.so": (["libc10.so"], []), "pkg/libside.so": (["libtorch_cpu.so"], [THREADS])}


def test_a_stamped_wheel_works_on_the_build_that_it_is_stamped_for(tmp_path: Path) -> None:
    objects = {"pkg/_C.so": extension(defined=exports("PyInit__C"))}
    files = {**GUARDED, "pkg/__init__.py": f"{INIT}from . import _C\n"}
    wheel = package_wheel(tmp_path, "pkg", objects, files=files)
    assert stamp(wheel, "2.13.0")["built_for"] == "2.13.0+cpu"
    verdicts = [abiscan.check(wheel, torch).packages[0].verdict.value for torch in ("2.13.0", "2.12.0")]
    assert verdicts == ["works", "unknown"]


@pytest.mark.slow
def test_each_of_several_wheels_is_stamped(tmp_path: Path, torch: Path) -> None:
    good = [package_wheel(tmp_path, name, {"pkg/_C.so": extension()}, files=GUARDED) for name in ("one", "two")]
    absent, bare = tmp_path / "absent.whl", package_wheel(tmp_path, "bare", {"pkg/_C.so": extension()})
    output = run("stamp", good[0], absent, bare, good[1], "--torch", torch, code=2)
    assert [line.partition(": ")[0] for line in output.splitlines() if STAMP in line] == list(map(str, good))
    assert f"abiscan: {absent}: " in output
    assert f"abiscan: {bare}: has no guard" in output
    for wheel in good:
        with zipfile.ZipFile(wheel) as archive:
            assert STAMP in archive.namelist()
    run("stamp", *good, "--torch", torch)
    nowhere = run("stamp", absent, "--torch", tmp_path / "nowhere", code=2)
    assert (nowhere.count("\n"), f"{absent}: does not exist" in nowhere) == (1, True)
    no_torch = run("stamp", *good, "--torch", tmp_path / "nowhere", code=2)
    assert no_torch.count("\n") == 1


@pytest.mark.slow
def test_the_wheel_stays_a_wheel(tmp_path: Path, torch: Path) -> None:
    wheel = package_wheel(tmp_path, "pkg", {"pkg/_C.so": extension()}, files=GUARDED)
    wheel.chmod(0o640)
    stamp(wheel, torch)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        assert len(names) == len(set(names))
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(archive.read("pkg-1.0.dist-info/RECORD").decode()))}
        assert set(rows) == set(names)
        for name, (digest, size) in rows.items():
            if not name.endswith("/RECORD"):
                data = archive.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={expected}", str(len(data)))
    assert [path.name for path in tmp_path.glob("*.part")] == []
    assert wheel.stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
def test_the_same_wheel_gives_the_same_bytes(tmp_path: Path, torch: Path) -> None:
    wheel = package_wheel(tmp_path, "pkg", {"pkg/_C.so": extension()}, files=GUARDED)
    copy = shutil.copy(wheel, tmp_path / "copy-1.0-py3-none-linux_x86_64.whl")
    stamp(wheel, torch)
    once = wheel.read_bytes()
    stamp(wheel, torch)
    assert wheel.read_bytes() == once
    assert Path(copy).read_bytes() != once


@pytest.mark.parametrize(
    ("objects", "files", "problem"),
    [
        ({"pkg/_C.so": extension()}, {}, "has no guard to read a stamp (first run abiscan guard --write"),
        ({}, GUARDED, "has no extension of torch"),
        ({"pkg/_C.so": extension(undefined=uses("_ZN2at4goneEv"))}, GUARDED, "does not load on torch 9.9.0+cpu: _C.so"),
        ({"pkg/_C.so": extension()}, {**GUARDED, "pkg-1.0.dist-info/RECORD.jws": ""}, "is signed"),
    ],
)
def test_what_cannot_be_stamped_is_left_alone(
    objects: dict[str, Elf], files: dict[str, str], problem: str, tmp_path: Path, torch: Path
) -> None:
    wheel = package_wheel(tmp_path, "pkg", objects, files=files)
    before = wheel.read_bytes()
    assert problem in run("stamp", wheel, "--torch", torch, code=2)
    assert wheel.read_bytes() == before


def test_the_guard_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    source = Path(guard.__file__).read_text("utf-8")
    (tmp_path / "pkg").mkdir()
    run("guard", "--write", tmp_path / "pkg")
    run("guard", "--write", tmp_path / "other.py")
    assert (tmp_path / "pkg" / "_abiscan_guard.py").read_text("utf-8") == source
    assert (tmp_path / "other.py").read_text("utf-8") == source
    assert run("guard") == source


def test_the_guard_is_one_file_for_old_pythons() -> None:
    tree = ast.parse(Path(guard.__file__).read_text("utf-8"), feature_version=(3, 8))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    standard = {"ctypes", "fnmatch", "json", "os", "sys", "warnings", "pathlib", "typing", "collections.abc"}
    assert imported == {*standard, "__future__", "torch"}


# Beside a real torch.

needs_torch = pytest.mark.skipif(
    (platform.system(), platform.machine(), sys.version_info[:2], live_torch.version())
    != ("Linux", "x86_64", (3, 11), "2.13.0"),
    reason="needs torch 2.13.0 on Python 3.11 and x86_64 Linux",
)
INIT = "from . import _abiscan_guard\n_abiscan_guard.check()\n"
LOAD = "import os, torch\ntorch.ops.load_library(os.path.join(os.path.dirname(__file__), '_C.so'))\n"
TIMED = """
import time
import torch
imported = time.process_time()
from pkg import _abiscan_guard
_abiscan_guard.check()
print((time.process_time() - imported) / imported)
"""


def unpacked(tmp_path: Path, data: bytes, built_for: Path | str, init: str = INIT + LOAD) -> Path:
    """A package of one extension, guarded, stamped for a torch, and installed into a folder."""
    wheel = package_wheel(tmp_path, "pkg", {}, files={**GUARDED, "pkg/__init__.py": init})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("pkg/_C.so", data)
    stamp(wheel, built_for)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    return tmp_path / "installed"


def python(folder: Path, code: str, switch: str = "", *words: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which torch is imported already."""
    return live_torch.run(code, *words, cwd=folder, env={"PATH": "", "ABISCAN_GUARD": switch})


def cold_python(folder: Path, code: str, switch: str = "") -> subprocess.CompletedProcess[str]:
    """Run code in a Python that has to import torch."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PATH": "", "ABISCAN_GUARD": switch},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def installed_torch() -> Path:
    torch = interpreter.installed_torch()
    if torch is None:
        pytest.skip("needs torch")
    return torch


@pytest.mark.long
@pytest.mark.slow
@needs_torch
def test_the_right_torch_costs_next_to_nothing(tmp_path: Path, installed_torch: Path) -> None:
    sample = SAMPLES / "registration_conflicts" / "kernel_override.so"
    folder = unpacked(tmp_path, sample.read_bytes(), installed_torch, "")
    found = json.loads((folder / STAMP).read_text("utf-8"))
    assert found["operators"] == {f"aten::{name}": f"aten::{name}(Tensor self) -> Tensor" for name in ("sinh", "tanh")}
    assert list(found["keys"]) == ["CPU"]
    runs = [cold_python(folder, TIMED, "details") for _ in range(2)]
    assert {(done.returncode, done.stderr.count("could not check")) for done in runs} == {(0, 0)}
    # 10 ms, where Python and torch take 1.5 s to start.
    assert min(float(done.stdout) for done in runs) < 0.03


@pytest.mark.slow
@needs_torch
@pytest.mark.usefixtures("installed_torch")
def test_the_wrong_torch_is_one_line(tmp_path: Path) -> None:
    # sample_binaries/README.md: align_as is no longer in torch 2.13.0, in 2.6.0 it was.
    gone = "_ZN2at4_ops8align_as4callERKNS_6TensorES4_"
    folder = unpacked(tmp_path, extension(undefined=uses(gone)).build(), "2.6.0")
    done = cold_python(folder, "import pkg")
    assert done.returncode == 1
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("ImportError"))
    assert line.startswith(
        f"ImportError: pkg 1.0 was built for torch 2.6.0+cu124 and does not work with torch {live_torch.build()}: "
    )
    assert "OSError" not in done.stderr  # the extension was not touched
    assert gone not in done.stderr
    assert f"pkg/_C.so: undefined symbol: {gone}" in python(folder, "import pkg", "details").stderr
    warned = python(folder, "import pkg", "warn").stderr
    assert "RuntimeWarning: pkg 1.0 was built for torch 2.6.0+cu124" in warned
    assert "OSError" in warned  # as it would be without the guard
    assert "built for torch" not in python(folder, "import pkg", "off").stderr


@pytest.mark.slow
@needs_torch
@pytest.mark.usefixtures("installed_torch")
def test_a_layout_that_changed_is_known_from_the_stamp(tmp_path: Path) -> None:
    # tests/oracle/test_layouts.py: made for torch 2.8.0, this sample ends the process in 2.13.0.
    sample = SAMPLES / "layout_drift" / "crossing.so"
    folder = unpacked(tmp_path, sample.read_bytes(), "2.8.0")
    (stamped,) = json.loads((folder / STAMP).read_text("utf-8"))["extensions"]
    assert "2.8.0" not in stamped["layouts"]
    done = python(folder, "import pkg", "details")
    assert (done.returncode, "ImportError: pkg 1.0 was built for torch 2.8.0" in done.stderr) == (1, True)
    assert "torch::CppFunction (96 → 104 bytes)" in done.stderr


STAMPED = {
    "package": "pkg",
    "package_version": "1.0",
    "built_for": "2.6.0",
    "extensions": [{"path": "pkg/_C.so", "needed": ["libtorch_cpu.so"], "symbols": [THREADS]}],
    "keys": {"CPU": 49},
    "operators": {"aten::tanh": "aten::tanh(Tensor self) -> Tensor"},
}
GONE = {"path": "pkg/_D.so", "needed": ["libtorch_cpu.so"], "symbols": ["_ZN2at4goneEv"]}
CHECKS = """
import json, sys, torch
from pkg import _abiscan_guard as guard
for only, text in json.loads(sys.argv[1]):
    open("stamp.json", "w").write(text)
    try:
        guard.check(only=only, stamp="stamp.json")
        print("fits")
    except ImportError as error:
        print(str(error).splitlines()[-1])
"""


@pytest.mark.parametrize(
    ("built_for", "running", "advice"),
    [
        ("2.6.0+cu124", "2.13.0+cpu", "install torch==2.6.0, or a pkg built for torch 2.13.0"),
        ("2.13.0+cu130", "2.13.0+cpu", "install torch==2.13.0+cu130, or a pkg built for torch 2.13.0+cpu"),
    ],
)
def test_the_advice_names_the_kind_of_build_where_it_matters(built_for: str, running: str, advice: str) -> None:
    line = guard._format_line({**STAMPED, "built_for": built_for}, running, "")
    assert line.endswith(f": {advice} (set ABISCAN_GUARD=details to see why)")


@pytest.mark.slow
@needs_torch
@pytest.mark.usefixtures("installed_torch")
def test_what_changed_is_in_the_details_and_what_is_no_stamp_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name, text in GUARDED.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    cases: list[tuple[list[str], dict[str, Any] | str, str]] = [
        (["*"], {}, "fits"),
        (["*"], {"keys": {"CPU": 7}}, "dispatch key CPU: now 49, was 7"),
        (["*"], {"keys": {"NoSuchKey": 7}}, "dispatch key NoSuchKey: removed, was 7"),
        (
            ["*"],
            {"operators": {"aten::tanh": "aten::tanh(Tensor self, int n) -> Tensor"}},
            "operator aten::tanh: now",
        ),
        (["*"], {"operators": {"aten::gone.x": "aten::gone.x() -> ()"}}, "operator aten::gone.x: removed"),
        (["*"], {"extensions": [{**GONE, "needed": ["libtorch_none.so"]}]}, "pkg/_D.so: libtorch_none.so: not in"),
        (["*"], {"extensions": [GONE]}, "pkg/_D.so: undefined symbol: _ZN2at4goneEv"),
        (["*/_D.so"], {"extensions": [GONE]}, "pkg/_D.so: undefined symbol: _ZN2at4goneEv"),
        (["*/_C.so"], {"extensions": [GONE]}, "fits"),
        *((["*"], text, "fits") for text in ("", "[]", "{}", '{"extensions": 3}')),
    ]
    stamps = [(only, text if isinstance(text, str) else json.dumps({**STAMPED, **text})) for only, text, _ in cases]
    done = python(tmp_path, CHECKS, "details", json.dumps(stamps))
    assert done.returncode == 0, done.stderr
    for (_, _, expected), line in zip(cases, done.stdout.splitlines(), strict=True):
        assert line.strip().startswith(expected)
    assert done.stderr.count("could not check") == 4
