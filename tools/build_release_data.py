"""Make the torch releases inside the package: ``exports.bin`` and ``operators.bin`` in ``abiscan/torches/data``.

Each release is read from the libraries in its wheel, which is fetched with pip, unpacked into the work folder as far as
needed, and deleted. What was read stays there, two files per release and machine, so a second run only reads what is
new; the output depends on those files alone, byte for byte. Reading takes about ten seconds per release and machine.

    python -m tools.build_release_data             # reads what is missing: 40 GB of downloads, one wheel at a time
    python -m tools.build_release_data 2.15.0      # reads one release anew, and one that is not in the list yet
    python -m tools.build_release_data --unpacked wheels    # reads wheels/2.15.0-x86_64/torch instead of fetching it
    python -m tools.build_release_data --packaged 2.15.0    # reads one release, and takes the others from the package

A release without a local tag is fetched as it is on the package index, one with a tag (2.13.0+cpu) from wherever pip is
told to look (PIP_EXTRA_INDEX_URL).
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from abiscan.binary.elf import Machine, SymbolTable
from abiscan.binary.ownership import is_torch_library
from abiscan.dispatch.operators import Operators
from abiscan.inputs.files import Files, read_facts
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded, embedded_operators, from_libs, operator_packer, operator_store
from abiscan.torches.names import pack
from tools.wheels import download

DATA: Final = Path(embedded.__file__).with_name("data")


def _of_pip(release: TorchVersion, machine: Machine, full: str) -> str:
    """The version under which pip finds a build: the package index has the one with CUDA if there are several."""
    several = sum((of, on) == (release, machine) for of, on, _ in embedded.builds()) > 1
    return full if several and full == embedded.build(str(release), machine) else str(release)


VERSIONS: Final = tuple(dict.fromkeys(_of_pip(*build) for build in embedded.builds()))
"""The builds in the package, by the versions under which pip finds them."""


def python_of(version: str) -> str:
    """The Python whose wheel is read.

    Between Pythons, only libtorch_python.so of a release differs, and there nothing that extensions link to.
    """
    return "3.8" if Version(version) < Version("2.0") else "3.11"


def read(package: Path) -> tuple[dict[str, Any], Operators]:
    """What is kept of the torch in a folder: a record of its libraries, and what they register.

    The record has its description, the identity of each library that registers, and for each library the names it
    exports.
    """
    files = Files(read_facts)
    release = from_libs.from_path(package, files)
    libraries = dict(Libraries(release.own_libraries, files))
    exports = {}
    for name, facts in libraries.items():
        assert isinstance(facts.symbols, SymbolTable)
        exports[name] = sorted(facts.symbols)
    record = {
        "release": embedded.describe(release, libraries),
        "identities": from_libs.identities(release, files),
        "exports": exports,
    }
    return record, from_libs.read_operators(release, files)


def merge(records: list[dict[str, Any]]) -> bytes:
    """The names that releases export, in order of ``_order``: the bytes of ``exports.bin``."""
    columns: dict[str, int] = {}
    column = 0
    for record in records:
        libraries = record["release"]["libraries"]
        for name in sorted(libraries):
            libraries[name]["column"] = column
            for symbol in record["exports"][name]:
                columns[symbol] = columns.get(symbol, 0) | 1 << column
            column += 1
    return pack(columns, {"releases": [record["release"] for record in records]})


def _order(record: dict[str, Any]) -> tuple[Version, str]:
    return Version(record["release"]["build"]), record["release"]["machine"]


def fetch(version: str, machine: Machine, folder: Path) -> Path | None:
    """Unpack torch's own libraries of a release into ``folder``; its package folder, None if there is no such wheel."""
    path = download(f"torch==={version}", folder, python=python_of(version), machine=machine)
    if path is None:
        return None
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if re.fullmatch(r"torch/(lib/[^/]+|_C\.[^/]+\.so|version\.py)", name):
                base = name.rpartition("/")[2]
                if not name.startswith("torch/lib/") or is_torch_library(base):
                    wheel.extract(name, folder)
    path.unlink()
    return folder / "torch"


def main() -> int:
    """Read what is missing, then write the data files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="releases to read anew")
    parser.add_argument("--work", type=Path, default=Path("corpus/releases"), help="where what was read stays")
    parser.add_argument("--unpacked", type=Path, help="folder of VERSION-MACHINE/torch that need not be fetched")
    parser.add_argument(
        "--packaged", action="store_true", help="take what is not in the work folder from the data in the package"
    )
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    builds = [(version, machine) for version in dict.fromkeys((*VERSIONS, *arguments.versions)) for machine in Machine]
    for number, (version, machine) in enumerate(builds, 1):
        path = arguments.work / f"{version}-{machine.value}.json.xz"
        if arguments.packaged and not path.exists() and version not in arguments.versions:
            keep(path, packaged(version, machine))
        elif not path.exists() or version in arguments.versions:
            print(f"{number}/{len(builds)}: torch {version} for {machine.value}", flush=True)
            gaps = read_release(version, machine, path, arguments.unpacked)
            for gap in gaps:
                print(f"  gap: {gap}")
    write(arguments.work, DATA)
    return 0


def read_release(version: str, machine: Machine, path: Path, unpacked: Path | None) -> list[str]:
    """Write what is kept of a release to ``path`` and a file beside it; what could not be read."""
    given = unpacked / f"{version}-{machine.value}" if unpacked else None
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        package = given / "torch" if given and given.is_dir() else fetch(version, machine, Path(scratch))
        found = read(package) if package and package.is_dir() else None
    keep(path, found)
    return list(found[1].gaps) if found else []


def packaged(version: str, machine: Machine) -> tuple[dict[str, Any], Operators] | None:
    """What ``read`` returned for the build that the package has data of; None if it has none."""
    builds = embedded_operators.table().builds
    number = next(
        (
            number
            for number, build in enumerate(builds)
            if build["machine"] == machine.value and version in (build["build"], _on_index(build["build"]))
        ),
        None,
    )
    if number is None:
        return None
    build = builds[number]
    exports = embedded.exports(build["build"], machine)
    record = {
        "release": embedded.description(build["build"], machine),
        "identities": build["libraries"],
        "exports": {name: sorted(names) for name, names in exports.items()},
    }
    return record, embedded_operators.table().operators(number)


def _on_index(build: str) -> str | None:
    """The version under which the package index has a build; None if it is only elsewhere."""
    return None if build in VERSIONS else Version(build).public


def keep(path: Path, found: tuple[dict[str, Any], Operators] | None) -> None:
    """Write what was read of a release; that there is no wheel is remembered, too."""
    record, operators = found or (None, None)
    if operators is not None:
        _beside(path).write_bytes(operator_store.pack(operators))
    part = path.with_suffix(".part")
    part.write_bytes(lzma.compress(json.dumps(record).encode(), preset=3))
    part.replace(path)


def write(work: Path, folder: Path) -> None:
    """Write the data files from what was read."""
    paths = {path: json.loads(lzma.decompress(path.read_bytes())) for path in work.glob("*.json.xz")}
    there = sorted(((record, path) for path, record in paths.items() if record), key=lambda pair: _order(pair[0]))
    exports = merge([record for record, _ in there])
    operators = operator_packer.pack(
        [
            (
                {
                    "build": record["release"]["build"],
                    "machine": record["release"]["machine"],
                    "libraries": record["identities"],
                },
                operator_store.unpack(_beside(path).read_bytes()),
            )
            for record, path in there
        ]
    )
    for name, data in (("exports.bin", exports), ("operators.bin", operators)):
        (folder / name).write_bytes(data)
        print(f"{name}: {len(there)} builds, {len(data) / 1e6:.2f} MB")


def _beside(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".json.xz") + operator_store.SUFFIX)


if __name__ == "__main__":
    sys.exit(main())
