"""What the reading of Python code says about packages in miniature, against what importing them does."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from abiscan.cpu.processors import Cpu
from abiscan.inputs import interpreter
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer, Channel, LoadedBy, NoResult, Raised, Registers
from abiscan.python.reading import read_package
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD
from tests import live_torch
from tests.oracle.python_packages import PACKAGES
from tests.unit.python.packages import FolderSources

SAMPLES = Path(__file__).parents[2] / "sample_binaries"
IMPORTER = Path(__file__).with_name("import_packages.py")
pytestmark = pytest.mark.skipif(
    live_torch.version() != "2.13.0" or sys.version_info[:2] != (3, 11), reason="the samples are for torch 2.13.0"
)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("@"):
            shutil.copyfile(SAMPLES / content[1:], path)
        else:
            path.write_text(content, "utf-8")


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What importing each package does, and the folder that has it."""
    root = tmp_path_factory.mktemp("packages")
    for name, files in PACKAGES.items():
        _write(root / name / name, files)
    done = live_torch.run(IMPORTER.read_text("utf-8"), *(root / name for name in PACKAGES), check=True)
    operators, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["module"]: {**line, "folder": root / line["module"], "of_torch": set(operators)} for line in lines}


class RecordedWorld:
    """The interpreter that the packages were imported by, with what their loads did."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.torch_version: str | Answer = live_torch.build() or Answer.UNKNOWN
        self.cuda: str | Answer | None = None
        self.python: tuple[int, int] | Answer = (3, 11)
        self.oldest_python: tuple[int, int] | None = (3, 11)
        self.newest_python: tuple[int, int] | None = (3, 11)
        self.machine = "x86_64"
        self.cxx11_abi: bool | Answer = True
        self.cpu: Cpu | None = None
        self.gpus: tuple[tuple[int, int], ...] = ()
        self.torch_names: TorchNames | None = None
        self._errors = {load["path"]: load.get("error") for load in record["loads"]}
        self._operators = {name for name in record["operators"] if name not in record["registered"]}
        self._operators |= {name for name in record["operators"] if name.startswith("abiscan_loads")}
        self._of_torch = record["of_torch"]
        self._loaded = False

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """What the load raised."""
        if path is None:
            return Answer.UNKNOWN
        assert path in self._errors, f"{path} was not loaded"
        error = self._errors[path]
        self._loaded = self._loaded or error is None
        kind = "ImportError" if loader is LoadedBy.IMPORT else "OSError"
        return None if error is None else Raised(exception=kind, message=error, at=None)

    def operator(self, name: str) -> bool | Answer:
        """Whether there was such an operator."""
        name = name.removesuffix(DEFAULT_OVERLOAD)
        return name in self._of_torch or (self._loaded and name in self._operators)

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        """What operators return was not recorded."""
        return NoResult(reason=f"what {operator} returns was not recorded")

    def refused_load(self, path: str) -> str | None:
        """Nothing was recorded of it."""


def _chain(raised: Raised | None) -> list[list[object]]:
    return [] if raised is None else [[raised.exception, raised.message], *_chain(raised.cause)]


@pytest.mark.parametrize("name", PACKAGES)
def test_ends_as_the_import_does(name: str, recorded: dict[str, dict[str, Any]]) -> None:
    record = recorded[name]
    installed = interpreter.installed_torch()
    around = Surroundings(torch_folder=installed, installed=lambda module: importlib.util.find_spec(module) is not None)
    reading = read_package(FolderSources(record["folder"]), (), lambda: RecordedWorld(record), surroundings=around)
    outcome = reading.imports[0]
    assert not isinstance(outcome.raised, Answer), outcome
    assert _chain(outcome.raised) == record["chain"]
    assert (str(outcome.raised.at) if outcome.raised else None) == record["at"]
    loads = [(load.path, str(load.at), load.raised is None) for load in outcome.loads]
    assert loads == [(load["path"], load["at"], "error" not in load) for load in record["loads"]]
    assert not outcome.gaps
    assert not outcome.conditions


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("warned", "no extension", Channel.WARNING),
        ("logged", "failed", Channel.LOG),
        ("logged_unseen", "failed", Channel.NOTHING),
        ("printed", "no", Channel.PRINT),
    ],
)
def test_says_what_users_see(name: str, words: str, told: Channel, recorded: dict[str, dict[str, Any]]) -> None:
    record = recorded[name]
    done = live_torch.run(f"import torch; print('----'); import {name}", cwd=record["folder"], check=True)
    seen = done.stdout.partition("----")[2] + done.stderr
    (load,) = read_package(FolderSources(record["folder"]), (), lambda: RecordedWorld(record)).imports[0].loads
    assert load.told is told
    assert (words in seen) == (told is not Channel.NOTHING)


def test_registers_what_the_dispatcher_gets(recorded: dict[str, dict[str, Any]]) -> None:
    record = recorded["registers"]
    reading = read_package(FolderSources(record["folder"]), (), lambda: RecordedWorld(record))
    said = reading.imports[0].registrations
    real = {
        (name, re.split(r"\W", line)[0])
        for name, lines in record["registered"].items()
        for line in lines
        if "registered at" in line and not line.startswith(("schema", "debug"))
    }
    assert {(one.operator, one.key) for one in said if one.key} == real
    defined = {name for name in record["operators"] if name.startswith("abiscan_python")}
    assert {one.operator for one in said if one.what is Registers.DEFINITION} == defined
    assert not any(one.is_conditional for one in said)


@pytest.mark.parametrize(
    "module",
    [
        "torch.nn.functional",
        "torch._inductor.utils",
        "torch.onnx.symbolic_helper",
        "torch.distributed._shard.checkpoint.planner",  # another module by this name
    ],
)
def test_a_name_that_a_module_of_torch_has_is_never_said_to_be_absent(module: str) -> None:
    code = f"import json, importlib; print(json.dumps(dir(importlib.import_module({module!r}))))"
    done = live_torch.run(code, check=True)
    around = Surroundings(torch_folder=interpreter.installed_torch())
    names = [name for name in json.loads(done.stdout.splitlines()[-1]) if not name.startswith("__")]
    assert [name for name in names if around.has(module, name) is False] == []


@pytest.mark.parametrize(
    ("code", "entry"),
    [
        ("import torch\n", "backend_of_test.load:start"),
        pytest.param("import torch\n", "backend_of_test.load:fine", marks=pytest.mark.long),
        ("import torch\n\ndef start():\n    pass\n", "backend_of_test:start"),  # it is not there yet
        pytest.param("def start():\n    pass\n\nimport torch\n", "backend_of_test:start", marks=pytest.mark.long),
        pytest.param(
            "import os\nos.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\nimport torch\n",
            "backend_of_test.load:start",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_torch_loads_as_it_is_imported(code: str, entry: str, tmp_path: Path) -> None:
    files = {
        "backend_of_test/__init__.py": code,
        "backend_of_test/load.py": "def start():\n    raise OSError('no device')\n\ndef fine():\n    pass\n",
        "backend_of_test-1.0.dist-info/METADATA": "Name: backend-of-test\nVersion: 1.0\n",
        "backend_of_test-1.0.dist-info/entry_points.txt": f"[torch.backends]\nof_test = {entry}\n",
    }
    _write(tmp_path, files)
    program = "import json\nchain = []\ntry:\n    import backend_of_test\nexcept Exception as error:\n"
    program += "    chain = [[type(e).__name__, str(e)] for e in (error, error.__cause__)]\nprint(json.dumps(chain))\n"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    record: dict[str, Any] = {"loads": [], "operators": [], "registered": {}, "of_torch": set()}
    outcome = read_package(FolderSources(tmp_path), ("backend_of_test",), lambda: RecordedWorld(record)).imports[0]
    assert not isinstance(outcome.raised, Answer)
    real = json.loads(done.stdout.splitlines()[-1])
    assert [[name, str(text).replace(f"{tmp_path}/", "")] for name, text in real] == _chain(outcome.raised)
