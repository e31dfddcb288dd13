"""Add builds of torch to ``abiscan/torches/data/registries.json.gz``: what each has in its other registries.

    python -m tools.build_registry_data TORCH...

A torch is a wheel or a package folder. Each is read by the emulator, as ``--torch`` would read it; what the file has
of other builds stays.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Final

from abiscan.dispatch.operators import Entry
from abiscan.inputs.files import Files, read_facts
from abiscan.torches import embedded_registries
from abiscan.torches.from_libs import from_path, read_operators

OUTPUT: Final = Path(embedded_registries.__file__).with_name("data") / embedded_registries.NAME


def main() -> int:
    """Write the file."""
    known = json.loads(gzip.decompress(OUTPUT.read_bytes())) if OUTPUT.exists() else {"builds": [], "entries": []}
    sets = {Entry(*entry): int(builds, 16) for *entry, builds in known["entries"]}
    for path in map(Path, sys.argv[1:]):
        files = Files(read_facts)
        release = from_path(path, files)
        name = f"{release.build} {release.machine.value}"
        if name not in known["builds"]:
            known["builds"].append(name)
        bit = 1 << known["builds"].index(name)
        sets = {entry: builds & ~bit for entry, builds in sets.items()}
        for entry in read_operators(release, files).entries or ():
            sets[entry] = sets.get(entry, 0) | bit
    rows = sorted(json.dumps([*entry, f"{builds:x}"]) for entry, builds in sets.items() if builds)
    lines = ",\n  ".join(rows)
    text = f'{{"builds": {json.dumps(known["builds"])},\n "entries": [\n  {lines}\n]}}\n'
    OUTPUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
