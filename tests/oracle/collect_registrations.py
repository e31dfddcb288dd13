"""Make ``registrations.json.gz``: what each recorded load registered that succeeded.

Read from folders of recorded loads: ``pairs*.jsonl``, a line per load, and ``registrations/``, for each load that
succeeded what it added to the dispatcher. The loads on aarch64 have that in their lines: it is in
``pairs_aarch64.jsonl.gz``, which is always read.

    python -m tests.oracle.collect_registrations FOLDER ...
    python -m tests.oracle.collect_registrations --samples FOLDER    # of the samples for aarch64
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools import ground_truth, registrations

ON_AARCH64 = ground_truth.RECORDS[-1]


def main() -> None:
    """Write the record, sorted, so that the same folders give the same bytes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--samples", action="store_true")
    arguments = parser.parse_args()
    records = [record for folder in arguments.folders for record in _records(folder)]
    if arguments.samples:
        _write(records, registrations.SAMPLE_REGISTRATIONS)
        return
    with gzip.open(ON_AARCH64, "rt", encoding="utf-8") as stream:
        pairs = (json.loads(line) for line in stream)
        records += [
            _record(pair, {**pair, "changed_ops": pair["changed"], "new_libs": [pair["path"]]})
            for pair in pairs
            if pair["verdict"] == "loads"
        ]
    _write(records, registrations.RECORD)


def _write(records: list[dict[str, Any]], output: Path) -> None:
    output.write_bytes(gzip.compress(json.dumps(records).encode(), mtime=0))
    print(f"{len(records)} loads")


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    lines = [line for path in sorted(folder.glob("pairs*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    for pair in map(json.loads, lines):
        path = folder / "registrations" / (pair.get("registrations") or "")
        if not path.is_file():
            continue
        yield _record(pair, json.loads(gzip.decompress(path.read_bytes())))


def _record(pair: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    methods = registrations.dumped_methods(added)
    return {
        "package": pair["package"],
        "version": pair["version"],
        "path": pair["path"],
        "torch": pair["torch"],
        **({"machine": pair["machine"]} if "machine" in pair else {}),
        "libraries": sorted(Path(name).name for name in added["new_libs"]),
        "kernels": sorted(registrations.dumped_kernels(added).elements(), key=str),
        "schemas": sorted(registrations.dumped_schemas(added)),
        "methods": None if methods is None else sorted(methods.elements()),
    }


if __name__ == "__main__":
    main()
