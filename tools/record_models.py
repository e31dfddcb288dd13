"""Load saved models into real torches, and record what happens: ``tests/oracle/models.jsonl.gz``.

    python -m tools.record_models OUTPUT MODELS/2.7.1 MODELS/2.13.0 --torch TORCH[:STUBS] …

A folder of models is one that ``tools/make_models.py`` wrote, named after the torch that did. TORCH is the folder that
an unpacked torch lies in, STUBS one that ``tools.stub_libraries`` made; without ``--torch``, it is the torch of this
Python. ``--import torchvision`` imports that first, from ``PYTHONPATH``, and a line then has it ``with`` its version.
Every file is loaded by the call that its kind is for, in a process of its torch, and then run. A line has the file's
folder and name, the torch, the call that fails and what it raises, or null.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

_PROGRAM: Final = r'''
import importlib, importlib.metadata, json, sys, warnings
warnings.simplefilter("ignore")
import torch
x = torch.ones(2, 4)
ARGUMENTS = {"several.pt": (x, 2), "sound.pt": (torch.ones(1, 1, 8), torch.ones(1, 3))}
boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 3.0, 3.0]])
ARGUMENTS["boxes.pt"] = ARGUMENTS["boxes.pt2"] = (boxes, torch.tensor([0.9, 0.8]), torch.ones(1, 1, 8, 8))
def aoti_loader():
    try:
        from torch._inductor.package import load_package
    except ImportError:
        load_package = None
    if load_package and not hasattr(torch._inductor, "aoti_load_package"):
        return "torch._inductor.package.load_package", lambda path: load_package(path, "cpu")
    return "torch._inductor.aoti_load_package", lambda path: torch._inductor.aoti_load_package(path)
def loaded(path, name):
    """The call that loads it, and what that returns."""
    if name.startswith("aoti"):
        importlib.import_module("torch._inductor")
        call, load = aoti_loader()
        yield call
        model = load(path)
    elif name.endswith(".pt2"):
        yield "torch.export.load"
        model = torch.export.load(path).module()
    elif name in ("state.pt", "module.pt", "legacy.pt"):
        yield "torch.load"
        model = torch.load(path)
    elif name.endswith(".ptl"):
        from torch.jit.mobile import _load_for_lite_interpreter
        yield "torch.jit.mobile._load_for_lite_interpreter"
        model = _load_for_lite_interpreter(path)
    else:
        yield "torch.jit.load"
        model = torch.jit.load(path)
    if callable(model):
        yield "run"
        model(*ARGUMENTS.get(name, (x,)))
imported = {}
for name in filter(None, sys.argv[1].split(",")):
    importlib.import_module(name)
    imported["with"] = f"{name}-{importlib.metadata.version(name)}"
for path in sys.argv[2:]:
    name = path.rpartition("/")[2]
    error, call = None, None
    try:
        for call in loaded(path, name):
            pass
    except BaseException as raised:
        error = {"call": call, "exception": type(raised).__name__, "message": str(raised)}
    model = "/".join(path.split("/")[-2:])
    print("RECORD", json.dumps({"model": model, "torch": torch.__version__, **imported, "error": error}), flush=True)
'''


def record(models: list[Path], torch: str | None, package: str) -> list[str]:
    """The lines for all models of some folders on one torch.

    :param torch: the folder that it lies in, and that of the stand-ins, after a colon; None for that of this Python
    :param package: one that is imported first, from ``PYTHONPATH``; empty for none
    """
    files = [path for folder in models for path in sorted(folder.iterdir())]
    paths = [str(path) for path in files if path.suffix in (".pt", ".pt2", ".ptl")]
    environment = dict(os.environ)
    if torch:
        folder, _, stubs = torch.partition(":")
        environment |= {
            "PYTHONPATH": os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])]),
            "LD_LIBRARY_PATH": stubs,
        }
    lines: list[str] = []
    while len(lines) < len(paths):
        command = [sys.executable, "-c", _PROGRAM, package, *paths[len(lines) :]]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        new = [line.removeprefix("RECORD ") for line in ended.stdout.splitlines() if line.startswith("RECORD ")]
        lines += new
        if len(lines) < len(paths) and ended.returncode >= 0:
            raise SystemExit(ended.stderr)
        if ended.returncode < 0:  # a signal ends the process: the next model is for another one
            model = "/".join(paths[len(lines)].split("/")[-2:])
            error = {"call": "run", "exception": None, "message": f"signal {-ended.returncode}"}
            lines.append(json.dumps({"model": model, "torch": Path(torch or "").name, "error": error}))
    return lines


def main() -> int:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--torch", action="append", default=[], metavar="TORCH[:STUBS]")
    parser.add_argument("--import", dest="package", default="", metavar="NAME", help="a package to import first")
    arguments = parser.parse_args()
    with arguments.output.open("w", encoding="utf-8") as output:
        for torch in arguments.torch or [None]:
            for line in record(arguments.models, torch, arguments.package):
                output.write(f"{line}\n")
            print(torch or "this torch", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
