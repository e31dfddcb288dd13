"""What is kept of torch for Windows and macOS: the names that its libraries export, of the newest releases.

``tools.release`` calls it for a release; the file holds all that is known of the others, so they are not fetched again.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.binary.image_reader import read_images
from abiscan.torches.names import NameTable, pack
from abiscan.torches.torch_images import LIBRARY, VERSION
from tools.wheels import download_for

NEWEST: Final = 10
"""Releases that are kept for each system: those before them grow rare there, and cost 150 kB each."""

_PLATFORMS: Final = {
    (ImageSystem.WINDOWS, Machine.X86_64): ("win_amd64",),
    (ImageSystem.MACOS, Machine.AARCH64): tuple(f"macosx_{number}_0_arm64" for number in range(20, 10, -1)),
}
# The libraries that extensions link with; the others are of other projects.
_LINKED: Final = re.compile(r"(lib)?(c10|shm|torch|torch_cpu|torch_python)\.(dll|dylib)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    """One build: what each of its libraries exports."""

    build: str
    system: ImageSystem
    machine: Machine
    exports: Mapping[str, Iterable[str]]

    @property
    def order(self) -> tuple[str, str, Version]:
        """The order of builds in the file."""
        return self.system.value, self.machine.value, Version(self.build)


def read(version: str, work: Path) -> list[ImageBuild]:
    """The builds of a release on the package index; each wheel is fetched and deleted."""
    found = []
    for (system, machine), platforms in _PLATFORMS.items():
        with tempfile.TemporaryDirectory(dir=work) as scratch:
            wheel = download_for(f"torch==={version}", Path(scratch), platforms)
            if wheel is not None:
                found.append(read_wheel(wheel, system, machine))
                print(f"torch {version} for {system.value}", flush=True)
    return found


def read_wheel(wheel: Path, system: ImageSystem, machine: Machine) -> ImageBuild:
    """What a wheel exports on a machine. Ordinals are left out: nobody links with torch by them."""
    exports = {}
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            name = path.rpartition("/")[2]
            if LIBRARY.search(path) and _LINKED.fullmatch(name):
                image = read_images(archive.read(path), path, exports_only=True)[machine]
                exports[name] = sorted(export for export in image.exports if not export.startswith("#"))
        version = VERSION.search(archive.read("torch/version.py").decode())
    assert version is not None
    return ImageBuild(build=version[1], system=system, machine=machine, exports=exports)


def rewritten(data: bytes, added: Iterable[ImageBuild], removed: Iterable[str] = ()) -> bytes:
    """The file with some builds added or replaced, and some releases taken out."""
    builds = {build.order: build for build in _unpacked(data)} | {build.order: build for build in added}
    gone = set(removed)
    kept = [build for build in builds.values() if Version(build.build).public not in gone]
    newest: dict[tuple[ImageSystem, Machine], list[ImageBuild]] = {}
    for build in sorted(kept, key=lambda build: build.order):
        newest.setdefault((build.system, build.machine), []).append(build)
    return packed([build for builds in newest.values() for build in builds[-NEWEST:]])


def packed(builds: Iterable[ImageBuild]) -> bytes:
    """The file: a table of names, and in its meta data the builds, each with the column of each library."""
    columns: dict[str, int] = {}
    records: list[dict[str, Any]] = []
    number = 0
    for build in builds:
        libraries = {}
        for library, names in sorted(build.exports.items()):
            libraries[library] = number
            for name in names:
                columns[name] = columns.get(name, 0) | 1 << number
            number += 1
        records.append(
            {
                "build": build.build,
                "system": build.system.value,
                "machine": build.machine.value,
                "libraries": libraries,
            }
        )
    return pack(columns, {"builds": records})


def _unpacked(data: bytes) -> list[ImageBuild]:
    table = NameTable(data)
    names: dict[int, list[str]] = {}
    for columns, exported in table.by_columns().items():
        for column in range(columns.bit_length()):
            if columns >> column & 1:
                names.setdefault(column, []).extend(exported)
    return [
        ImageBuild(
            build=record["build"],
            system=ImageSystem(record["system"]),
            machine=Machine(record["machine"]),
            exports={library: sorted(names.get(column, ())) for library, column in record["libraries"].items()},
        )
        for record in table.meta["builds"]
    ]
