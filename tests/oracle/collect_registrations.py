"""Make ``registrations.json.gz``: what each recorded load registered that succeeded.

Read from folders of recorded loads: ``pairs*.jsonl``, a line per load, and ``registrations/``, for each load that
succeeded what it added to the dispatcher.

    python -m tests.oracle.collect_registrations FOLDER ...
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools import registrations


def main(folders: list[Path]) -> None:
    """Write the record, sorted, so that the same folders give the same bytes."""
    records = [record for folder in folders for record in _records(folder)]
    registrations.RECORD.write_bytes(gzip.compress(json.dumps(records).encode(), mtime=0))
    print(f"{len(records)} loads")


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    lines = [line for path in sorted(folder.glob("pairs*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    for pair in map(json.loads, lines):
        path = folder / "registrations" / (pair.get("registrations") or "")
        if not path.is_file():
            continue
        added = json.loads(gzip.decompress(path.read_bytes()))
        methods = registrations.dumped_methods(added)
        yield {
            "package": pair["package"],
            "version": pair["version"],
            "path": pair["path"],
            "torch": pair["torch"],
            "libraries": sorted(Path(name).name for name in added["new_libs"]),
            "kernels": sorted(registrations.dumped_kernels(added).elements(), key=str),
            "schemas": sorted(registrations.dumped_schemas(added)),
            "methods": None if methods is None else sorted(methods.elements()),
        }


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])))
