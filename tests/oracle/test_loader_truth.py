"""Crafted libraries, and what the real ``dlopen`` did with them after ``import torch`` (glibc 2.36, x86-64).

``tools.loader_truth`` made and recorded them: one for each kind of patch and each outcome.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.binary.elf import Machine, SharedObject, ThreadVariables
from abiscan.inputs.files import Files
from abiscan.linkage.model import Module, Process
from abiscan.linkage.resolve import resolve_load
from abiscan.linkage.scope import Loader, SearchPath
from tests.world import shared_object
from tools.loader_truth.cases import Outcome, outcome_of, unpack

TRUTH, LIBRARIES = unpack(Path(__file__).with_name("loader_truth.tar.xz"))


def process_after_import() -> Process:
    """The C library, with the versions and the functions that the crafted libraries know of, and libgomp."""
    libc = shared_object(
        soname="libc.so.6",
        defines=["printf@@GLIBC_2.2.5", "strlen@@GLIBC_2.2.5", "__tls_get_addr@@GLIBC_2.3"],
        versions=["GLIBC_2.33", "GLIBC_2.34", "GLIBC_2.36", "GLIBC_ABI_DT_RELR"],
    )
    python = shared_object(needed=["libc.so.6"])
    modules = (
        Module(path="/usr/bin/python3", facts=python),
        Module(path="/lib/libc.so.6", facts=_with_variables(libc, 0x90)),
        Module(path="/torch/libgomp.so.1", facts=shared_object(soname="libgomp.so.1", static_tls=0x78)),
    )
    names = {module.path.rpartition("/")[2]: module for module in modules}
    return Process(has_python=True, modules=modules, global_scope=modules[:2], names=names)


def _with_variables(facts: SharedObject, size: int) -> SharedObject:
    return SharedObject(
        **{name: getattr(facts, name) for name in facts.__struct_fields__ if name != "thread_variables"},
        thread_variables=ThreadVariables(size=size, alignment=8, lead=0),
    )


def predict(path: Path) -> Outcome:
    process = process_after_import()
    closure = Loader(Files(), SearchPath(), Machine.X86_64).open(process, str(path))
    error = resolve_load(process, closure).error
    if error is None:
        return Outcome(verdict="loads")
    return outcome_of(aborts=error.aborts, name=error.object, message=error.message, signal=error.signal)


@pytest.mark.parametrize("name", TRUTH)
def test_the_loader_and_the_prediction_agree(name: str, tmp_path: Path) -> None:
    for path, content in LIBRARIES.items():
        if path.startswith(f"{name}/"):
            place = tmp_path / path.removeprefix(f"{name}/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    case = TRUTH[name]
    assert predict(tmp_path / "x.so") == Outcome(verdict=case["verdict"], message=case["message"]), case["steps"]
