"""The operators that only TorchScript has, for ``abiscan/dispatch/data/torchscript.txt``: no dispatcher knows them.

    python -m tools.record_torchscript 2.14.1 2.15.0     # read in place, on the package index: 50 MB of each wheel
    python -m tools.record_torchscript --all             # every embedded release

``tools.release`` calls it for the wheel that it has unpacked. TorchScript's operators are registered with the texts of
their schemas, so these are read from libtorch; nothing is run. Others are read from the wheel for macOS, which is
small: all wheels of a release have the same operators, and differ by at most a text that is none.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.dispatch import torchscript
from abiscan.index.client import Index, settings_of_pip
from abiscan.index.system import System
from abiscan.torches import embedded, embedded_operators

OUTPUT: Final = torchscript.PATH
_SCHEMA: Final = re.compile(rf"({torchscript.NAMESPACE}::[A-Za-z_]\w*(?:\.\w+)?)\([^\0%]*?\) ?->".encode())
_LIBRARY: Final = re.compile(r"torch/lib/libtorch(_cpu|_python)?\.(dylib|so)")
_MACOS: Final = {True: System.of((3, 8), "macosx_10_15_x86_64"), False: System.of((3, 11), "macosx_20_0_arm64")}
"""For releases before 2.0, and for those since."""


def operators_in(library: bytes) -> set[str]:
    """Return the names of the schemas in a library."""
    return {name.decode() for name in _SCHEMA.findall(library)}


def read_folder(package: Path) -> set[str]:
    """Return the names of the schemas in the libraries of an unpacked torch."""
    paths = sorted(path for path in package.rglob("lib/*") if _LIBRARY.fullmatch(f"torch/lib/{path.name}"))
    return set().union(*(operators_in(path.read_bytes()) for path in paths))


def read_remote(version: Version) -> set[str]:
    """Return the names of the schemas in the libraries of a release, from its wheel on the package index."""
    system = _MACOS[version < Version("2.0")]
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Index(settings_of_pip(sys.executable), system, Path(folder))) as index,
    ):
        candidate = index.candidates(Requirement(f"torch==={version}"))[0]
        with zipfile.ZipFile(index.wheel(candidate).stream()) as archive:
            names = [name for name in archive.namelist() if _LIBRARY.fullmatch(name)]
            return set().union(*(operators_in(archive.read(name)) for name in names))


def rewritten(text: str, added: Mapping[str, Iterable[str]], removed: Collection[str] = ()) -> str:
    """Return the file with some releases added or replaced, and some taken out.

    :param added: the names of the schemas, by release; those of the dispatcher, which is in the data, are left out
    """
    known = torchscript.parse(text) if text else {"": []}
    releases = sorted(({*known.pop("")} - {*removed}) | added.keys(), key=Version)
    of_release: dict[str, set[str]] = {release: set() for release in releases}
    for name, having in known.items():
        for release in having:
            if release in of_release and release not in added:
                of_release[release].add(name)
    for release, names in added.items():
        of_release[release] = {*names} - embedded_operators.names(release, Machine.X86_64)
    lines = [" ".join(releases)]
    for name in sorted(set().union(*of_release.values())):
        bits = sum(1 << number for number, release in enumerate(releases) if name in of_release[release])
        lines.append(f"{name} {bits:x}")
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Read, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="releases to read")
    parser.add_argument("--all", action="store_true", help="every embedded release")
    arguments = parser.parse_args()
    versions = embedded.versions() if arguments.all else tuple(map(Version, arguments.versions))
    if not versions:
        parser.error("name a release, or --all")
    added = {}
    for version in versions:
        added[str(version)] = read_remote(version)
        print(f"torch {version}: {len(added[str(version)])} schemas", flush=True)
    OUTPUT.write_text(rewritten(OUTPUT.read_text("utf-8"), added), "utf-8")


if __name__ == "__main__":
    main()
