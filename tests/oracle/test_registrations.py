"""What is recovered without running anything, against what real loads added to the dispatcher."""

from __future__ import annotations

import functools
import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.dispatch.keys import keys_of
from abiscan.emulation import recover
from abiscan.extension.examined import examine
from abiscan.extension.inventory import Inventory
from abiscan.inputs.session import Session
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import Phase
from tests import live_torch
from tests.oracle import corpus
from tests.oracle.corpus import needs_corpus, shared_work  # noqa: F401
from tests.oracle.test_ground_truth import LARGE, SMALL, SMALL_WHEELS, either_size
from tests.oracle.test_samples import TORCH
from tests.processor import needs_avx2, needs_avx512
from tools import ground_truth, registrations
from tools.registrations import Load, dumped_kernels, dumped_schemas, recovered_kernels, recovered_schemas

SAMPLES = Path(__file__).parents[2] / "sample_binaries" / "registrations"
LOADS = registrations.recorded()


@functools.cache
def fetch_wheels() -> None:
    """Download what the tests of ``.ci/run`` read, unless it is there."""
    loads = [load for load in LOADS if load.corpus not in LARGE]
    ground_truth.fetch(((load.package, load.version, load.machine) for load in loads), corpus.folder())


@functools.cache
def inventories(package: str, version: str, machine: Machine = Machine.X86_64) -> tuple[Inventory, ...]:
    fetch_wheels()
    wheel = ground_truth.wheel(package, version, corpus.folder(), machine)
    examined = examine(wheel, Session(folder=corpus.cache()))
    return tuple(extension.inventory for extension in examined.extensions)


@needs_corpus
@pytest.mark.parametrize(
    "load",
    [
        # To recover all of the largest wheel takes ten seconds; another release has the same.
        pytest.param(
            load, id=f"{load.corpus}/{load.path}-{load.torch}", marks=[pytest.mark.long] * (load.corpus in LARGE)
        )
        for load in LOADS
    ],
)
def test_recovers_exactly_what_a_recorded_load_registered(load: Load) -> None:
    assert registrations.differences(load, inventories(load.package, load.version, load.machine)) == []


def test_recovers_exactly_what_the_loads_of_small_wheels_registered(tmp_path: Path) -> None:
    folder = shutil.copytree(SMALL_WHEELS, tmp_path / "wheels")
    loads = [load for load in LOADS if load.corpus in (*SMALL, "torch-harmonics-0.9.3")]
    assert len(loads) == 25
    assert sum(len(load.schemas) for load in loads) == 24
    wrong = {
        f"{load.corpus} {load.path} on torch {load.torch}": found
        for load, found in ground_truth.compare_registrations(loads, folder)
        if found
    }
    assert wrong == {}


@needs_corpus
@either_size
def test_no_kernel_of_a_recorded_file_is_said_to_contradict_itself(is_large: bool) -> None:
    """Each was accepted by a real torch, which made both its C++ type and its schema."""
    typed, loads = 0, [load for load in LOADS if (load.corpus in LARGE) is is_large]
    for package, version, machine in dict.fromkeys((load.package, load.version, load.machine) for load in loads):
        for each in inventories(package, version, machine):
            assert [gap.reason for gap in each.gaps if "contradicts" in gap.reason] == [], each.path
            kernels_of = each.registrations.kernels
            typed += sum(kernel.signature is not None and kernel.inferred_schema is not None for kernel in kernels_of)
    assert typed > 500


@needs_corpus
@pytest.mark.parametrize(
    "corpus_name", ["metatensor-torch-0.7.6", "metatensor-torch-0.8.5", "vesin-torch-0.3.7", "vesin-torch-0.6.2"]
)
def test_the_builds_of_one_source_for_several_torches_register_the_same(corpus_name: str) -> None:
    """Those up to torch 2.6 have the old layout of strings; what one of them registers was recorded."""
    package, _, version = corpus_name.rpartition("-")
    builds = [each for each in inventories(package, version) if each.path.endswith("_torch.so")]
    assert {"torch-2.6" in build.path for build in builds} == {True, False}
    assert [gap.reason for build in builds for gap in build.gaps] == []
    release = TorchVersion("2.8.0")
    assert len({frozenset(recovered_schemas(build.registrations, release)) for build in builds}) == 1
    methods = [registrations.recovered_methods(build.registrations) for build in builds]
    assert methods[0].total() >= 2
    assert all(each == methods[0] for each in methods)


def test_the_record_is_not_empty() -> None:
    pairs = ground_truth.recorded()
    loaded = [pair for pair in pairs if pair.verdict == "loads"]
    assert {(load.corpus, load.path, load.torch) for load in LOADS} > {
        (pair.corpus, pair.path, pair.torch) for pair in loaded
    }
    assert sum(load.kernels.total() for load in LOADS) > 1_000
    assert sum(len(load.schemas) for load in LOADS) > 500
    assert sum(load.methods.total() for load in LOADS if load.methods) > 1_000


@pytest.mark.parametrize("load", registrations.recorded(registrations.SAMPLE_REGISTRATIONS), ids=lambda load: load.path)
def test_recovers_exactly_what_the_load_of_a_sample_for_aarch64_registered(load: Load) -> None:
    file = ElfFile.open(SAMPLES / load.path)
    assert file.facts().machine is load.machine is Machine.AARCH64
    found = recover(file, file.facts())
    assert [gap for gap in found.gaps if gap.stage == "emulation"] == []
    assert registrations.differences_of(load, [found]) == []


def test_every_sample_for_aarch64_was_loaded() -> None:
    loads = {load.path: load for load in registrations.recorded(registrations.SAMPLE_REGISTRATIONS)}
    assert loads.keys() == {path.name for path in SAMPLES.glob("*_aarch64.so")}
    assert {load.torch for load in loads.values()} == {TORCH}
    # These enter something into other registries, or look operators up.
    without = {name for name, load in loads.items() if not load.kernels and not load.schemas}
    assert without == {"lookups_aarch64.so", "registries_aarch64.so"}


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
        *("library", "library_unoptimised", "operators", "classes", "stable", "defaults", "defaults_release"),
        pytest.param("library_avx2", marks=needs_avx2),
        pytest.param("library_avx512", marks=needs_avx512),
    ],
)
def test_recovers_exactly_what_a_live_load_registers(name: str) -> None:
    path = SAMPLES / f"{name}.so"
    run = live_torch.run(LOAD, path)
    if run.returncode != 0 and "undefined symbol" in run.stderr:
        pytest.skip("needs the torch that the samples were built for")
    assert run.returncode == 0, run.stderr
    dumped, version = run.stdout.splitlines()[-2:]
    truth = json.loads(dumped)
    file = ElfFile.open(path)
    found = recover(file, file.facts())
    assert found.gaps == ()
    load = Load(
        package=name,
        version="",
        path=path.name,
        torch=version,
        libraries=frozenset(),
        kernels=registrations.dumped_kernels(truth),
        schemas=frozenset(registrations.dumped_schemas(truth)),
        methods=registrations.dumped_methods(truth),
    )
    assert registrations.differences_of(load, [found]) == []


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
    run = live_torch.run(IMPORT, path)
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
        assert recovered_kernels(found, keys_of(release), phases) == dumped_kernels(truth)
        assert recovered_schemas(found, release, phases) == dumped_schemas(truth)
