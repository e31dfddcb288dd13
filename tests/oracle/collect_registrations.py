"""Make ``registrations.json.gz``: what each recorded load registered that succeeded.

Read from a folder of recorded loads: ``pairs*.jsonl``, a line per load, and ``registrations/``, for each load that
succeeded what it added to the dispatcher.

    python -m tests.oracle.collect_registrations FOLDER
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from tools import registrations


def main(folder: Path) -> None:
    """Write the record, sorted, so that the same folder gives the same bytes."""
    records = []
    lines = [line for path in sorted(folder.glob("pairs*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    for pair in map(json.loads, lines):
        if pair.get("registrations") and (folder / "registrations" / pair["registrations"]).is_file():
            truth = json.loads(gzip.decompress((folder / "registrations" / pair["registrations"]).read_bytes()))
            methods = registrations.dumped_methods(truth)
            records.append(
                {
                    "package": pair["package"],
                    "version": pair["version"],
                    "path": pair["path"],
                    "torch": pair["torch"],
                    "libraries": sorted(Path(name).name for name in truth["new_libs"]),
                    "kernels": sorted(registrations.dumped_kernels(truth).elements(), key=str),
                    "schemas": sorted(registrations.dumped_schemas(truth)),
                    "methods": None if methods is None else sorted(methods.elements()),
                }
            )
    registrations.RECORD.write_bytes(gzip.compress(json.dumps(records).encode(), mtime=0))
    print(f"{len(records)} loads")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
