"""Make ``abiscan/torches/data/assertions.json``: where torch's internal assertions are in its source, build by build.

Read from ``libtorch_cpu.so`` in the wheel of each embedded build, which is fetched with pip and deleted. Only builds
that the file does not have yet are read, and those that are named.

    python -m tools.build_assertion_data             # reads what is missing: 40 GB of downloads, one wheel at a time
    python -m tools.build_assertion_data 2.15.0      # reads the builds of one release anew
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.binary.elf import ElfFile, Machine
from abiscan.dispatch import assertions
from abiscan.dispatch.dispatcher import LIBRARIES
from abiscan.torches import embedded, embedded_assertions
from tools.build_release_data import VERSIONS, python_of
from tools.wheels import download

OUTPUT: Final = Path(embedded_assertions.__file__).with_name("data") / embedded_assertions.NAME


def read(version: str, machine: Machine, folder: Path) -> dict[str, str]:
    """The places of the assertions in a release on the package index."""
    wheel = download(f"torch==={version}", folder, python=python_of(version), machine=machine)
    assert wheel is not None, f"no wheel of torch {version} for {machine.value}"
    with zipfile.ZipFile(wheel) as archive:
        library = Path(archive.extract(f"torch/lib/{assertions.LIBRARY}", folder))
    wheel.unlink()
    return assertions.places(ElfFile.open(library))


def main() -> int:
    """Read what is missing, and write the file after each build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="releases to read anew")
    versions = parser.parse_args().versions
    known = json.loads(OUTPUT.read_text("utf-8")) if OUTPUT.is_file() else {}
    for release, machine, build in embedded.builds():
        name = f"{build} {machine.value}"
        if release.minor_version < LIBRARIES or (name in known and str(release) not in versions):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            known[name] = read(build if build in VERSIONS else str(release), machine, Path(scratch))
        print(f"torch {name}: {len(known[name])} assertions", flush=True)
        rows = (f"{json.dumps(key)}: {json.dumps(known[key])}" for key in sorted(known, key=_order))
        OUTPUT.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
    return 0


def _order(build: str) -> tuple[Version, str]:
    version, machine = build.split()
    return Version(version), machine


if __name__ == "__main__":
    sys.exit(main())
