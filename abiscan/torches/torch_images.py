"""The libraries of torch for Windows and macOS: what each exports, by release, or in the files of a torch.

``data/images`` is made by ``tools/release.py``, as ``data/exports`` is, from wheels of the newer releases.
"""

from __future__ import annotations

import functools
import itertools
import posixpath
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem, is_image
from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.files import DiskFile, ElfSource, Wheel
from abiscan.inputs.interpreter import PythonTag
from abiscan.inputs.kinds import TargetKind, kind_of
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex
from abiscan.torches.names import NameTable

LIBRARY: Final = regex(r"(?:^|/)torch/lib/[^/]+\.(dll|dylib)$")
"""Where torch's own libraries are in a wheel."""

VERSION: Final = regex(r"^\s*__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)
"""The version in ``torch/version.py``."""


class TorchImages(Struct, frozen=True, kw_only=True):
    """A build of torch for one system and machine.

    :ivar exports: for each library, whether it exports a name
    :ivar ordinals: whether the numbers of exports are known, too (``#5``), which are not embedded
    """

    build: str | None
    system: ImageSystem
    machine: Machine
    exports: Mapping[str, Callable[[str], bool]]
    ordinals: bool

    def __str__(self) -> str:
        return f"torch {self.build or '(version unknown)'} for {self.system.value}"

    def library(self, name: str) -> str | None:
        """Return the library that a name stands for, which may have a folder before it: its base name."""
        spelled = str.lower if self.system.flat else str
        return {spelled(own): own for own in self.exports}.get(spelled(posixpath.basename(name)))


def of_release(number: str, system: ImageSystem, machine: Machine) -> TorchImages:
    """Return an embedded release, by its number: ``2.13.0``.

    :raises InputError: it is not embedded for that system and machine
    """
    version = TorchVersion(number)
    records = _records_for(system, machine)
    record = next((record for record in records if _is_meant(version, TorchVersion(record["build"]))), None)
    if record is None:
        builds = ", ".join(record["build"] for record in records)
        problem = f"not among the releases that are embedded for {system.value} on {machine.value}"
        fix = f"pass one of {builds}, or the wheel of this torch" if builds else "pass the wheel of this torch"
        if (system, machine) == (ImageSystem.MACOS, Machine.X86_64):
            problem = f"no release is embedded for {system.value} on {machine.value}, where 2.2.2 was the last one"
            fix = "pass the wheel of the torch for it"
        raise InputError(f"torch {number}", problem, fix)
    table = _make_table()

    def make_lookup(column: int) -> Callable[[str], bool]:
        return lambda name: bool(table.columns_with(name) >> column & 1)

    exports = {name: make_lookup(column) for name, column in record["libraries"].items()}
    return TorchImages(build=record["build"], system=system, machine=machine, exports=exports, ordinals=False)


def _is_meant(asked: TorchVersion, build: TorchVersion) -> bool:
    return build.of_release == asked.of_release and asked.local in (None, build.local)


def has_release(number: str, system: ImageSystem, machine: Machine) -> bool:
    """Whether a release, or a build of it, is embedded."""
    version = TorchVersion(number)
    return any(_is_meant(version, TorchVersion(record["build"])) for record in _records_for(system, machine))


def releases(system: ImageSystem, machine: Machine) -> tuple[TorchVersion, ...]:
    """Return the embedded releases for a system, oldest first."""
    return tuple(sorted(TorchVersion(record["build"]).of_release for record in _records_for(system, machine)))


def builds(system: ImageSystem, machine: Machine) -> tuple[TorchVersion, ...]:
    """Return the embedded builds for a system, oldest first."""
    return tuple(sorted(TorchVersion(record["build"]) for record in _records_for(system, machine)))


def find_images(path: Path) -> TorchImageFiles | None:
    """Return the torch for Windows or macOS in a folder or a wheel; None if there is no such torch."""
    kind = kind_of(path)
    if kind is TargetKind.FOLDER:
        package = path.parent if path.name == "lib" and not observed_fs.is_dir(path / "lib") else path
        result = [
            package / "lib" / name
            for name in observed_fs.list_names(package / "lib")
            if name.endswith((".dll", ".dylib"))
        ]
        sources: dict[str, ElfSource] = {file.name: DiskFile(file) for file in result}
        modules = list(observed_fs.list_names(package))
        version_file = package / "version.py"
        text = (
            observed_fs.read_file(version_file).decode("utf-8", "replace") if observed_fs.is_file(version_file) else ""
        )
    elif kind is TargetKind.WHEEL and observed_fs.is_file(path):
        wheel = Wheel(path)
        names = list(wheel.list_members())
        modules = [posixpath.basename(name) for name in names if posixpath.dirname(name) == "torch"]
        sources = {posixpath.basename(name): wheel.find_member(name) for name in names if LIBRARY.search(name)}
        text = wheel.read_text("torch/version.py") if "torch/version.py" in names else ""
    else:
        return None
    # Any folder or wheel may be asked about: what is for Linux is read elsewhere.
    images = {name: source for name, source in sources.items() if is_image(source.read_head(4))}
    if not any("torch_cpu" in name for name in images):
        return None
    version = VERSION.search(text)
    tags = (PythonTag.of_file(name) for name in modules if name.startswith("_C."))
    return TorchImageFiles(
        package=str(path), build=version[1] if version else None, python=next(filter(None, tags), None), sources=images
    )


class TorchImageFiles(Struct, frozen=True, kw_only=True, dict=True):
    """A torch for Windows or macOS in files.

    :ivar package: the torch, as the user named it
    :ivar build: its full version, None if that is unknown
    :ivar python: the Python that its module is for, None if that is unknown
    :ivar sources: its libraries
    """

    package: str
    build: str | None
    python: PythonTag | None
    sources: Mapping[str, ElfSource]

    def has(self, system: ImageSystem, machine: Machine) -> bool:
        """Whether it is for that system and machine."""
        return (system, machine) in self._exports

    def on(self, system: ImageSystem, machine: Machine) -> TorchImages:
        """Return what is known about it for a target.

        :raises InputError: a library is damaged; it is for another system or machine
        """
        exports = {name: names.__contains__ for name, names in self._exports.get((system, machine), {}).items()}
        if not exports:
            built = ", ".join(f"{system.value} on {machine.value}" for system, machine in self._exports)
            problem = f"is for {built}, the target for {system.value} on {machine.value}"
            raise InputError(self.package, problem, "pass a torch for the same system")
        return TorchImages(build=self.build, system=system, machine=machine, exports=exports, ordinals=True)

    @functools.cached_property
    def _exports(self) -> dict[tuple[ImageSystem, Machine], dict[str, Collection[str]]]:
        from abiscan.binary.image_reader import read_images

        by_name: dict[tuple[ImageSystem, Machine], dict[str, Collection[str]]] = {}
        for name, source in self.sources.items():
            for machine, image in read_images(source.read_head(source.size), source.name, exports_only=True).items():
                by_name.setdefault((image.system, machine), {})[name] = image.exports
        return by_name


def _records_for(system: ImageSystem, machine: Machine) -> list[dict[str, Any]]:
    known = (system.value, machine.value)
    records = [record for record in _all_records() if (record["system"], record["machine"]) == known]
    return sorted(records, key=lambda record: TorchVersion(record["build"]))


@functools.cache
def _all_records() -> list[dict[str, Any]]:
    """Return what is kept of each build, with the columns of its libraries."""
    columns = itertools.count()
    return [
        {**record, "libraries": {library: next(columns) for library in record["libraries"]}}
        for record in _make_table().meta
    ]


@functools.cache
def _make_table() -> NameTable:
    return NameTable.of("images")
