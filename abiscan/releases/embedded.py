"""The torch releases inside the package: asked for by number, nothing installed.

``data/exports.bin`` is made by ``tools/build_release_data.py`` from the wheels of the releases. It has what a load
needs to know of torch: its libraries, what they need, and which names they export.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from abiscan.elf import Definition, Machine, SharedObject
from abiscan.errors import InputError
from abiscan.files import Files
from abiscan.releases.model import TorchRelease
from abiscan.releases.names import NameTable

SITE: Final = "/site-packages"
"""The folder into which an embedded torch is taken to be installed. No real one has that path."""

_EXPORTED: Final = (Definition(version=None, hidden=False, version_index=0, type=0, size=0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSymbols:
    """``Symbols`` of one library of one release; types and sizes are not kept, versions torch has none."""

    table: NameTable
    column: int

    def find(self, name: str) -> tuple[Definition, ...]:
        """One definition if the library exports ``name``."""
        return _EXPORTED if self.table.columns(name) >> self.column & 1 else ()

    def starting_with(self, prefix: str) -> Iterator[str]:
        """The names that begin with ``prefix``."""
        return (name for name, columns in self.table.starting_with(prefix) if columns >> self.column & 1)


def versions(machine: Machine | None = None) -> tuple[Version, ...]:
    """The embedded releases, oldest first: all, or those for one machine."""
    records = _table().meta["releases"]
    return tuple(sorted({_version_of(each) for each in records if machine is None or each["machine"] == machine.value}))


def builds() -> tuple[tuple[Version, Machine, str], ...]:
    """All embedded builds, oldest first: their release, their machine, their full version."""
    return tuple((_version_of(each), Machine(each["machine"]), each["build"]) for each in _table().meta["releases"])


def sizes() -> dict[str, int]:
    """The files inside the package that hold them: name → bytes."""
    folder = resources.files("abiscan.releases").joinpath("data")
    return {file.name: len(file.read_bytes()) for file in sorted(folder.iterdir(), key=lambda file: file.name)}


def build(text: str, machine: Machine) -> str:
    """The full version of an embedded release: ``2.6.0+cu124`` for ``2.6.0``.

    A number without a local tag means the build for CPUs where several builds are embedded.

    :raises InputError: it is not embedded
    """
    return str(_record(text, machine)["build"])


def releases_exporting(names: Iterable[str], machine: Machine) -> tuple[Version, ...]:
    """The releases that export the most of ``names``, oldest first; none if all lack more than one in fifty.

    Few names are missing where a package brings them itself. Names that no release exports do not count; nor do, for a
    release embedded as a CPU build, names of CUDA's.
    """
    table = _table()
    records = [record for record in table.meta["releases"] if record["machine"] == machine.value]
    masks = [sum(1 << library["column"] for library in record["libraries"].values()) for record in records]
    without_cuda = ["libtorch_cuda.so" not in record["libraries"] for record in records]
    lacking = [0] * len(records)
    known = 0
    for name in names:
        if columns := table.columns(name):
            known += 1
            of_cuda = "cuda" in name.lower()
            for number, mask in enumerate(masks):
                lacking[number] += not columns & mask and not (of_cuda and without_cuda[number])
    fewest = min(lacking, default=0)
    if fewest > known // 50:
        return ()
    return tuple(
        sorted({_version_of(record) for record, count in zip(records, lacking, strict=True) if count == fewest})
    )


def is_version(text: str) -> bool:
    """Whether ``text`` is a release number, embedded or not."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def admitted(text: str) -> tuple[Version, ...]:
    """The embedded releases that a version specifier admits, oldest first: those of ``>=2.4,<2.7``.

    Empty if ``text`` is no specifier.

    :raises InputError: it is one, and admits none
    """
    try:
        specifier = SpecifierSet(text)
    except InvalidSpecifier:
        return ()
    found = tuple(filter(specifier.contains, versions()))
    if not found:
        raise InputError(f"torch {text}", "admits no embedded release", "see: abiscan releases")
    return found


def release(text: str, machine: Machine, files: Files) -> TorchRelease:
    """An embedded release.

    :param text: its number: ``2.6.0``, ``2.13.0+cu130``
    :param files: gets the libraries of the release
    :raises InputError: it is not embedded
    """
    return _unpack(_record(text, machine), files)


def exports(text: str, machine: Machine) -> dict[str, frozenset[str]]:
    """All names that the libraries of an embedded release export, by library.

    :raises InputError: it is not embedded
    """
    columns = {library["column"]: name for name, library in _record(text, machine)["libraries"].items()}
    mask = sum(1 << column for column in columns)
    found: dict[str, list[str]] = {name: [] for name in columns.values()}
    for name, bits in _table().starting_with(""):
        if bits & mask:
            for column, library in columns.items():
                if bits >> column & 1:
                    found[library].append(name)
    return {library: frozenset(names) for library, names in found.items()}


def _record(text: str, machine: Machine) -> dict[str, Any]:
    version = Version(text)
    records = [record for record in _table().meta["releases"] if record["machine"] == machine.value]
    same = [record for record in records if _version_of(record) == Version(version.public)]
    found = [record for record in same if version.local in (None, Version(record["build"]).local)]
    if not found:
        there = [record["build"] for record in same] or versions(machine)
        fix = f"there are: {', '.join(map(str, there))}"
        raise InputError(f"torch {text}", f"not among the embedded releases for {machine.value}", fix)
    return min(found, key=lambda record: ("libtorch_cuda.so" in record["libraries"], record["build"]))


def describe(record: TorchRelease, libraries: Mapping[str, SharedObject]) -> dict[str, Any]:
    """What the data file says of a release, besides its names: the inverse of ``release``.

    :param libraries: base name → facts, the column of each counted from 0 in this order
    """

    def names(paths: tuple[str, ...]) -> list[str]:
        # torch/_C is a stub whose one task is to need libtorch_python.so.
        return [name if name in libraries else "libtorch_python.so" for name in map(posixpath.basename, paths)]

    return {
        "build": record.build,
        "machine": record.machine.value,
        "global": names(record.global_libraries),
        "local": names(record.local_libraries),
        "libraries": {
            name: {
                "soname": facts.soname,
                "needed": list(facts.needed),
                "versions": None if facts.version_definitions is None else sorted(facts.version_definitions),
                "pybind11": facts.pybind11_internals,
            }
            for name, facts in libraries.items()
        },
    }


def _version_of(record: Mapping[str, Any]) -> Version:
    return Version(Version(record["build"]).public)


@functools.cache
def _table() -> NameTable:
    return NameTable(resources.files("abiscan.releases").joinpath("data/exports.bin").read_bytes())


def _unpack(record: dict[str, Any], files: Files) -> TorchRelease:
    package = posixpath.join(SITE, "torch")
    machine = Machine(record["machine"])
    paths = {name: posixpath.join(package, "lib", name) for name in record["libraries"]}
    for name, library in record["libraries"].items():
        files.put(
            paths[name],
            SharedObject(
                machine=machine,
                executable=False,
                soname=library["soname"],
                needed=tuple(library["needed"]),
                rpath=(),
                runpath=("$ORIGIN",),
                build_id=None,
                version_needs=(),
                version_definitions=None if library["versions"] is None else frozenset(library["versions"]),
                symbols=EmbeddedSymbols(table=_table(), column=library["column"]),
                references=(),
                imports=frozenset(),
                pybind11_internals=library["pybind11"],
                pybind11_python=(),
            ),
        )
    return TorchRelease(
        build=record["build"],
        package=package,
        machine=machine,
        python=None,
        libraries=tuple(paths.values()),
        global_libraries=tuple(paths[name] for name in record["global"]),
        local_libraries=tuple(paths[name] for name in record["local"]),
    )
