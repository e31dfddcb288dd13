"""Make ``registrations.json.gz``: what each recorded file registered on the torch that it was built for.

Read from a folder of recorded loads: ``pairs.jsonl``, a line per load, and ``registrations/``, for each load that
succeeded what it added to the dispatcher. A file was built for the torch that its wheel asks for; a wheel that asks for
none, for the torch of its own version.

    python -m tests.oracle.collect_registrations FOLDER
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from packaging.requirements import Requirement

from tools import dispatch_dumps

OUTPUT = Path(__file__).with_name("registrations.json.gz")


def main(folder: Path) -> None:
    """Write the record, sorted, so that the same folder gives the same bytes."""
    records = []
    for line in (folder / "pairs.jsonl").read_text("utf-8").splitlines():
        pair = json.loads(line)
        requirements = [Requirement(text).specifier for text in pair["requires"]]
        built_for = pair["torch"] in requirements[0] if requirements else pair["torch"] == pair["version"]
        if pair["verdict"] == "loads" and built_for:
            truth = json.loads(gzip.decompress((folder / "registrations" / pair["registrations"]).read_bytes()))
            records.append(
                {
                    "package": pair["package"],
                    "version": pair["version"],
                    "path": pair["path"],
                    "torch": pair["torch"],
                    "libraries": sorted(Path(name).name for name in truth["new_libs"]),
                    "kernels": sorted(dispatch_dumps.kernels(truth).elements(), key=str),
                    "schemas": sorted(dispatch_dumps.schemas(truth)),
                }
            )
    OUTPUT.write_bytes(gzip.compress(json.dumps(records).encode(), mtime=0))
    print(f"{len(records)} loads")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
