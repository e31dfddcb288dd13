"""Compare what is said of the Python code of packages with the torch of this Python: no note may be false.

    python -m tools.check_notes wheels/*.whl
    python -m tools.check_notes environment/lib/python3.11/site-packages

Each name that functions use later, and that this torch is said to lack, is asked for with ``hasattr``; each call that
it is said to reject is bound to the parameters that ``inspect.signature`` has, or to the schemas of the operator.
Packages are read, and never imported.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from abiscan.python.later.later_names import later_uses
from abiscan.python.later.mentions import LaterUse
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer
from abiscan.python.package.sources import PackageFiles
from abiscan.torches import embedded_names

ASK = """
import importlib, inspect, json, sys, warnings
warnings.simplefilter("ignore")
import torch

def find(name):
    found = torch
    parts = name.split(".")[1:]
    for number, part in enumerate(parts, 2):
        if not hasattr(found, part):
            importlib.import_module(".".join(name.split(".")[:number]))
        found = getattr(found, part)
    return found

def takes(schema, call):
    names = [argument.name for argument in schema.arguments]
    left = [argument.name for argument in schema.arguments[call["count"]:] if not argument.has_default_value()]
    given = set(call["keywords"])
    fits = call["count"] + len(given) <= len(names) and given <= set(names[call["count"]:])
    return fits and (call["takes_more"] or call["takes_keywords"] or given >= set(left))

def is_false(use):
    try:
        found = find(use["name"])
        if use["how"] != "call":
            return True
        call = use["arguments"]
        if isinstance(found, torch._ops.OpOverload):
            return takes(found._schema, call)
        if isinstance(found, torch._ops.OpOverloadPacket):
            return any(takes(getattr(found, name)._schema, call) for name in found.overloads())
        bind = inspect.signature(found).bind
        if call["takes_more"] or call["takes_keywords"]:
            bind = inspect.signature(found).bind_partial
        bind(*range(call["count"]), **dict.fromkeys(call["keywords"]))
    except (AttributeError, ImportError, TypeError):
        return False
    return True

json.dump([torch.__version__.partition("+")[0], [is_false(use) for use in json.load(sys.stdin)]], sys.stdout)
"""


@dataclass(frozen=True)
class Sources:
    """The Python files of one package."""

    files: Mapping[str, bytes]

    def members(self) -> Sequence[str]:
        """Their paths."""
        return list(self.files)

    def read(self, path: str) -> bytes:
        """The bytes of one."""
        return self.files[path]

    def needed(self, path: str) -> Sequence[str]:  # noqa: ARG002 - part of the protocol
        """No libraries."""
        return []


def packages_of(target: Path) -> Iterator[Sources]:
    """Yield the package in a wheel, or those in a folder of installed ones."""
    if target.is_file():
        with zipfile.ZipFile(target) as archive:
            yield Sources({path: archive.read(path) for path in archive.namelist() if path.endswith(".py")})
        return
    for package in sorted(target.iterdir()):
        paths = package.rglob("*.py") if package.is_dir() and package.name not in {"torch", "torchgen"} else ()
        yield Sources({path.relative_to(target).as_posix(): path.read_bytes() for path in paths})


def list_notes(target: Path, release: str) -> Iterator[LaterUse]:
    """Yield what is said of the packages of a target."""
    names = embedded_names.names(release)
    for package in packages_of(target):
        files = PackageFiles(package)
        code = PythonCode(files, files.top_level(), Answer.UNKNOWN)
        yield from (use for use in later_uses(code, names) if not use.doubtful) if names else ()


def ask(uses: list[LaterUse]) -> tuple[str, list[bool]]:
    """Return the release of the torch that runs, and which uses do not fail there."""
    told = subprocess.run(
        [sys.executable, "-c", ASK], input=msgspec.json.encode(uses), capture_output=True, check=True
    ).stdout
    release, answers = json.loads(told)
    return release, answers


def main() -> int:
    """Print the notes of each package, and those that are false; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+", type=Path, help="wheels, folders, or folders of installed packages")
    targets = parser.parse_args().targets
    release, _ = ask([])
    false = 0
    for target in targets:
        uses = list(list_notes(target, release))
        for use, is_false in zip(uses, ask(uses)[1] if uses else (), strict=True):
            print(f"{'FALSE ' if is_false else ''}{target.name}: {use.file}:{use.line}: {use.name} {use.error}")
            false += is_false
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
