"""Record what ``import torch`` registers from Python code, in running torches.

    python -m tools.record_python                            # the torch of this Python
    python -m tools.record_python TORCH[:STUBS] ...          # others

TORCH is the folder of a torch package for this Python (``pip install --no-deps --target`` makes one, what it needs is
taken from this Python), STUBS a folder of libraries that stand in for those of CUDA where there is none:
``tools/stub_libraries.py`` makes them.

Writes ``abiscan/torches/data/python.json.gz``: the releases of these torches are replaced or added, the others stay.
What is registered can depend on the machine: whether it has a GPU, and whether Triton is installed. Record without.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.torches import embedded_python
from abiscan.torches.embedded_python import DEFINITION
from abiscan.torches.from_python import read_operators
from tools.data_files import moved

OUTPUT: Final = Path(embedded_python.__file__).with_name("data") / embedded_python.NAME

Entry = tuple[str, str]
"""An operator, and what is registered for it: a definition, or a kernel for a dispatch key."""


def record(executable: str) -> Iterator[Entry]:
    """What the torch of a Python registers from Python code; the key of each kernel is known there."""
    operators = read_operators(executable)
    for operator in operators.operators.values():
        if _is_python(operator.file):
            yield operator.name, DEFINITION
    for kernel in operators.kernels:
        if _is_python(kernel.file):
            yield kernel.operator, str(kernel.key)


def _is_python(file: str | None) -> bool:
    """Whether Python code registers it; up to 2.8, torch does not say which (torch/csrc/utils/python_dispatch.cpp)."""
    return file is not None and (file.endswith(".py") or file == "/dev/null")


def replaced(data: bytes, recorded: dict[str, set[Entry]]) -> bytes:
    """The data file with some releases replaced or added."""
    known = json.loads(gzip.decompress(data))
    old = list(known["releases"])
    new = sorted({*old, *recorded}, key=Version)
    columns = {(operator, what): int(bits, 16) for operator, what, bits in known["entries"]}
    result = moved(columns, old, new, recorded)
    rows = ",\n  ".join(sorted(json.dumps([*entry, f"{bits:x}"]) for entry, bits in result.items()))
    return gzip.compress(f'{{"releases": {json.dumps(new)},\n "entries": [\n  {rows}\n]}}\n'.encode(), 9, mtime=0)


def main() -> int:
    """Record, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("torches", nargs="*", metavar="TORCH[:STUBS]", default=[""])
    empty = gzip.compress(b'{"releases": [], "entries": []}')
    for torch in parser.parse_args().torches:
        package, _, stubs = torch.partition(":")
        if package:
            os.environ["PYTHONPATH"] = str(Path(package).resolve().parent)
            os.environ["LD_LIBRARY_PATH"] = stubs
        ask = [sys.executable, "-c", "import torch; print(torch.__version__)"]
        version = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()[-1]
        release = Version(version).base_version
        found = set(record(sys.executable))
        if not found:
            raise SystemExit(f"torch {version} does not tell what Python code registers")
        OUTPUT.write_bytes(replaced(OUTPUT.read_bytes() if OUTPUT.is_file() else empty, {release: found}))
        print(f"{release}: {sum(what == DEFINITION for _, what in found)} definitions, {len(found)} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
