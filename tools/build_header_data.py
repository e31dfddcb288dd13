"""Make ``abiscan/torches/data/headers.bin``: where the headers of each torch release have assertions.

The headers are read from the wheels, which are fetched with pip and deleted: those for aarch64 where there are any, for
they are small. What was read stays in the work folder, one text file for each release, so a second run only reads what
is new; the output depends on those files alone, byte for byte.

    python -m tools.build_header_data
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.torches import headers
from abiscan.torches.names import pack
from tools.build_release_data import VERSIONS, python_of
from tools.wheels import download

OUTPUT: Final = Path(headers.__file__).with_name("data") / "headers.bin"

INCLUDE: Final = "torch/include/"


def read(wheel: zipfile.ZipFile) -> list[str]:
    """``c10/core/TensorImpl.h:1733``, … of all headers in a wheel of torch."""
    found = set()
    for name in wheel.namelist():
        if name.startswith(INCLUDE):
            text = wheel.read(name).decode("utf-8", "replace")
            found |= {f"{name.removeprefix(INCLUDE)}:{line}" for line in headers.assertions(text)}
    return sorted(found)


def fetch(version: str, folder: Path) -> list[str]:
    """The same of a release on the package index."""
    for machine in (Machine.AARCH64, Machine.X86_64):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            path = download(f"torch=={version}", Path(scratch), python=python_of(version), machine=machine)
            if path is not None:
                with zipfile.ZipFile(path) as wheel:
                    return read(wheel)
    raise SystemExit(f"no wheel of torch {version}")


def main() -> int:
    """Read what is missing, then write the data file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("corpus/headers"), help="where what was read stays")
    work = parser.parse_args().work
    work.mkdir(parents=True, exist_ok=True)
    columns: dict[str, int] = {}
    versions = sorted(VERSIONS, key=Version)
    for number, version in enumerate(versions):
        path = work / f"{version}.txt"
        if not path.exists():
            print(f"reading torch {version}", flush=True)
            path.write_text("".join(f"{line}\n" for line in fetch(version, work)), "utf-8")
        for line in path.read_text("utf-8").splitlines():
            columns[line] = columns.get(line, 0) | 1 << number
    packed = pack(columns, {"releases": versions})
    OUTPUT.write_bytes(packed)
    print(f"{OUTPUT.name}: {len(columns)} lines of {len(versions)} releases, {len(packed) / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
