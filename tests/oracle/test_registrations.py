"""What is recovered without running anything, against what real loads added to the dispatcher."""

from __future__ import annotations

import functools
import gzip
import json
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.dispatch.keys import keys_of
from abiscan.emulation import Phase, recover
from abiscan.extension.examined import examine
from abiscan.extension.inventory import Inventory
from abiscan.inputs.session import Session
from abiscan.inputs.version import TorchVersion
from tests.oracle import corpus
from tests.oracle.corpus import needs_corpus, shared_work  # noqa: F401
from tools import dispatch_dumps
from tools.dispatch_dumps import recovered_kernels, recovered_schemas

SAMPLES = Path(__file__).parents[2] / "sample_binaries" / "registrations"
RECORD = json.loads(gzip.decompress(Path(__file__).with_name("registrations.json.gz").read_bytes()))
pytestmark = corpus.one_process


@functools.cache
def inventories(package: str, version: str) -> tuple[Inventory, ...]:
    examined = examine(corpus.wheel(f"{package}-{version}"), Session(store=corpus.store()))
    return tuple(extension.inventory for extension in examined.extensions)


@needs_corpus
@pytest.mark.parametrize(
    "record", RECORD, ids=lambda record: f"{record['package']}-{record['version']}/{record['path']}"
)
def test_recovers_exactly_what_a_recorded_load_registered(record: dict[str, Any]) -> None:
    release = TorchVersion(record["torch"])
    found: Counter[dispatch_dumps.Kernel] = Counter()
    defined: set[tuple[str, str | None]] = set()
    for each in inventories(record["package"], record["version"]):
        if Path(each.path).name in record["libraries"]:  # the library itself, or one that it brings along
            found += recovered_kernels(each.registrations, keys_of(release))
            defined |= recovered_schemas(each.registrations, release)
    expected = Counter(map(tuple, record["kernels"]))
    assert expected - found == Counter(), "missed"
    assert found - expected == Counter(), "made up"
    assert defined == set(map(tuple, record["schemas"]))


@needs_corpus
def test_no_kernel_of_a_recorded_file_is_said_to_contradict_itself() -> None:
    """Each was accepted by a real torch, which made both its C++ type and its schema."""
    typed = 0
    for package, version in sorted({(record["package"], record["version"]) for record in RECORD}):
        for each in inventories(package, version):
            assert [gap.reason for gap in each.gaps if "contradicts" in gap.reason] == [], each.path
            kernels_of = each.registrations.kernels
            typed += sum(kernel.signature is not None and kernel.inferred_schema is not None for kernel in kernels_of)
    assert typed > 500


def test_the_record_is_not_empty() -> None:
    assert sum(len(record["kernels"]) for record in RECORD) > 1_000
    assert sum(len(record["schemas"]) for record in RECORD) > 500


LOAD = """
import ctypes, json, sys, torch
# The samples name no library that they need: let them see what torch has loaded.
for name in ("c10", "torch_cpu", "torch_python"):
    ctypes.CDLL(f"{torch.__path__[0]}/lib/lib{name}.so", ctypes.RTLD_GLOBAL)
before = set(torch._C._dispatch_get_all_op_names())
old = {name: torch._C._dispatch_dump(name) for name in ("aten::relu",)}
known_classes = set(map(str, torch._C._jit_get_custom_class_schemas()))
torch.ops.load_library(sys.argv[1])
new = [name for name in torch._C._dispatch_get_all_op_names() if name not in before]
dumps = {name: torch._C._dispatch_dump(name) for name in new}
changed = {
    name: {
        "added": [line for line in torch._C._dispatch_dump(name).splitlines() if line not in text.splitlines()],
        "removed": [],
    }
    for name, text in old.items()
}
classes = [str(schema) for schema in torch._C._jit_get_custom_class_schemas() if str(schema) not in known_classes]
print(json.dumps({"new_op_dumps": dumps, "changed_ops": changed, "new_class_schemas": classes}))
print(torch.__version__)
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize(
    "name",
    [
        *("library", "library_avx2", "library_avx512", "library_unoptimised", "operators", "classes", "stable"),
        *("defaults", "defaults_release"),
    ],
)
def test_recovers_exactly_what_a_live_load_registers(name: str) -> None:
    path = SAMPLES / f"{name}.so"
    run = subprocess.run([sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, check=False)
    if run.returncode != 0 and "undefined symbol" in run.stderr:
        pytest.skip("needs the torch that the samples were built for")
    assert run.returncode == 0, run.stderr
    dumped, version = run.stdout.splitlines()[-2:]
    truth, release = json.loads(dumped), TorchVersion(version)
    file = ElfFile.open(path)
    found = recover(file, file.facts())
    assert found.gaps == ()
    assert recovered_kernels(found, keys_of(release)) == dispatch_dumps.kernels(truth)
    assert recovered_schemas(found, release) == dispatch_dumps.schemas(truth)
    methods = Counter(method for each in found.classes for method in each.methods)
    assert methods == Counter(schema.partition("(")[0] for schema in truth["new_class_schemas"])


IMPORT = """
import importlib.machinery, importlib.util, json, sys, torch
for name in ("c10", "torch_cpu", "torch_python"):
    import ctypes
    ctypes.CDLL(f"{torch.__path__[0]}/lib/lib{name}.so", ctypes.RTLD_GLOBAL)
def dumps(before):
    return {name: torch._C._dispatch_dump(name) for name in torch._C._dispatch_get_all_op_names() if name not in before}
before = set(torch._C._dispatch_get_all_op_names())
loader = importlib.machinery.ExtensionFileLoader("pybind_sample", sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pybind_sample", loader))
loader.exec_module(module)
imported = dumps(before)
module.register_more("because")
print(json.dumps([imported, dumps(before)]))
print(torch.__version__)
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_recovers_exactly_what_a_live_import_and_a_call_register() -> None:
    path = SAMPLES / "pybind.so"
    run = subprocess.run([sys.executable, "-c", IMPORT, str(path)], capture_output=True, text=True, check=False)
    if run.returncode != 0 and "undefined symbol" in run.stderr:
        pytest.skip("needs the torch and the Python that the samples were built for")
    assert run.returncode == 0, run.stderr
    dumped, version = run.stdout.splitlines()[-2:]
    release = TorchVersion(version)
    file = ElfFile.open(path)
    found = recover(file, file.facts())
    assert found.gaps == ()
    phases = {Phase.STATIC_INIT}
    for phase, dumps in zip((Phase.MODULE_INIT, Phase.ON_CALL), json.loads(dumped), strict=True):
        phases.add(phase)
        truth = {"new_op_dumps": dumps, "changed_ops": {}}
        assert recovered_kernels(found, keys_of(release), phases) == dispatch_dumps.kernels(truth)
        assert recovered_schemas(found, release, phases) == dispatch_dumps.schemas(truth)
