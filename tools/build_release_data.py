"""Make ``abiscan/releases/data/exports.bin``, the torch releases inside the package.

Each release is read from the libraries in its wheel, which is fetched with pip, unpacked into the work folder as far as
needed, and deleted. What was read stays there as one file per release and machine, so a second run only reads what is
new; the output depends on those files alone, byte for byte.

    python -m tools.build_release_data             # reads what is missing: 40 GB of downloads, one wheel at a time
    python -m tools.build_release_data 2.15.0      # reads one release anew, and one that is not in the list yet
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

from abiscan.elf import Machine, SymbolTable
from abiscan.files import Files, read_facts
from abiscan.libraries import Libraries
from abiscan.ownership import is_torch_library
from abiscan.releases import embedded, from_libs
from abiscan.releases.names import pack
from tools.wheels import download

OUTPUT: Final = Path(embedded.__file__).with_name("data") / "exports.bin"

VERSIONS: Final = (
    *(
        "1.4.0",
        "1.5.0",
        "1.5.1",
        "1.6.0",
        "1.7.0",
        "1.7.1",
        "1.8.0",
        "1.8.1",
        "1.9.0",
        "1.9.1",
        "1.10.0",
        "1.10.1",
        "1.10.2",
    ),
    *("1.11.0", "1.12.0", "1.12.1", "1.13.0", "1.13.1", "2.0.0", "2.0.1", "2.1.0", "2.1.1", "2.1.2", "2.2.0", "2.2.1"),
    *(
        "2.2.2",
        "2.3.0",
        "2.3.1",
        "2.4.0",
        "2.4.1",
        "2.5.0",
        "2.5.1",
        "2.6.0",
        "2.7.0",
        "2.7.1",
        "2.8.0",
        "2.9.0",
        "2.9.1",
    ),
    *("2.10.0", "2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.14.0", "2.14.1", "2.15.0"),
)


def python_of(version: str) -> str:
    """The Python whose wheel is read.

    Between Pythons, only libtorch_python.so of a release differs, and there nothing that extensions link to.
    """
    return "3.8" if Version(version) < Version("2.0") else "3.11"


def read(package: Path) -> dict[str, Any]:
    """What is kept of the torch in a folder: its description, and for each library the names it exports."""
    files = Files(read_facts)
    release = from_libs.from_path(package, files)
    libraries = dict(Libraries(release.own_libraries, files))
    exports = {}
    for name, facts in libraries.items():
        assert isinstance(facts.symbols, SymbolTable)
        exports[name] = sorted(facts.symbols)
    return {"release": embedded.describe(release, libraries), "exports": exports}


def merge(records: list[dict[str, Any]]) -> bytes:
    """The data file of several releases, oldest first."""
    columns: dict[str, int] = {}
    column = 0
    releases = []
    for record in sorted(records, key=_order):
        release = record["release"]
        for name in sorted(release["libraries"]):
            release["libraries"][name]["column"] = column
            for symbol in record["exports"][name]:
                columns[symbol] = columns.get(symbol, 0) | 1 << column
            column += 1
        releases.append(release)
    return pack(columns, {"releases": releases})


def _order(record: dict[str, Any]) -> tuple[Version, str]:
    return Version(record["release"]["build"]), record["release"]["machine"]


def fetch(version: str, machine: Machine, folder: Path) -> Path | None:
    """Unpack torch's own libraries of a release into ``folder``; its package folder, None if there is no such wheel."""
    path = download(f"torch=={version}", folder, python=python_of(version), machine=machine)
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
    """Read what is missing, then write the data file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="releases to read anew")
    parser.add_argument("--work", type=Path, default=Path("corpus/releases"), help="where what was read stays")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    records = []
    for version in dict.fromkeys((*VERSIONS, *arguments.versions)):
        for machine in Machine:
            path = arguments.work / f"{version}-{machine.value}.json.xz"
            if not path.exists() or version in arguments.versions:
                _read_release(version, machine, path)
            records.append(json.loads(lzma.decompress(path.read_bytes())))
    merged = merge([record for record in records if record])
    OUTPUT.write_bytes(merged)
    print(f"{OUTPUT.name}: {sum(map(bool, records))} releases and machines, {len(merged) / 1e6:.2f} MB")
    return 0


def _read_release(version: str, machine: Machine, path: Path) -> None:
    print(f"reading torch {version} for {machine.value}", flush=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        package = fetch(version, machine, Path(scratch))
        data = read(package) if package else None  # remembered too: there is no wheel
    part = path.with_suffix(".part")
    part.write_bytes(lzma.compress(json.dumps(data).encode(), preset=3))
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
