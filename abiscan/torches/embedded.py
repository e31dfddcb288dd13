"""The torch releases inside the package, by number; nothing needs to be installed.

``data/exports.bin`` is made by ``tools/build_release_data.py`` from the wheels of the releases. It has what a load
needs to know of torch: its libraries, what they need, and which names they export.
"""

from __future__ import annotations

import functools
import mmap
import posixpath
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

from abiscan.binary.elf import Machine, SharedObject
from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.inputs.version import TorchVersion
from abiscan.torches.model import TorchRelease
from abiscan.torches.names import ColumnSymbols, NameTable

SITE: Final = "/site-packages"
"""The folder into which an embedded torch is taken to be installed. No real one has that path."""


@functools.cache
def versions(machine: Machine | None = None) -> tuple[TorchVersion, ...]:
    """The embedded releases, oldest first: all, or those for one machine."""
    records = _table().meta["releases"] if machine is None else _records(machine)
    return tuple(sorted(set(map(_version_of, records))))


def builds() -> tuple[tuple[TorchVersion, Machine, str], ...]:
    """All embedded builds, oldest first: their release, their machine, their full version."""
    return tuple((_version_of(each), Machine(each["machine"]), each["build"]) for each in _table().meta["releases"])


def sizes() -> dict[str, int]:
    """The files inside the package that hold them: name → bytes."""
    folder = resources.files("abiscan.torches").joinpath("data")
    return {file.name: len(file.read_bytes()) for file in sorted(folder.iterdir(), key=lambda file: file.name)}


def build(text: str, machine: Machine) -> str:
    """The full version of an embedded release: ``2.6.0+cu124`` for ``2.6.0``.

    A number without a local tag means the build for CPUs where several builds are embedded.

    :raises InputError: it is not embedded
    """
    return str(_record(text, machine)["build"])


@functools.cache
def further_builds(machine: Machine) -> tuple[str, ...]:
    """The builds for a machine that only their full version names, since the number of their release means another."""
    return tuple(full for release, each, full in builds() if each is machine and full != build(str(release), machine))


def builds_meant(text: str, machine: Machine) -> tuple[str, ...]:
    """The builds for a machine that ``text`` can mean: all of a release for its number, else the one it names."""
    version = TorchVersion(text)
    builds_of_it = (full for release, each, full in builds() if each is machine and release == version.of_release)
    return tuple(full for full in builds_of_it if version.local in (None, TorchVersion(full).local))


def releases_exporting(name: str, machine: Machine) -> frozenset[TorchVersion]:
    """The releases that export ``name``. Those embedded as a CPU build count if it is CUDA's and any other has it."""
    return _having(_table().columns(name), machine, "cuda" in name.lower())


@functools.lru_cache(maxsize=4096)
def _having(columns: int, machine: Machine, of_cuda: bool) -> frozenset[TorchVersion]:  # noqa: FBT001 - a key of the cache
    if not columns:
        return frozenset()
    return frozenset(
        _version_of(record)
        for record in _records(machine)
        if (of_cuda and "libtorch_cuda.so" not in record["libraries"])
        or any(columns >> library["column"] & 1 for library in record["libraries"].values())
    )


@functools.cache
def _records(machine: Machine) -> list[dict[str, Any]]:
    return [record for record in _table().meta["releases"] if record["machine"] == machine.value]


def is_version(text: str) -> bool:
    """Whether ``text`` is a release number, embedded or not."""
    return TorchVersion.parse(text) is not None


def admitted(text: str) -> tuple[TorchVersion, ...]:
    """The embedded releases that a version specifier admits, oldest first: those of ``>=2.4,<2.7``.

    Empty if ``text`` is no specifier.

    :raises InputError: it is one, and admits none
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        specifier = SpecifierSet(text)
    except InvalidSpecifier:
        return ()
    found = tuple(filter(specifier.contains, versions()))
    if not found:
        raise InputError(f"torch {text}", "matches no embedded release", "run abiscan releases for a list")
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
    found: dict[str, list[str]] = {name: [] for name in columns.values()}
    for bits, names in _table().by_columns.items():
        for column, library in columns.items():
            if bits >> column & 1:
                found[library] += names
    return {library: frozenset(names) for library, names in found.items()}


def _record(text: str, machine: Machine) -> dict[str, Any]:
    version = TorchVersion(text)
    same = [record for record in _records(machine) if _version_of(record) == version.of_release]
    found = [record for record in same if version.local in (None, TorchVersion(record["build"]).local)]
    if not found:
        there = [record["build"] for record in same] or versions(machine)
        fix = f"available: {', '.join(map(str, there))}"
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


def _version_of(record: Mapping[str, Any]) -> TorchVersion:
    return _public(record["build"])


@functools.cache
def _public(build: str) -> TorchVersion:
    return TorchVersion(build).of_release


@functools.cache
def _table() -> NameTable:
    # Mapped: most of it is the text of names, which few questions need.
    data = resources.files("abiscan.torches").joinpath("data/exports.bin")
    with resources.as_file(data) as path, path.open("rb") as file:
        return NameTable(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


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
                symbols=ColumnSymbols(table=_table(), column=library["column"]),
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
