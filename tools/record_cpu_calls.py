"""Record which operators can be called on which processors, under user-mode emulation.

python tools/record_cpu_calls.py --qemu qemu-x86_64 --cpu SandyBridge --output calls.jsonl CALLS LIBRARY

CALLS has a line for each operator, ``ns::name: ARGUMENTS``, in Python, where ``torch`` is the module. For each
processor, ``qemu-x86_64 -cpu MODEL`` runs this Python with the torch of ``--torch`` (its site-packages), loads the
library, and calls each operator in a process of its own, which it forks. A line of the record has the ``operator``, the
processor, and the ``signal`` that ended the call (4 for an illegal instruction), 0 if none did, or the ``error`` that
was raised. Only the standard library and that torch are used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
torch.ops.load_library(sys.argv[2])
for line in open(sys.argv[3]):
    operator, _, arguments = line.strip().partition(": ")
    if not operator:
        continue
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        error = ""
        try:
            namespace, name = operator.split("::")
            getattr(getattr(torch.ops, namespace), name)(*eval(f"({arguments},)"))
        except Exception as raised:
            error = f"{type(raised).__name__}: {str(raised).splitlines()[0]}"
        os.write(write, error.encode())
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(child, 0)
    outcome = {"operator": operator, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}
    if error := os.read(read, 4096).decode():
        outcome = {"operator": operator, "signal": None, "error": error}
    os.close(read)
    print(json.dumps(outcome), flush=True)
"""


def main() -> int:
    """Call every operator on every processor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qemu", default="qemu-x86_64")
    parser.add_argument("--cpu", action="append", required=True, help="as qemu-x86_64 -cpu help lists them")
    parser.add_argument("--torch", type=Path, required=True, help="the folder that torch is installed in")
    parser.add_argument("--output", type=Path, required=True, help="lines are added to it")
    parser.add_argument("calls", type=Path)
    parser.add_argument("library", type=Path)
    options = parser.parse_args()
    digest = hashlib.sha256(options.library.read_bytes()).hexdigest()
    arguments = [str(path.resolve()) for path in (options.torch, options.library, options.calls)]
    with options.output.open("a", encoding="utf-8") as output:
        for cpu in options.cpu:
            command = [options.qemu, "-cpu", cpu, os.path.realpath(sys.executable), "-S", "-c", PROGRAM, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            for line in done.stdout.splitlines():
                outcome = {"library": options.library.name, "sha256": digest, "cpu": cpu, **json.loads(line)}
                print(json.dumps(outcome), file=output, flush=True)
            if done.returncode:
                print(f"{cpu}: ended with {done.returncode}: {done.stderr[-300:]}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
