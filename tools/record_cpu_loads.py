"""Record which libraries load on which processors, under user-mode emulation.

python tools/record_cpu_loads.py --qemu qemu-x86_64 --cpu Nehalem --cpu Haswell --output loads.jsonl LIBRARY...

Each library is loaded in a new process of this Python, which ``qemu-x86_64 -cpu MODEL`` runs: with ``ctypes``, or, if
it has a function ``PyInit_…``, as the import system does. A line of the record has the ``library`` as it was named,
its ``sha256``, the processor, how it was loaded, and the ``signal`` that ended the process (4 for an illegal
instruction), 0 if none did; or the ``error`` that was raised, which says nothing about the processor. ``--beside
FOLDER`` is for libraries that they need. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

MODULE: Final = """
import importlib.machinery, importlib.util, sys
name, path = sys.argv[1:]
loader = importlib.machinery.ExtensionFileLoader(name, path)
importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader, origin=path))
"""
LIBRARY: Final = "import ctypes, sys; ctypes.CDLL(sys.argv[2])"
SECONDS: Final = 300


def module_of(path: Path) -> str | None:
    """The Python module that a library is, by its name and what it exports."""
    name = path.name.partition(".")[0]
    return name if f"PyInit_{name}\0".encode() in path.read_bytes() else None


def load(qemu: str, cpu: str, path: Path, beside: str) -> dict[str, Any]:
    """Load one library on one processor."""
    module = module_of(path)
    program = MODULE if module else LIBRARY
    command = [qemu, "-cpu", cpu, os.path.realpath(sys.executable), "-S", "-E", "-c", program, module or "-", str(path)]
    environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": beside, "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=SECONDS, check=False)
    outcome: dict[str, Any] = {"cpu": cpu, "how": "import" if module else "ctypes"}
    if found.returncode < 0 or found.returncode > 128:
        number = -found.returncode if found.returncode < 0 else found.returncode - 128
        return {**outcome, "signal": number, "name": signal.Signals(number).name}
    if found.returncode:
        return {
            **outcome,
            "signal": None,
            "error": found.stderr.strip().splitlines()[-1].replace(str(path.parent), "…"),
        }
    return {**outcome, "signal": 0}


def main() -> int:
    """Load every library on every processor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qemu", default="qemu-x86_64")
    parser.add_argument("--cpu", action="append", required=True, help="as qemu-x86_64 -cpu help lists them")
    parser.add_argument("--beside", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--output", type=Path, required=True, help="lines are added to it")
    parser.add_argument("libraries", nargs="+", type=Path)
    options = parser.parse_args()
    with options.output.open("a", encoding="utf-8") as output:
        for path in options.libraries:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            for cpu in options.cpu:
                outcome = load(options.qemu, cpu, path.resolve(), ":".join(options.beside))
                print(json.dumps({"library": str(path), "sha256": digest, **outcome}), file=output, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
