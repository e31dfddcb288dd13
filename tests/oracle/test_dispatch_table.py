"""The dispatch table that is computed, against the one that torch has: every operator, every key.

Live: the torch of the interpreter that runs the tests (``torch._C._dispatch_dump_table``). Recorded:
``ABISCAN_GROUND_TRUTH`` with ``torch/torch-<version>.json.gz`` (``dumps``, ``tables``; for 1.5.0 ``probe``) and
``registrations``, ``ABISCAN_TORCHES`` with ``<version>/torch``, the package as the wheel has it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from abiscan.dispatch.operators import Operators
from abiscan.dispatch.table import DispatchTable, EntrySource, TableEntry
from abiscan.inputs.files import Files
from abiscan.torches.from_libs import from_path, read_operators
from abiscan.torches.from_python import _dumped_kernels
from tests import live_torch

TRUTH, TORCHES = os.environ.get("ABISCAN_GROUND_TRUTH"), os.environ.get("ABISCAN_TORCHES")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch in this interpreter")
needs_truth = pytest.mark.skipif(not TRUTH or not TORCHES, reason="needs ABISCAN_GROUND_TRUTH and ABISCAN_TORCHES")

# "CPU: fallthrough registered at FILE:LINE [backend fallback]" (OperatorEntry::dumpComputedTable)
LINE = re.compile(r"(?P<key>\w+): (?P<rest>.*)")
OF_PYTHON = re.compile(r"registered at (.*\.py|/dev/null):\d+")
ASK = """
import json, sys, torch
json.dump({
    "version": torch.__version__,
    "tables": {name: torch._C._dispatch_dump_table(name) for name in torch._C._dispatch_get_all_op_names()},
}, sys.stdout)
"""


def printed_entry(entry: TableEntry) -> str:
    if entry.registration is None:
        return f"ambiguous_autogradother [{entry.source.value}]"
    file, line = entry.registration.file, entry.registration.line
    place = "registered by RegisterOperators" if file is None else f"registered at {file}:{line}"
    return f"{'fallthrough ' if entry.is_fallthrough else ''}{place} [{entry.source.value}]"


def printed_row(table: DispatchTable, operator: str) -> list[tuple[str, str]]:
    return [
        (table.printed_key(key), printed_entry(entry))
        for key, entry in ((key, table.entry(operator, key)) for key in table.keys)
        if entry.source is not EntrySource.MISSING
    ]


def read_row(text: str) -> list[tuple[str, str]]:
    return [(match["key"], match["rest"]) for match in filter(None, map(LINE.fullmatch, text.splitlines()))]


def truth(name: str) -> Any:
    assert TRUTH is not None
    return json.loads(gzip.decompress((Path(TRUTH) / name).read_bytes()))


def torch_at(version: str) -> Operators:
    if not (Path(TORCHES or "") / version / "torch").is_dir():
        pytest.skip(f"ABISCAN_TORCHES has no {version}")
    files = Files()
    return read_operators(from_path(Path(TORCHES or "") / version / "torch", files), files)


def release_of(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@needs_torch
def test_every_operator_and_key_of_the_running_torch(running: Operators) -> None:
    answer = json.loads(live_torch.run(ASK, check=True).stdout)
    table = DispatchTable(release_of(answer["version"]), running)
    given = {name: printed_row(table, name) for name in answer["tables"]}
    assert given == {name: read_row(text) for name, text in answer["tables"].items()}
    assert len(given) > 3000


@needs_truth
@pytest.mark.parametrize("version", ["2.5.1", "2.8.0", "2.13.0"])
def test_every_operator_and_key_of_a_recorded_torch(version: str) -> None:
    """With what Python registers read from the recorded dumps: the libraries do not have that."""
    libraries = torch_at(version)
    recorded = truth(f"torch/torch-{version}.json.gz")
    all_kernels = tuple(_dumped_kernels(recorded["dumps"]))
    table = DispatchTable(release_of(version), replace(libraries, kernels=all_kernels))
    given = {name: printed_row(table, name) for name in recorded["tables"]}
    assert given == {name: read_row(text) for name, text in recorded["tables"].items()}
    # Without Python, of what C++ defines, Meta is another; in 2.13.0 one entry for CUDA and one for MPS besides.
    static = DispatchTable(release_of(version), libraries)
    differing: Counter[str] = Counter()
    for name in libraries.operators:
        differing.update({key for key, _ in set(printed_row(static, name)) ^ set(given[name])})
    assert {key: count for key, count in differing.items() if key != "Meta"} in ({}, {"CUDA": 1, "MPS": 1})
    assert differing["Meta"] > 1000


@needs_truth
def test_every_table_that_a_load_added() -> None:
    assert TRUTH is not None
    compared = 0
    bases: dict[str, Operators] = {}
    for path in sorted((Path(TRUTH) / "registrations").iterdir()):
        recorded = truth(f"registrations/{path.name}")
        version = recorded["torch"]
        if version not in bases and (Path(TORCHES or "") / version / "torch").is_dir():
            bases[version] = torch_at(version)
        if version in bases and recorded["new_op_tables"]:
            loaded = replace(bases[version], kernels=tuple(_dumped_kernels(recorded["new_op_dumps"])))
            table = DispatchTable(release_of(version), loaded)
            given = {name: printed_row(table, name) for name in recorded["new_op_tables"]}
            assert given == {name: read_row(text) for name, text in recorded["new_op_tables"].items()}
            compared += len(given)
    assert compared > 300


@needs_truth
def test_the_probe_of_the_time_before_tables() -> None:
    """1.5 was asked which keys an operator has a kernel for; CATCH-ALL serves every other one."""
    recorded: Mapping[str, list[str]] = truth("torch/torch-1.5.0.json.gz")["probe"]
    table = DispatchTable((1, 5), torch_at("1.5.0"))
    fallbacks = set(table.fallbacks)
    for name, (_, *marks) in recorded.items():
        keys = {mark.partition(" ")[0] for mark in marks}
        for key, entry in ((key, table.entry(name, key)) for key in table.keys):
            if key in keys:
                assert entry.source is EntrySource.KERNEL
            elif key in fallbacks:
                assert entry.source is EntrySource.FALLBACK
            else:
                assert entry.source is (EntrySource.CATCH_ALL if "CATCH-ALL" in keys else EntrySource.MISSING)
