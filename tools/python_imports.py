"""Import packages of Python code in real torches, and compare with what ``abiscan check`` says.

Each package is in a folder of its own, named ``NAME-VERSION``, so that none changes what another one sees:

    pip install --no-deps --target packages/torchtyping-0.1.5 torchtyping==0.1.5

What they require is in the environments of the torches, or most of them fail before they get to torch. Recording starts
one process for each import; comparing asks the same Pythons, and prints each import that is not predicted.

    python -m tools.python_imports record record.jsonl packages/* --python torches/2.9.1/bin/python
    python -m tools.python_imports compare record.jsonl packages/* --python torches/2.9.1/bin/python

``tests/oracle/imports.jsonl.gz`` is such a record, which ``compare`` reads, too.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from abiscan.inputs import package_files
from abiscan.verdict.package_reading import CodeFiles, modules_of

_IMPORT: Final = """
import importlib, json, sys, traceback
module, folder = sys.argv[1:]
import torch
row = {"torch": torch.__version__, "module": module, "exception": None}
try:
    importlib.import_module(module)
except BaseException as error:
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(folder + "/")]
    at = f"{places[-1].filename[len(folder) + 1:]}:{places[-1].lineno}" if places else None
    inside = traceback.extract_tb(error.__traceback__)[-1].filename
    text = str(error).replace(folder + "/", "")
    row |= {"exception": type(error).__name__, "text": text, "at": at, "elsewhere": not inside.startswith(folder)}
print("\\n" + json.dumps(row), flush=True)
__import__("os")._exit(0)
"""
_SECONDS: Final = 300


def record_import(folder: Path, python: Path) -> dict[str, Any]:
    """Import the package in a folder, in a new process of a Python, and return what happened."""
    module = _module_of(folder)
    process = subprocess.run(
        [python, "-W", "ignore", "-c", _IMPORT, module, str(folder)],
        env=_environment(folder), capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    lines = [line for line in process.stdout.splitlines() if line.startswith('{"torch')]
    ended = {"module": module, "exception": "exit", "text": str(process.returncode), "at": None, "elsewhere": False}
    outcome = json.loads(lines[-1]) if lines else ended
    name, _, version = folder.name.rpartition("-")
    return {"package": name, "version": version, "torch": _torch_of(python), **outcome}


def predict(folder: Path, python: Path) -> dict[str, Any]:
    """Return the verdict of ``abiscan check`` on the package in a folder, for a Python."""
    name = folder.name.rpartition("-")[0]
    command = [sys.executable, "-m", "abiscan", "check", name, "--python", str(python), "--format", "json"]
    process = subprocess.run(
        command, env=_environment(folder), capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    packages = json.loads(process.stdout)["packages"] if process.stdout.startswith("{") else []
    if not packages:
        return {"verdict": "no package", "why": process.stderr.strip().splitlines()[-1:]}
    package = packages[0]
    error = package["error"] or {}
    return {
        "verdict": package["verdict"],
        "exception": "exit" if error.get("how") == "aborts" else error.get("exception"),
        "text": error.get("message"),
        "at": f"{error['file']}:{error['line']}" if error.get("file") else None,
        "why": package["gaps"][-1:],
    }


def compare(recorded: dict[str, Any], predicted: dict[str, Any]) -> str:
    """Return how a prediction compares with the import, in the words of the table."""
    raised = recorded["exception"]
    match predicted["verdict"]:
        case "no package":
            return f"nothing to check; {'works' if raised is None else 'fails'}"
        case "unknown":
            return f"unknown; {'works' if raised is None else 'fails'}"
        case "import-fails" if raised is None:
            return "false alarm"
        case "import-fails":
            same = predicted["exception"] == raised
            if same and raised == "exit":  # the process says neither its line nor its reason
                return "fails: agree"
            exact = predicted["text"] in (None, recorded["text"]) and predicted["at"] in (None, recorded["at"])
            return "fails: agree" if same and exact else "fails: another error"
        case _:
            return "works: agree" if raised is None else "false calm"


def _module_of(folder: Path) -> str:
    package = package_files.of_folder(folder)
    if package is None:
        raise SystemExit(f"{folder} has no package or several: install one package in it")
    # The distribution may have no module of its own name: then it is that of the folder.
    return next(iter(modules_of(package.name, CodeFiles(package))), package.name.replace("-", "_"))


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""}


def read_record(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a record."""
    data = path.read_bytes()
    for line in (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines():
        yield json.loads(line)


def main() -> int:
    """Record, or compare and count; 1 if a false alarm or a false calm is among the predictions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("record", type=Path)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--python", type=Path, action="append", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    pairs = [(folder.absolute(), python.absolute()) for folder in options.folders for python in options.python]
    with ThreadPoolExecutor(options.jobs) as pool:
        if options.action == "record":
            with options.record.open("a") as stream:
                for imported in pool.map(lambda pair: record_import(*pair), pairs):
                    print(json.dumps(imported), file=stream, flush=True)
            return 0
        versions = {python.absolute(): _torch_of(python) for python in options.python}
        rows = {(row["package"], row["version"], row.get("torch")): row for row in read_record(options.record)}
        counts: Counter[str] = Counter()
        for (folder, python), predicted in zip(pairs, pool.map(lambda pair: predict(*pair), pairs), strict=True):
            name, _, version = folder.name.rpartition("-")
            if (name, version, versions[python]) not in rows:
                continue
            row = rows[name, version, versions[python]]
            counts[how := compare(row, predicted)] += 1
            if not how.endswith("agree"):
                real = {key: row.get(key) for key in ("exception", "text", "at")}
                print(f"{folder.name} on {versions[python]}: {how}\n  real {real}\n  said {predicted}", flush=True)
    for how, count in sorted(counts.items()):
        print(f"{count:4}  {how}")
    return 1 if counts["false alarm"] or counts["false calm"] else 0


@functools.cache
def _torch_of(python: Path) -> str:
    code = "import torch; print(torch.__version__)"
    return subprocess.run(
        [python, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
