"""Make ``abiscan/releases/data/exports.bin``, the torch releases inside the package.

Each release is read from the libraries in its wheel, which is fetched with pip, unpacked into the work folder as far as
needed, and deleted. What was read stays there as one file per release, so a second run only reads what is new; the
output depends on those files alone, byte for byte.

    python tools/build_release_data.py                    # the releases of RELEASES
    python tools/build_release_data.py 2.13.0 --torch DIR  # take one of them from a folder instead of a wheel
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from abiscan.elf import SymbolTable
from abiscan.files import Files, read_facts
from abiscan.releases import embedded, from_libs
from abiscan.releases.libraries import TorchLibraries
from abiscan.releases.names import pack

OUTPUT: Final = Path(embedded.__file__).with_name("data") / "exports.bin"

# Release → the Python whose wheel is read. Between Pythons, only libtorch_python.so of a release differs, and there
# nothing that extensions link to.
RELEASES: Final = {"2.5.1": "3.11", "2.6.0": "3.11", "2.8.0": "3.11", "2.9.1": "3.11", "2.13.0": "3.11"}
PLATFORMS: Final = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64")


def read(package: Path) -> dict[str, Any]:
    """What is kept of the torch in a folder: its description, and for each library the names it exports."""
    files = Files(read_facts)
    release = from_libs.from_path(package, files)
    libraries = dict(TorchLibraries(release, files))
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
    for record in sorted(
        records, key=lambda record: (Version(record["release"]["build"]), record["release"]["machine"])
    ):
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


def fetch(version: str, folder: Path) -> Path:
    """Unpack the libraries of a release into ``folder``; its package folder."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"),
            *("--implementation", "cp", "--python-version", RELEASES[version], *platforms),
            *("--dest", str(folder), f"torch=={version}"),
        ],
        check=True,
    )
    path = next(folder.glob("torch-*.whl"))
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if name.startswith("torch/") and (".so" in Path(name).name or name == "torch/version.py"):
                wheel.extract(name, folder)
    path.unlink()
    return folder / "torch"


def main() -> int:
    """Read what is missing, then write the data file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "versions", nargs="*", metavar="VERSION", help="releases to read anew (default: those not read yet)"
    )
    parser.add_argument("--torch", type=Path, metavar="DIR", help="the folder of the one release named")
    parser.add_argument("--work", type=Path, default=Path("corpus/releases"), help="where what was read stays")
    arguments = parser.parse_args()
    if arguments.torch and len(arguments.versions) != 1:
        parser.error("--torch goes with one release")
    arguments.work.mkdir(parents=True, exist_ok=True)
    for version in arguments.versions or RELEASES:
        record = arguments.work / f"{version}.json.xz"
        if record.exists() and not arguments.versions:
            continue
        print(f"reading torch {version}", flush=True)
        with tempfile.TemporaryDirectory(dir=arguments.work) as scratch:
            data = read(arguments.torch or fetch(version, Path(scratch)))
        part = record.with_suffix(".part")
        part.write_bytes(lzma.compress(json.dumps(data).encode()))
        part.replace(record)
    records = [
        json.loads(lzma.decompress((arguments.work / f"{version}.json.xz").read_bytes())) for version in RELEASES
    ]
    merged = merge(records)
    OUTPUT.write_bytes(merged)
    print(f"{OUTPUT.name}: {len(records)} releases, {len(merged) / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
