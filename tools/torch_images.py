"""What is kept of torch for Windows and macOS: the names that its libraries export, from 2.9 on.

``tools.release`` calls it for a release.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.binary.image_reader import read_images
from abiscan.torches.names import NameTable
from abiscan.torches.torch_images import LIBRARY, VERSION
from tools.blocks import NAMES, read_files
from tools.wheels import download_for

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


def put(folder: Path, added: Iterable[ImageBuild], without: Collection[str] = ()) -> None:
    """Put builds into ``data/images``: a column for each library.

    :param without: releases to leave out
    """
    table = NameTable(read_files(folder))
    records = {" ".join((record["build"], record["system"], record["machine"])): record for record in table.meta}
    content: dict[str, Iterable[str]] = {}
    for build in added:
        name = " ".join((build.build, build.system.value, build.machine.value))
        libraries = sorted(build.exports)
        records[name] = {
            "build": build.build,
            "system": build.system.value,
            "machine": build.machine.value,
            "libraries": libraries,
        }
        content |= {f"{name} {library}": build.exports[library] for library in libraries}
    replaced = {column.rpartition(" ")[0] for column in content}
    gone = [
        column
        for column in table.columns
        if column.rpartition(" ")[0] in replaced or Version(column.partition(" ")[0]).public in without
    ]
    NAMES.put(
        folder,
        content,
        gone,
        lambda columns: [records[build] for build in dict.fromkeys(column.rpartition(" ")[0] for column in columns)],
    )
