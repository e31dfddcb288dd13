"""Record what happens when the samples of ``tests/oracle/registering`` are loaded into a real torch.

    python tools/record_registering.py build TORCH FOLDER  # the samples for one release, with its headers
    python tools/record_registering.py load                # all of them, into the torch of this Python

``registering.cpp`` registers in one of several ways in each file. ``build`` writes ``FOLDER/RELEASE/WAY.so``; it fails
for the ways that a release does not have yet. ``load`` replaces in ``loads.json`` what is recorded of the release of
this Python's torch: ``loads``, ``raises``, or the name of the signal that ends the process. Each load has a process of
its own, forked after ``import torch``.

To make all of it again: unpack the wheels of 1.4.0, 1.5.0, 1.6.0, and the last patch release of 1.7 to 1.13. ``build``
for each of them into one folder, with Python 3.8, whose headers they include. Pack it, and ``load`` with each release
from 1.4.0 to 1.13.1::

    cd FOLDER
    tar --sort=name --mtime=@0 --owner=0 --group=0 -cJf PROJECT/tests/oracle/registering/samples.tar.xz *

A CUDA build can be used where there is no CUDA: see ``tools/stub_libraries.py``. Runs on Python 3.8 and newer with the
standard library; building needs g++.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import subprocess
import sysconfig
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "oracle" / "registering"
LOADS = FOLDER / "loads.json"
SAMPLES = FOLDER / "samples.tar.xz"
WAYS = ("backend", "operators", "inferred", "custom_class", "old_api")


def build(torch: Path, output: Path) -> None:
    """Build the samples for one release, as far as it has their interface."""
    version = (
        (torch / "version.py").read_text("utf-8").partition("__version__ = '")[2].partition("'")[0].partition("+")[0]
    )
    major, minor, _ = map(int, version.split("."))
    number = 100 * major + minor
    # ATen.h refuses an older standard; the oldest releases say nothing.
    standard = re.search(r"C\+\+(\d\d) or later", (torch / "include/ATen/ATen.h").read_text("utf-8"))
    libraries = ["torch", "c10", *(["torch_cpu"] if number > 104 else ["torch_python"])]
    (output / version).mkdir(parents=True, exist_ok=True)
    for way in WAYS:
        command = [
            *("g++", "-O1", "-g0", "-w", "-fPIC", "-shared", "-s", "-Wl,--no-as-needed"),
            *(f"-std=gnu++{standard[1] if standard else 14}", f"-D_GLIBCXX_USE_CXX11_ABI={int(number >= 207)}"),
            *(f"-DTORCH={number}", f"-DBY_{way.upper()}", "tests/oracle/registering/registering.cpp"),
            *(f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"),
            *(f"-I{sysconfig.get_paths()['include']}", f"-L{torch / 'lib'}", *(f"-l{name}" for name in libraries)),
            *(f"-ffile-prefix-map={torch}=torch", "-o", str(output / version / f"{way}.so")),
        ]
        subprocess.run(command, cwd=FOLDER.parents[2], check=False)


def load(samples: Path) -> None:
    """Load all samples, and put what happens into the record."""
    torch: Any = importlib.import_module("torch")
    recorded = json.loads(LOADS.read_text("utf-8"))
    release = torch.__version__.partition("+")[0]
    for path in sorted(samples.glob("*/*.so")):
        process = os.fork()
        if not process:
            try:
                torch.ops.load_library(str(path))
            except BaseException:  # noqa: BLE001
                os._exit(1)
            os._exit(0)
        status = os.waitpid(process, 0)[1]
        name = path.relative_to(samples).as_posix()
        ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None
        recorded.setdefault(name, {})[release] = ended or ("raises" if status else "loads")
    rows = (f"{json.dumps(name)}: {json.dumps(of_sample)}" for name, of_sample in recorded.items())
    LOADS.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


def main() -> None:
    """Build or load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    building.add_argument("torch", type=Path, help="the folder of the torch package")
    building.add_argument("output", type=Path)
    commands.add_parser("load")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build(arguments.torch.resolve(), arguments.output.resolve())
        return
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(SAMPLES) as archive:
            archive.extractall(scratch)  # noqa: S202
        load(Path(scratch))


if __name__ == "__main__":
    main()
