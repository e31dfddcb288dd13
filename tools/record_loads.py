"""Record real loads: what really happens when each library of some wheels is loaded into a real torch.

    python tools/record_loads.py --output FOLDER WHEEL ...                          # the torch of this Python
    python tools/record_loads.py --output FOLDER --torch TORCH[:STUBS] WHEEL ...    # others; repeatable
    python tools/record_loads.py --output FOLDER --python COMMAND --torch TORCH WHEEL ...    # for another machine

TORCH is the folder of a torch package for this Python (``pip install --target`` makes one), STUBS a folder of libraries
that stand in for those of CUDA where there is none: ``tools/stub_libraries.py`` makes them. ``--beside WHEEL`` names a
wheel whose libraries are on the search path as well, as those of a package are that the extension requires.

COMMAND is a Python that runs here in another way, such as one for aarch64 under user-mode emulation:
``"qemu-aarch64-static -L SYSTEM SYSTEM/usr/bin/python3.11"``. What ``ldd`` says is left out then. A library can take
the place of a WHEEL. One that does not name the libraries of torch that it uses needs ``--global``: they are made
visible to it.

Each load has a process of its own: ``import torch``, then the load, nothing else. A file that exports ``PyInit_*`` is
imported as a module, any other is loaded with ``torch.ops.load_library``. Every folder of the wheel that holds a
library is on the search path, as siblings are found when the package imports itself.

FOLDER gets, appended, a line of JSON for each load in ``pairs.jsonl``:

* what was loaded: ``package``, ``version``, ``corpus`` (both), ``path``, ``sha256``, ``wheel``, ``requires`` (what the
  wheel requires of torch), ``other_wheels``, ``machine`` if it is another
* into what: ``torch`` (the release), ``build`` (the full version), ``mode``, ``stubbed`` (the stand-ins that libraries
  of the wheel need)
* what happened: ``verdict`` (loads, fails), ``how`` (raises, aborts), ``exception``, ``object`` (the library that the
  text of the loader begins with), ``message`` (the text after it), ``signal`` and ``stderr`` of a process that died
* what ``ldd -r`` says: ``undefined`` (all undefined symbols by library, without those that Python provides),
  ``not_found``, ``version_errors``
* ``registrations``: the name of a file in ``FOLDER/registrations`` with the difference that a load made to the
  dispatcher: new operators with their schemas, dumps and tables, changed dumps, new methods of custom classes

Folders of this machine are cut from all texts. Needs Linux, ``readelf`` and ``ldd``; of Python, the standard library.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import hashlib
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

# Runs in the fresh process, and reports to a file what it has come to: the extension may write anywhere else.
_CHILD: Final = """
import ctypes, importlib.machinery, importlib.util, json, os, sys, torch
from collections import Counter
path, module_name, output, make_global = sys.argv[1:]
for name in make_global.split():
    ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", name), ctypes.RTLD_GLOBAL)
stream = open(output, "w", encoding="utf-8")

def report(value):
    print(json.dumps(value), file=stream, flush=True)

def dispatcher():
    schemas = {}
    for schema in torch._C._jit_get_all_schemas():
        schemas[schema.name + ("." + schema.overload_name if schema.overload_name else "")] = str(schema)
    all_names = getattr(torch._C, "_dispatch_get_all_op_names", None)
    dump = getattr(torch._C, "_dispatch_dump", None)
    classes = getattr(torch._C, "_jit_get_custom_class_schemas", list)
    names = all_names() if all_names else list(schemas)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mapped = {os.path.basename(line.split(None, 5)[5].strip()) for line in maps if ".so" in line}
    return {
        "names": set(names),
        "schemas": schemas,
        "dumps": {name: dump(name) for name in names} if dump else {},
        "classes": sorted(map(str, classes())),
        "mapped": mapped,
    }

def changed(before, after):
    old, new = before.splitlines(), after.splitlines()
    return {"added": list((Counter(new) - Counter(old)).elements()),
            "removed": list((Counter(old) - Counter(new)).elements())}

package = os.path.dirname(os.path.realpath(torch.__file__))
report({"torch": torch.__version__, "machine": os.uname().machine, "package": package})
before = dispatcher()
try:
    if module_name:
        loader = importlib.machinery.ExtensionFileLoader(module_name, path)
        spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
        loader.exec_module(importlib.util.module_from_spec(spec))
    else:
        torch.ops.load_library(path)
except BaseException as error:
    # torch.ops.load_library wraps the error of the loader in one of its own, from 2.9 on.
    cause = error.__cause__ or error
    report({"exception": type(cause).__name__, "text": str(cause)})
    os._exit(0)
after = dispatcher()
added = sorted(after["names"] - before["names"])
table = getattr(torch._C, "_dispatch_dump_table", None)
methods = Counter(after["classes"]) - Counter(before["classes"])
report({
    "new_ops": added,
    "new_schemas": {key: text for key, text in after["schemas"].items() if key not in before["schemas"]},
    "changed_schemas": {key: [text, after["schemas"].get(key)] for key, text in before["schemas"].items()
                        if after["schemas"].get(key) != text},
    "new_op_dumps": {name: after["dumps"][name] for name in added if name in after["dumps"]},
    "new_op_tables": {name: table(name) for name in added} if table else {},
    "changed_ops": {name: changed(text, after["dumps"][name]) for name, text in before["dumps"].items()
                    if after["dumps"].get(name, text) != text},
    "removed_ops": sorted(before["names"] - after["names"]),
    "new_libs": sorted(after["mapped"] - before["mapped"]),
    "new_class_schemas": sorted(methods.elements()),
})
os._exit(0)
"""
_MADE_GLOBAL: Final = "libc10.so libtorch_cpu.so libtorch_python.so"
_TORCH_LIBRARY: Final = re.compile(r"lib(torch|c10|caffe2|shm)")
# The namespaces of torch's C++ code, its Python binding, its stable C interface.
_TORCH_SYMBOL: Final = re.compile(r"N[KVRO]*(3c10|2at|5torch|6caffe2)|^(THP|aoti_torch|torch_)")


@dataclass(frozen=True)
class Torch:
    """A torch to load into.

    ``stubs`` is the folder of the libraries that stand in for absent ones. ``python`` is the command that runs its
    Python, None for the running one. ``made_global`` are the libraries that are made visible to all others.
    """

    package: Path
    stubs: Path | None
    python: tuple[str, ...] | None = None
    made_global: str = ""

    @property
    def libraries(self) -> list[Path]:
        """The folders of libraries that a process with this torch needs on its search path."""
        return [self.stubs] if self.stubs else []


@dataclass(frozen=True)
class Unpacked:
    """A wheel whose libraries were unpacked into ``folder``; ``others`` are other wheels."""

    wheel: Path
    folder: Path
    package: str
    version: str
    requires: list[str]
    libraries: list[Path]
    others: tuple[Unpacked, ...] = ()

    @property
    def corpus(self) -> str:
        """``package-version``."""
        return f"{self.package}-{self.version}" if self.version else self.package

    @property
    def folders(self) -> list[Path]:
        """The folders that hold a library, those of the other wheels last."""
        own = dict.fromkeys(library.parent for library in self.libraries)
        return [*own, *(folder for other in self.others for folder in other.folders)]


def unpack(wheel: Path, folder: Path, others: tuple[Unpacked, ...] = ()) -> Unpacked:
    """Unpack the libraries of a wheel; a library stands for itself."""
    if wheel.suffix != ".whl":
        return Unpacked(wheel, wheel.parent, wheel.stem, "", [], [wheel], others)
    libraries = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if re.search(r"\.so(\.|$)", Path(name).name):
                with archive.open(name) as stream:
                    is_elf = stream.read(4) == b"\x7fELF"
                if is_elf:
                    libraries.append(Path(archive.extract(name, folder)))
        metadata = next(name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        lines = archive.read(metadata).decode("utf-8", "replace").partition("\n\n")[0].splitlines()
    name, version = (wheel.name.split("-")[number] for number in (0, 1))
    return Unpacked(
        wheel=wheel,
        folder=folder,
        package=re.sub(r"[-_.]+", "-", name).lower(),
        version=version,
        requires=[text for line in lines if re.match(r"torch\b(?!-)", text := line.partition("Requires-Dist: ")[2])],
        libraries=sorted(libraries),
        others=others,
    )


def needed_and_symbols(library: Path) -> tuple[list[str], list[str], list[str]]:
    """The libraries that one needs, the symbols that it leaves undefined, and those that it defines."""
    text = _output("readelf", "-W", "--dynamic", "--dyn-syms", str(library))
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+: ", line)]
    symbols = [(row[6], row[7].partition("@")[0]) for row in rows if len(row) > 7]
    undefined = [name for section, name in symbols if section == "UND"]
    return needed, undefined, [name for section, name in symbols if section != "UND"]


def uses_torch(library: Path) -> bool:
    """Whether a library needs torch's, or leaves symbols of torch undefined."""
    needed, undefined, _ = needed_and_symbols(library)
    return any(map(_TORCH_LIBRARY.match, needed)) or any(map(_TORCH_SYMBOL.search, undefined))


def record(unpacked: Unpacked, library: Path, torch: Torch) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Load one library; return the record, and what the load added to the dispatcher if it succeeded."""
    _, _, defined = needed_and_symbols(library)
    module = next((name.partition("_")[2] for name in defined if name.startswith("PyInit_")), "")
    reports, status, errors = _load(library, module, unpacked, torch)
    if not reports:
        raise SystemExit(f"import torch failed:\n{errors}")
    if reports[0]["package"] != str(torch.package):
        raise SystemExit(f"{torch.package} is not a torch package: {reports[0]['package']} was imported instead")
    build = reports[0]["torch"]
    row: dict[str, Any] = {
        "package": unpacked.package,
        "version": unpacked.version,
        "corpus": unpacked.corpus,
        "path": library.relative_to(unpacked.folder).as_posix(),
        "sha256": hashlib.sha256(library.read_bytes()).hexdigest(),
        "wheel": unpacked.wheel.name,
        "torch": build.partition("+")[0],
        "build": build,
        "mode": "import" if module else "load_library",
    }
    if unpacked.others:
        row["other_wheels"] = [
            f"{'-'.join(other.wheel.name.split('-')[:2])}/{each.relative_to(other.folder).as_posix()}"
            for other in unpacked.others
            for each in other.libraries
        ]
    row |= {"requires": unpacked.requires, **_outcome(reports[1:], status, errors)}
    row |= {"machine": reports[0]["machine"]} if torch.python else _ldd(library, unpacked, torch)
    loaded = row["verdict"] == "loads"
    if loaded:
        row["registrations"] = f"{unpacked.corpus}__{row['path'].replace('/', '+')}__torch-{build}.json.gz"
    # Kernels that torch registers in Python name files of this machine.
    text = json.dumps(reports[-1]).replace(f"{torch.package}/", "torch/")
    return row, json.loads(text) if loaded else None


def _load(library: Path, module: str, unpacked: Unpacked, torch: Torch) -> tuple[list[Any], int, str]:
    """What the fresh process reported, its exit status, and what it wrote to stderr."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "reports")
        done = subprocess.run(
            [*(torch.python or [sys.executable]), "-c", _CHILD, str(library), module, str(output), torch.made_global],
            env={
                **_environment([*unpacked.folders, *torch.libraries]),
                "PYTHONPATH": str(torch.package.parent),
                "TORCH_SHOW_CPP_STACKTRACES": "0",
            },
            cwd=scratch,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        lines = output.read_text("utf-8").splitlines() if output.exists() else []
    return list(map(json.loads, lines)), done.returncode, done.stderr


def _outcome(reports: list[Any], status: int, errors: str) -> dict[str, Any]:
    if not reports:
        name = signal.Signals(-status).name if status < 0 else None
        return {"verdict": "fails", "how": "aborts", "signal": name, "stderr": _without_folders(errors)}
    if "exception" not in reports[0]:
        return {"verdict": "loads"}
    text = reports[0]["text"]
    named = re.fullmatch(r"(/[^:]*): (.*)", text, re.DOTALL)
    return {
        "verdict": "fails",
        "how": "raises",
        "exception": reports[0]["exception"],
        "object": Path(named[1]).name if named else None,
        "message": _without_folders(named[2] if named else text),
    }


def _ldd(library: Path, unpacked: Unpacked, torch: Torch) -> dict[str, Any]:
    """All that is undefined or absent, not only what a load meets first."""
    text = _output("ldd", "-r", str(library), folders=[*unpacked.folders, torch.package / "lib", *torch.libraries])
    undefined: dict[str, set[str]] = defaultdict(set)
    for name, version, where in re.findall(r"undefined symbol: ([^\s,]+)(?:, version (\S+))?\s+\((.*)\)", text):
        undefined[Path(where).name].add(f"{name}@{version}" if version else name)
    for name, version, where in re.findall(
        r"symbol (\S+),? version (\S+) not defined in file \S+ with link time reference\s+\((.*)\)", text
    ):
        undefined[Path(where).name].add(f"{name}@{version}")
    of_wheel = [library, *(Path(path) for path in re.findall(r"=> (/\S+)", text) if Path(path) in unpacked.libraries)]
    needed = {name for each in of_wheel for name in needed_and_symbols(each)[0]}
    lacking = {where: sorted(name for name in names if not _in_python(name)) for where, names in undefined.items()}
    return {
        "stubbed": sorted(name for name in needed if torch.stubs and (torch.stubs / name).exists()),
        "undefined": {where: names for where, names in sorted(lacking.items()) if names},
        "not_found": re.findall(r"^\s*(\S+) => not found$", text, re.MULTILINE),
        "version_errors": [_without_folders(line) for line in text.splitlines() if "' not found (required by" in line],
    }


def _in_python(name: str) -> bool:
    return name.startswith(("Py", "_Py")) and hasattr(ctypes.pythonapi, name)


def _output(*command: str, folders: list[Path] | None = None) -> str:
    environment = _environment(folders or [])
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


def _environment(folders: list[Path]) -> dict[str, str]:
    """This process's own, without what decides where libraries and modules are found, and in English."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "PYTHON"))}
    return {**kept, "LC_ALL": "C", **({"LD_LIBRARY_PATH": ":".join(map(str, folders))} if folders else {})}


def _without_folders(text: str) -> str:
    return re.sub(r"(?<![\w.])/(?:[^\s/:()'\"]+/)*(?=[^\s/:()'\"]+)", "", text)


def _torch(text: str) -> Torch:
    package, _, stubs = text.partition(":")
    return Torch(Path(package).resolve(), Path(stubs).resolve() if stubs else None)


def _installed() -> Torch:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit("this Python has no torch; name one with --torch")
    return Torch(package=Path(spec.origin).resolve().parent, stubs=None)


def record_all(
    wheels: list[Path], beside: list[Path], torches: list[Torch]
) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Load every library of the wheels that uses torch into every torch."""
    with tempfile.TemporaryDirectory() as scratch:
        others = tuple(unpack(wheel, Path(scratch, "beside", wheel.stem)) for wheel in beside)
        for wheel in wheels:
            unpacked = unpack(wheel.resolve(), Path(scratch, wheel.stem), others)
            for library in filter(uses_torch, unpacked.libraries):
                for torch in torches:
                    yield record(unpacked, library, torch)


def main() -> int:
    """Record, and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    parser.add_argument(
        "--torch", action="append", type=_torch, metavar="TORCH[:STUBS]", help="the folder of a torch (repeatable)"
    )
    parser.add_argument("--beside", action="append", type=Path, metavar="WHEEL", default=[], help="(repeatable)")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="where the record is written")
    parser.add_argument("--python", type=shlex.split, metavar="COMMAND", help="the Python of every --torch")
    parser.add_argument("--global", action="store_true", dest="make_global", help="make torch's libraries visible")
    arguments = parser.parse_args()
    made_global = _MADE_GLOBAL if arguments.make_global else ""
    python = tuple(arguments.python) if arguments.python else None
    torches = [replace(torch, python=python, made_global=made_global) for torch in arguments.torch or [_installed()]]
    (arguments.output / "registrations").mkdir(parents=True, exist_ok=True)
    with (arguments.output / "pairs.jsonl").open("a", encoding="utf-8") as stream:
        for row, added in record_all(arguments.wheels, arguments.beside, torches):
            stream.write(json.dumps(row) + "\n")
            stream.flush()
            if added is not None:
                path = arguments.output / "registrations" / row["registrations"]
                path.write_bytes(gzip.compress(json.dumps(added).encode(), mtime=0))
            outcome = row.get("message") or row.get("signal") or ""
            print(f"{row['corpus']} {row['path']} on torch {row['build']}: {row['verdict']} {outcome}".rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
