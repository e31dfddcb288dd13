"""Builds an environment, imports every top-level module in it for real, and writes down what happened.

    python -m tools.record_environment FOLDER --output record.jsonl -- torch==2.13.0 timm torchvision==0.28.0
    python -m tools.record_environment FOLDER --output record.jsonl                 # one that is there already
    python -m tools.record_environment FOLDER --output record.jsonl --document tests/oracle/environments/NAME.json

What follows ``--`` goes to the ``pip install`` of a new virtual environment in FOLDER; several lists, separated by
``--``, are installed in turn, as users do who repair one thing after the other. Each line of the record is one module:
``dist``, ``version``, ``module``, ``rc`` (0: it can be imported, 7: it raised, negative: the signal that ended it),
``exc``, ``text`` and ``where`` of what it raised. ``rc`` is null for an import that did not end in time. A document has
the metadata and the words of ``pip check`` as well, for ``tests/oracle/test_recorded_environments.py``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

SECONDS: Final = 300
_IMPORT: Final = """
import importlib, json, sys, traceback
name, site = sys.argv[1:]
sys.path[:] = [path for path in sys.path if path]
try:
    importlib.import_module(name)
except BaseException as error:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(site)]
    where = f"{frames[-1].filename[len(site) + 1:]}:{frames[-1].lineno}" if frames else None
    text = str(error).replace(site + "/", "")
    print("\\n" + json.dumps({"exc": type(error).__name__, "text": text, "where": where}))
    sys.stdout.flush()
    import os
    os._exit(7)
import os
os._exit(0)
"""
_LIST: Final = """
import importlib.metadata, json, sysconfig
rows = []
for dist in importlib.metadata.distributions():
    files = [str(file) for file in dist.files or ()]
    code = [name for name in files if name.endswith((".py", ".so")) and ".." not in name]
    # A folder may be none of modules: opencv_python.libs.
    tops = {name.split("/")[0] if "/" in name else name.split(".")[0] for name in code}
    native = any(".so" in name for name in files)
    torch = any(line.lower().startswith("torch") for line in dist.requires or ())
    rows.append([dist.metadata["Name"], dist.version, sorted(filter(str.isidentifier, tops)), native or torch])
print(json.dumps([sysconfig.get_paths()["purelib"], rows]))
"""
_DESCRIBE: Final = """
import importlib.metadata, json, platform
rows = [
    {"name": dist.metadata["Name"], "version": dist.version, "requires": dist.requires or []}
    for dist in importlib.metadata.distributions()
]
print(json.dumps({"python": platform.python_version(), "distributions": rows}))
"""
_BUILD_TOOLS: Final = frozenset({"pip", "setuptools", "wheel"})


def import_all(python: Path) -> Iterator[dict[str, Any]]:
    """Yield what became of each top-level module, imported in a process of its own.

    Distributions that neither have libraries nor require torch are left out.
    """
    site, distributions = json.loads(_run(python, "-c", _LIST).stdout)
    for name, version, modules, matters in distributions:
        for module in modules if matters and name not in _BUILD_TOOLS else ():
            row = {"dist": name, "version": version, "module": module}
            try:
                done = _run(python, "-c", _IMPORT, module, site)
            except subprocess.TimeoutExpired:
                yield {**row, "rc": None, "exc": None, "text": None, "where": None}
                continue
            raised = json.loads(done.stdout.rstrip().splitlines()[-1]) if done.returncode == 7 else {}
            yield {**row, "rc": done.returncode, **{key: raised.get(key) for key in ("exc", "text", "where")}}


def _run(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *words], capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
    )


def build(folder: Path, lists: Sequence[Sequence[str]]) -> Path:
    """Make a virtual environment, install lists of requirements in turn, and return its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    for words in lists:
        subprocess.run([python, "-m", "pip", "install", "-q", *words], check=True)
    return python


def describe(python: Path, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the metadata and ``pip check`` say, with what became of the imports."""
    check = _run(python, "-m", "pip", "check")
    errors = [f"{row['exc']}: {row['text']}" if row["rc"] else None for row in rows]
    return {
        **json.loads(_run(python, "-c", _DESCRIBE).stdout),
        "pip_check": sorted(check.stdout.splitlines()) if check.returncode else [],
        "imports": [
            {"distribution": row["dist"], "module": row["module"], "error": error}
            for row, error in zip(rows, errors, strict=True)
        ],
    }


def main(arguments: Sequence[str]) -> None:
    """Build, import and record."""
    parts = [list(words) for is_end, words in itertools.groupby(arguments, "--".__eq__) if not is_end]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--document", type=Path)
    options = parser.parse_args(parts[0])
    python = build(options.folder, parts[1:])
    rows = []
    with options.output.open("w", encoding="utf-8") as stream:
        for row in import_all(python):
            rows.append(row)
            stream.write(json.dumps(row) + "\n")
            stream.flush()
    if options.document is not None:
        text = json.dumps(describe(python, rows), indent=1)
        options.document.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
