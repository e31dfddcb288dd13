"""Make ``abiscan/dispatch/data/acceptance.json``: what torch accepts, which only a running torch can say.

    python -m tools.build_acceptance_data [VERSION ...] [--python38 EXE]

Each release is fetched with pip, given stand-ins for the CUDA libraries, asked in a process of its own, and deleted:
which words it reads as types in a schema, and for which dispatch keys it takes a second fallback. Named VERSIONs are
asked anew, the others stay in the file; one patch release of each minor version is enough, and both sides of a change.
Releases before 2.0 need a Python 3.8 with typing_extensions and numpy (``--python38``), the others the running one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from abiscan.dispatch import keys
from tools import stub_libraries
from tools.wheels import download

OUTPUT: Final = Path(keys.__file__).with_name("data") / "acceptance.json"
_RUNS_ON_38: Final = Version("2.0")
WORDS: Final = (
    *("Tensor", "int", "float", "bool", "str", "Scalar", "complex", "Device", "Stream", "Generator", "Quantizer"),
    *("QScheme", "ScalarType", "Layout", "MemoryFormat", "Storage", "Dimname", "None", "NoneType", "Any", "Capsule"),
    *("AnyEnumType", "AnyClassType", "AnyListType", "AnyTupleType", "SymInt", "SymFloat", "SymBool", "DeviceIndex"),
    *("ConstQuantizerPtr", "DeviceObjType", "DimnameList", "Event", "PyObject", "Function", "Enum"),
)
"""Every word that some release reads as a type, or prints as one, in lower case or not."""

ASK: Final = """
import json, sys
import torch
words, keys = json.loads(sys.argv[1])
def reads(word):
    try:
        torch._C.parse_schema("ns::f(" + word + " a) -> ()")
    except RuntimeError:
        return False
    return True
libraries = []
def takes_fallback(key):
    libraries.append(torch._C._dispatch_library("IMPL", "_", key))
    libraries[-1].fallback_fallthrough()
def takes_two(key):
    try:
        takes_fallback(key)
        takes_fallback(key)
    except RuntimeError:
        return False
    return True
can_ask = hasattr(torch._C, "_dispatch_library")
json.dump({
    "type_words": [word for word in words if reads(word)],
    "repeatable_fallbacks": [key for key in keys if takes_two(key)] if can_ask else None,
}, sys.stdout)
"""


def ask(version: str, python: str) -> Any:
    """What one release accepts."""
    wanted = json.dumps([WORDS, sorted(keys.keys_of(Version(version)).names.values())])
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tag = "3.8" if Version(version) < _RUNS_ON_38 else f"{sys.version_info.major}.{sys.version_info.minor}"
        wheel = download(f"torch=={version}", folder, python=tag)
        assert wheel is not None, f"no wheel of torch {version} for Python {tag}"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        wheel.unlink()
        stubs = folder / "stubs"
        stubs.mkdir()
        for name, symbols in stub_libraries.missing_symbols(folder / "torch").items():
            stub_libraries.make(name, symbols, stubs)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(stubs), "PYTHONPATH": str(folder)}
        command = [python, "-c", ASK, wanted]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"torch {version}: {done.stderr[-2000:]}"
        return json.loads(done.stdout)


def main() -> int:
    """Ask, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="releases to ask anew")
    parser.add_argument("--python38", default="python3.8", metavar="EXE", help="for releases before 2.0")
    arguments = parser.parse_args()
    known = json.loads(OUTPUT.read_text("utf-8")) if OUTPUT.is_file() else {}
    for version in arguments.versions:
        known[version] = ask(version, arguments.python38 if Version(version) < _RUNS_ON_38 else sys.executable)
        print(f"torch {version}: {len(known[version]['type_words'])} words", flush=True)
        rows = (f"{json.dumps(key)}: {json.dumps(known[key])}" for key in sorted(known, key=Version))
        OUTPUT.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
