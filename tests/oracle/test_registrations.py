"""What is recovered without running anything, against what real loads added to the dispatcher.

Recorded loads: ``ABISCAN_CORPUS`` is a folder ``<package>-<version>/<path in the wheel>``, ``ABISCAN_GROUND_TRUTH`` one
with ``pairs.jsonl`` and ``registrations/``. Live loads need torch and a C++ compiler's runtime, nothing else.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from abiscan.elf import ElfFile
from abiscan.emulation import Phase, Registrations, recover

SAMPLES = Path(__file__).parents[2] / "sample_binaries" / "registrations"
CORPUS, TRUTH = os.environ.get("ABISCAN_CORPUS"), os.environ.get("ABISCAN_GROUND_TRUTH")

# Which torch each package of the corpus was built for, and the keys that occur there (c10/core/DispatchKey.h).
BUILT_FOR = {
    "torchvision-0.20.1": "2.5.1",
    "torchvision-0.21.0": "2.6.0",
    "torchvision-0.23.0": "2.8.0",
    "torchvision-0.24.1": "2.9.1",
    "torchaudio-2.5.1": "2.5.1",
    "torchaudio-2.6.0": "2.6.0",
    "torchaudio-2.8.0": "2.8.0",
    "torchaudio-2.9.1": "2.9.1",
    "intel-extension-for-pytorch-2.6.0": "2.6.0",
    "intel-extension-for-pytorch-2.8.0": "2.8.0",
}
KEYS: dict[str, dict[int, str]] = {
    "2.5.1": {
        26: "AutocastCPU",
        27: "AutocastXPU",
        32: "AutocastCUDA",
        49: "CPU",
        50: "CUDA",
        63: "Meta",
        65: "QuantizedCPU",
        66: "QuantizedCUDA",
        81: "SparseCPU",
        129: "AutogradCPU",
        130: "AutogradCUDA",
        144: "Autograd",
        145: "CompositeImplicitAutograd",
        148: "CompositeExplicitAutograd",
    },
    "2.6.0": {
        26: "AutocastCPU",
        27: "AutocastXPU",
        32: "AutocastCUDA",
        49: "CPU",
        50: "CUDA",
        63: "Meta",
        65: "QuantizedCPU",
        66: "QuantizedCUDA",
        81: "SparseCPU",
        129: "AutogradCPU",
        130: "AutogradCUDA",
        144: "Autograd",
        145: "CompositeImplicitAutograd",
        148: "CompositeExplicitAutograd",
    },
    "2.8.0": {
        25: "AutocastCPU",
        28: "AutocastXPU",
        33: "AutocastCUDA",
        50: "CPU",
        51: "CUDA",
        65: "Meta",
        67: "QuantizedCPU",
        68: "QuantizedCUDA",
        84: "SparseCPU",
        135: "AutogradCPU",
        136: "AutogradCUDA",
        151: "Autograd",
        152: "CompositeImplicitAutograd",
        155: "CompositeExplicitAutograd",
    },
    "2.9.1": {
        25: "AutocastCPU",
        28: "AutocastXPU",
        33: "AutocastCUDA",
        50: "CPU",
        51: "CUDA",
        65: "Meta",
        67: "QuantizedCPU",
        68: "QuantizedCUDA",
        84: "SparseCPU",
        135: "AutogradCPU",
        136: "AutogradCUDA",
        151: "Autograd",
        152: "CompositeImplicitAutograd",
        155: "CompositeExplicitAutograd",
    },
}

# A line of torch._C._dispatch_dump: key, [alias], where registered, :: inferred schema [ flags ].
LINE = re.compile(
    r"(?P<key>\w+)(\[alias\])?( \(inactive\))?: (fallthrough )?registered "
    r"(at (?P<file>.*?):(?P<line>\d+)|by RegisterOperators)( :: (?P<schema>.*?))? \[ .* \]"
)

Kernel = tuple[str, str, str | None, int | None, str | None]


def _parse(operator: str, line: str) -> Kernel | None:
    match = LINE.fullmatch(line)
    if match is None:
        return None
    schema = None if match["schema"] in (None, "(none)") else match["schema"]
    return operator, match["key"], match["file"], int(match["line"]) if match["line"] else None, schema


def _recorded_kernels(truth: dict[str, Any]) -> Counter[Kernel]:
    found: Counter[Kernel] = Counter()
    for operator, dump in truth["new_op_dumps"].items():
        found.update(kernel for line in dump.splitlines() if (kernel := _parse(operator, line)))
    for operator, change in truth["changed_ops"].items():
        # A line that only became inactive, or active again, is in both lists.
        removed = Counter(_parse(operator, line) for line in change["removed"])
        added = Counter(kernel for line in change["added"] if (kernel := _parse(operator, line)))
        for kernel, count in added.items():
            if count > removed[kernel]:
                found[kernel] += count - removed[kernel]
    return found


def _recorded_schemas(truth: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (operator, line.removeprefix("schema: "))
        for operator, dump in truth["new_op_dumps"].items()
        for line in dump.splitlines()
        if line.startswith("schema: ") and line != "schema: (none)"
    }


def _kernels(found: Registrations, keys: dict[int, str]) -> Counter[Kernel]:
    def name(key: int | str | None) -> str:
        return "CompositeImplicitAutograd" if key is None else keys[key] if isinstance(key, int) else key

    return Counter(
        (kernel.operator, name(kernel.dispatch_key), kernel.file, kernel.line, kernel.inferred_schema)
        for kernel in found.kernels
        if kernel.phase is Phase.STATIC_INIT
    )


def _plain(schema: str) -> str:
    """In the form that torch prints: it keeps no spaces, writes 0. for 0.0, and one result without parentheses."""
    text = re.sub(r"(\d\.)0+(?!\d)", r"\1", re.sub(r"\s+", "", schema))
    return text.replace(")->(Tensor)", ")->Tensor")


def _schemas(found: Registrations) -> set[tuple[str, str]]:
    return {
        (operator.name, operator.schema or "")
        for operator in found.operators
        if operator.phase is Phase.STATIC_INIT and not operator.jit_only
    }


def _recover(path: Path) -> Registrations:
    file = ElfFile.open(path)
    return recover(file, file.facts())


def _pairs() -> Iterator[Any]:
    if not CORPUS or not TRUTH or not (Path(TRUTH) / "pairs.jsonl").is_file():
        yield pytest.param({}, marks=pytest.mark.skip(reason="needs ABISCAN_CORPUS and ABISCAN_GROUND_TRUTH"))
        return
    for line in (Path(TRUTH) / "pairs.jsonl").read_text().splitlines():
        pair = json.loads(line)
        built_for = BUILT_FOR.get(pair["corpus"])
        path = Path(CORPUS) / pair["corpus"] / pair["path"]
        if pair["verdict"] == "loads" and pair["torch"].partition("+")[0] == built_for and path.is_file():
            yield pytest.param(pair, id=f"{pair['corpus']}/{pair['path']}")


@pytest.mark.parametrize("pair", list(_pairs()))
def test_recovers_exactly_what_a_recorded_load_registered(pair: dict[str, Any]) -> None:
    assert CORPUS
    assert TRUTH
    with gzip.open(Path(TRUTH) / "registrations" / pair["registrations"], "rt") as stream:
        truth = json.load(stream)
    loaded = [Path(name).name for name in truth["new_libs"]]
    kernels: Counter[Kernel] = Counter()
    schemas: set[tuple[str, str]] = set()
    for path in {path.name: path for path in (Path(CORPUS) / pair["corpus"]).rglob("*.so*")}.values():
        if path.name in loaded:  # the library itself, or one that it brings along
            found = _recover(path)
            kernels += _kernels(found, KEYS[BUILT_FOR[pair["corpus"]]])
            schemas |= _schemas(found)
    expected = _recorded_kernels(truth)
    assert expected - kernels == Counter(), "missed"
    assert kernels - expected == Counter(), "made up"
    assert {(name, _plain(schema)) for name, schema in schemas} == {
        (name, _plain(schema)) for name, schema in _recorded_schemas(truth)
    }


LOAD = """
import ctypes, json, sys, torch
# The samples name no library that they need: let them see what torch has loaded.
for name in ("c10", "torch_cpu", "torch_python"):
    ctypes.CDLL(f"{torch.__path__[0]}/lib/lib{name}.so", ctypes.RTLD_GLOBAL)
before = set(torch._C._dispatch_get_all_op_names())
old = {name: torch._C._dispatch_dump(name) for name in ("aten::relu",)}
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
print(json.dumps({"new_op_dumps": dumps, "changed_ops": changed}))
print(json.dumps({number: name for name, number in
                  ((name, int(key)) for name, key in torch._C.DispatchKey.__members__.items())}))
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize("name", ["library", "library_avx2", "library_unoptimised", "operators", "classes", "stable"])
def test_recovers_exactly_what_a_live_load_registers(name: str) -> None:
    path = SAMPLES / f"{name}.so"
    run = subprocess.run([sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, check=False)
    if run.returncode != 0 and "undefined symbol" in run.stderr:
        pytest.skip("the samples were built for another torch")
    assert run.returncode == 0, run.stderr
    truth, keys = (json.loads(line) for line in run.stdout.splitlines()[-2:])
    found = _recover(path)
    assert found.gaps == ()
    expected = _recorded_kernels(truth)
    kernels = _kernels(found, {int(number): name for number, name in keys.items()})
    assert kernels == expected
    assert {(name, _plain(schema)) for name, schema in _schemas(found)} == {
        (name, _plain(schema)) for name, schema in _recorded_schemas(truth)
    }
