"""Whatever loads a library, ends the process or runs data: what the reading says of it, against the import itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.python.package.model import PROCESS_ENDS, Answer, Raised
from abiscan.python.reading import read_package
from tests import live_torch
from tests.oracle import python_packages
from tests.oracle.python_loads import BEFORE, ENDS, LOADERS, RUNNERS
from tests.unit.python.packages import FakeWorld, FolderSources

SAMPLES = Path(__file__).parents[2] / "sample_binaries"
IMPORTER = Path(__file__).with_name("import_packages.py")
PROGRAM = "import sys, torch\ntorch.ops.load_library(sys.modules[{!r}].LIB)\n"
LIBRARIES = {"good": python_packages.GOOD, "bad": python_packages.BAD, "absent": None}
CASES = [
    *((name, code, kind) for name, code in {**LOADERS, **RUNNERS}.items() for kind in LIBRARIES),
    *((name, code, "absent") for name, code in ENDS.items()),
]
OPEN: Final = frozenset({
    "audit_hook", "codecs_register", "copyreg_pickle", "displayhook", "exec_ast", "exec_zlib", "formatwarning",
    "harmless_pickle", "logging_handler", "marshal_loads", "meta_path", "path_hooks", "pickle_load", "pickle_loads",
    "pickle_unpickler",
    "recursion", "recursion_caught", "recursion_class", "recursion_deep_fine", "recursion_init", "recursion_lambda",
    "recursion_mutual", "recursion_property", "setprofile", "settrace", "showwarning", "underscore_pickle",
})  # fmt: skip
"""What code that is not read decides: a gap, where anything depends on it."""
UNSEEN: Final = frozenset(
    f"{name}/absent"
    for name in OPEN
    if name.partition("_")[0] in {"copyreg", "exec", "marshal", "pickle", "underscore"}
)
"""Data that is not read may ask for a library that the package does not have: nothing says so."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        live_torch.version() != "2.13.0" or sys.version_info[:2] != (3, 11), reason="the samples are for torch 2.13.0"
    ),
]


def _write(folder: Path, name: str, code: str, library: str | None) -> None:
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(BEFORE + code.replace("PACKAGE", name), "utf-8")
    for program in re.findall("code|other", code):
        (folder / f"{program}.py").write_text(PROGRAM.format(name), "utf-8")
        (folder / f"{program}.txt").write_text(PROGRAM.format(name), "utf-8")
    if library is not None:
        shutil.copyfile(SAMPLES / library[1:], folder / "lib.so")


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """How the import of each package ends, and the folder that has it."""
    root = tmp_path_factory.mktemp("loads")
    folders = {f"{name}/{kind}": root / kind / name for name, _, kind in CASES}
    for name, code, kind in CASES:
        _write(root / kind / name / name, name, code, LIBRARIES[kind])
    done = live_torch.run(IMPORTER.read_text("utf-8"), *folders.values(), check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()[1:]]
    return {case: {**line, "folder": folders[case]} for case, line in zip(folders, lines, strict=True)}


def _real_end(record: dict[str, Any]) -> str | None:
    if "ended" in record:
        assert os.WIFSIGNALED(record["ended"]) or os.WIFEXITED(record["ended"])
        return PROCESS_ENDS
    return str(record["chain"][0][0]) if record["chain"] else None


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, _, kind in CASES])
def test_ends_as_the_import_does(name: str, kind: str, ends: dict[str, dict[str, Any]]) -> None:
    record = ends[f"{name}/{kind}"]
    error = "undefined symbol: _Z16THPVariable_WrapRKN2at10TensorBaseE"
    world = FakeWorld(error=lambda path: f"{path}: {error}" if kind == "bad" else None)
    outcome = read_package(FolderSources(record["folder"]), (), lambda: world).imports[0]
    if outcome.raised is Answer.UNKNOWN:
        assert name in OPEN
        assert any(f"{name}/__init__.py:" in gap for gap in outcome.gaps)
        return
    assert not isinstance(outcome.raised, Answer)
    said = outcome.raised.exception if isinstance(outcome.raised, Raised) else None
    # An extension module is more than the library of the samples: its own import has no place here.
    is_module = kind == "good" and record["chain"] and "module export" in record["chain"][0][1]
    assert said == (None if is_module or f"{name}/{kind}" in UNSEEN else _real_end(record))
    if said not in {None, PROCESS_ENDS} and isinstance(outcome.raised, Raised):
        assert outcome.raised.message == record["chain"][0][1]
