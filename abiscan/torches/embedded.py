"""The embedded torch releases, by number; nothing needs to be installed.

``data/exports`` is made by ``tools/release.py`` from the wheels of the releases. It has what the model of a load needs
to know about torch: its libraries, their dependencies, and the names that they export. A column is a library of a
build.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec.structs

from abiscan import release_data
from abiscan.binary.elf import Machine, SharedObject
from abiscan.binary.ownership import cuda_runtime, gpu_library, is_of_gpu_vendor
from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex
from abiscan.torches import string_abi
from abiscan.torches.model import TorchRelease
from abiscan.torches.names import ColumnNames, ColumnSymbols, NameTable

_CUDA_TAG: Final = regex(r"cu([0-9]+)[0-9]")
_ONLY_WITH_CUDA: Final = regex(r"lib(c10_cuda|caffe2_nvrtc|caffe2_detectron_ops_gpu|torch_cuda\w*|torch_nvshmem)\.so")
SITE: Final = "/site-packages"
"""The folder in which an embedded torch is assumed to be installed. No real torch has that path."""


@functools.cache
def versions(machine: Machine | None = None) -> tuple[TorchVersion, ...]:
    """Return the embedded releases, oldest first: all, or those for one machine."""
    records = _all_records() if machine is None else _records_for(machine)
    return tuple(sorted(set(map(_version_of, records))))


@functools.cache
def builds() -> tuple[tuple[TorchVersion, Machine, str], ...]:
    """Return all embedded builds, oldest first: their release, their machine, their full version."""
    return tuple((_version_of(record), Machine(record["machine"]), record["build"]) for record in _all_records())


def libraries(text: str, machine: Machine) -> tuple[str, ...]:
    """Return the base names of the libraries of an embedded release.

    :raises InputError: it is not embedded
    """
    return tuple(find_record(text, machine)["libraries"])


def data_sizes() -> dict[str, int]:
    """Return the kinds of embedded data: name of their folder, or of their only file → size in bytes."""
    folder = release_data.folder("torches")
    kinds = {kind.name: kind.iterdir() if kind.is_dir() else [kind] for kind in folder.iterdir()}
    kinds.pop(release_data.VERSION_FILE)
    return {name: sum(len(file.read_bytes()) for file in files) for name, files in sorted(kinds.items())}


def build(text: str, machine: Machine) -> str:
    """Return the full version of an embedded release: ``2.6.0+cu124`` for ``2.6.0``.

    If several builds are embedded, a number without a local tag means the CPU build.

    :raises InputError: it is not embedded
    """
    return str(find_record(text, machine)["build"])


@functools.cache
def extra_builds(machine: Machine) -> tuple[str, ...]:
    """Return the builds for a machine that need their full version, since their release number means another build."""
    return tuple(
        full
        for release, build_machine, full in builds()
        if build_machine is machine and full != build(str(release), machine)
    )


def default_builds(text: str) -> frozenset[tuple[Machine, str]]:
    """Return the embedded build that a release number or a full version stands for on each machine."""
    return frozenset((machine, build(text, machine)) for machine in Machine if builds_named(text, machine))


def builds_named(text: str, machine: Machine) -> tuple[str, ...]:
    """Return the builds for a machine that ``text`` can mean: all builds of a release number, or the one with this
    version.
    """
    return tuple(record["build"] for record in _records_named(text, machine))


def releases_exporting(name: str, machine: Machine) -> frozenset[TorchVersion]:
    """Return the releases that export ``name``; for a CUDA symbol of any release, also those embedded as CPU builds."""
    return _find_releases(_make_table().columns_with(name), machine, "cuda" in name.lower())


@functools.lru_cache(maxsize=4096)
def exported_by_release(name: str, machine: Machine) -> Mapping[TorchVersion, bool]:
    """Tell whether each release exports a name, oldest first; a CUDA symbol counts in builds with CUDA alone."""
    # A column is one library of one build, so a release has the name if any library of any of its builds does.
    columns = _make_table().columns_with(name)
    of_cuda = "cuda" in name.lower()
    exported: dict[TorchVersion, bool] = {}
    for record in _records_for(machine):
        if of_cuda and "libtorch_cuda.so" not in record["libraries"]:
            continue
        has = bool(columns & _columns_of_builds(machine)[record["build"]])
        exported[_version_of(record)] = exported.get(_version_of(record), False) or has
    return dict(sorted(exported.items()))


def libraries_exporting(name: str, machine: Machine) -> frozenset[str]:
    """Return the libraries of torch that export a name in any release."""
    columns = _make_table().columns_with(name)
    of_libraries = _columns_of_libraries(machine).items() if columns else ()
    return frozenset(library for library, of_library in of_libraries if columns & of_library)


@functools.cache
def _columns_of_libraries(machine: Machine) -> dict[str, int]:
    """Return the columns that each library has in all builds, as a bit set."""
    columns: dict[str, int] = {}
    for record in _records_for(machine):
        for library, described in record["libraries"].items():
            columns[library] = columns.get(library, 0) | 1 << described["column"]
    return columns


@functools.cache
def cuda_majors(machine: Machine) -> Mapping[TorchVersion, frozenset[str]]:
    """Return the major versions of CUDA that the builds of each release were built for, oldest first."""
    majors: dict[TorchVersion, frozenset[str]] = {}
    for record in _records_for(machine):
        needed = (name for library in record["libraries"].values() for name in library["needed"])
        separator = {version.partition(".")[0] for name in needed if (version := cuda_runtime(name))}
        majors[_version_of(record)] = majors.get(_version_of(record), frozenset()) | separator
    return dict(sorted(majors.items()))


@functools.lru_cache(maxsize=4096)
def _find_releases(columns: int, machine: Machine, of_cuda: bool) -> frozenset[TorchVersion]:  # noqa: FBT001 - a key of the cache
    if not columns:
        return frozenset()
    return frozenset(
        _version_of(record)
        for record in _records_for(machine)
        if (of_cuda and "libtorch_cuda.so" not in record["libraries"])
        or columns & _columns_of_builds(machine)[record["build"]]
    )


@functools.cache
def _columns_of_builds(machine: Machine) -> dict[str, int]:
    """Return the columns of the libraries of each build, as a bit set."""
    return {
        record["build"]: functools.reduce(
            operator.or_, (1 << library["column"] for library in record["libraries"].values()), 0
        )
        for record in _records_for(machine)
    }


@functools.cache
def _records_for(machine: Machine) -> list[dict[str, Any]]:
    return [record for record in _all_records() if record["machine"] == machine.value]


@functools.cache
def _all_records() -> list[dict[str, Any]]:
    """Return what is kept of each build, oldest first, with the columns of its libraries."""
    columns = itertools.count()
    records = _make_table().meta
    for record in records:
        for _, library in sorted(record["libraries"].items()):
            library["column"] = next(columns)
    return sorted(records, key=lambda record: (TorchVersion(record["build"]), record["machine"]))


def _records_named(text: str, machine: Machine) -> list[dict[str, Any]]:
    # A number alone means every build of the release; with a local tag it means that build (PEP 440).
    local = TorchVersion(text).local
    same = _records_of_release(machine).get(_public_version(text), [])
    return [record for record in same if local in (None, TorchVersion(record["build"]).local)]


@functools.cache
def _records_of_release(machine: Machine) -> dict[TorchVersion, list[dict[str, Any]]]:
    records: dict[TorchVersion, list[dict[str, Any]]] = {}
    for record in _records_for(machine):
        records.setdefault(_version_of(record), []).append(record)
    return records


def is_version(text: str) -> bool:
    """Whether ``text`` is a release number, embedded or not."""
    return TorchVersion.parse(text) is not None


def admitted_releases(text: str) -> tuple[TorchVersion, ...]:
    """Return the embedded releases that a version specifier admits, oldest first: those of ``>=2.4,<2.7``.

    Empty if ``text`` is no specifier.

    :raises InputError: it is a specifier that admits no release
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        specifier = SpecifierSet(text)
    except InvalidSpecifier:
        return ()
    matching = tuple(filter(specifier.contains, versions()))
    if not matching:
        raise InputError(f"torch {text}", "matches no embedded release", "run abiscan releases for a list")
    return matching


def release(text: str, machine: Machine, files: Files) -> TorchRelease:
    """Return an embedded release.

    :param text: its number: ``2.6.0``, ``2.13.0+cu130``
    :param files: the libraries of the release are put there
    :raises InputError: it is not embedded
    """
    return _make_release(find_record(text, machine), files)


def release_like(text: str, machine: Machine, files: Files) -> TorchRelease:
    """Return a build, embedded or not: the most similar embedded build of its release, with the CUDA in its tag.

    :param text: its number: ``2.6.0+cu126``
    :param files: its libraries are put there
    :raises InputError: no build of its release is embedded for the machine
    """
    # Which libraries there are, and what they need, depends on CUDA: take a build for the same one, or else one that
    # agrees in having CUDA at all.
    same = _records_of_release(machine).get(_public_version(text), [])
    if not same or _records_named(text, machine):
        return release(text, machine, files)
    major = cuda_of(text)
    record = max(
        same, key=lambda record: (_cuda_major(record) == major, (_cuda_major(record) is None) == (major is None))
    )
    like = record["build"]
    if major is not None and _cuda_major(record) != major:
        record = _with_cuda(record, major)
    elif _cuda_major(record) is not None and _is_for_cpus(text):
        record = _without_cuda(record)
    return msgspec.structs.replace(_make_release(record, files), build=text, judged_as=like)


def cuda_of(build: str) -> str | None:
    """Return the major version of CUDA in the tag of a build: ``12`` for ``2.6.0+cu126``."""
    match = _CUDA_TAG.fullmatch(TorchVersion(build).local or "")
    return match[1] if match else None


def _cuda_major(record: Mapping[str, Any]) -> str | None:
    return cuda_of(record["build"])


def _is_for_cpus(build: str) -> bool:
    return (TorchVersion(build).local or "").startswith("cpu")


def _without_cuda(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a build without the libraries that builds for CPUs do not have, and without CUDA's own."""

    def keep(names: Iterable[str]) -> list[str]:
        return [name for name in names if not (_ONLY_WITH_CUDA.fullmatch(name) or is_of_gpu_vendor(name))]

    kept = {name: record["libraries"][name] for name in keep(record["libraries"])}
    libraries = {name: {**library, "needed": keep(library["needed"])} for name, library in kept.items()}
    return {**record, "libraries": libraries, "global": keep(record["global"]), "local": keep(record["local"])}


def _with_cuda(record: Mapping[str, Any], major: str) -> dict[str, Any]:
    """Return a build whose libraries need those of another CUDA, as the newest build with that one does."""
    # Names such as ``libcublas.so.12`` follow the version of CUDA: take those that the newest build with it needs.
    of_major = (item for item in reversed(_records_for(Machine(record["machine"]))) if _cuda_major(item) == major)
    names = {}
    for item in itertools.islice(of_major, 1):
        needed = (name for library in item["libraries"].values() for name in library["needed"])
        names = {library.stem: name for name in needed if (library := gpu_library(name))}

    def rename_needed(needed: Iterable[str]) -> list[str]:
        pairs = ((name, gpu_library(name)) for name in needed)
        return [names[library.stem] if library and library.stem in names else name for name, library in pairs]

    libraries = {
        name: {**library, "needed": rename_needed(library["needed"])} for name, library in record["libraries"].items()
    }
    return {**record, "libraries": libraries}


def exports(text: str, machine: Machine) -> dict[str, AbstractSet[str]]:
    """Return all names that the libraries of an embedded release export, by library.

    :raises InputError: it is not embedded
    """
    libraries = find_record(text, machine)["libraries"]
    return {name: ColumnNames(_make_table(), library["column"]) for name, library in libraries.items()}


@functools.cache
def uses_cxx11_strings(text: str, machine: Machine) -> bool | None:
    """Whether an embedded release was built with the C++11 ``std::string``; None if it is not embedded."""
    record = next((record for record in _records_for(machine) if str(_version_of(record)) == text), None)
    return None if record is None else string_abi.uses_cxx11_strings(_libraries_in(record))


def has_build(text: str, machine: Machine) -> bool:
    """Whether a release, or one build of it, is embedded for a machine."""
    return bool(builds_named(text, machine))


def find_record(text: str, machine: Machine) -> dict[str, Any]:
    """Return what the data file has for a release: the result of ``make_record``.

    :raises InputError: it is not embedded
    """
    candidates = _records_named(text, machine)
    if not candidates:
        problem = f"not among the embedded releases for {machine.value}"
        if same := _records_of_release(machine).get(_public_version(text)):
            builds = ", ".join(record["build"] for record in same)
            # Builds of one release can differ in everything that matters, the string ABI included.
            raise InputError(f"torch {text}", problem, f"pass {builds}, or the folder or the wheel of this build")
        fix = f"the nearest are {', '.join(_nearest_releases(TorchVersion(text), machine))}; abiscan releases lists all"
        raise InputError(f"torch {text}", problem, fix)
    # Builds with CUDA come last: a number without a tag means the CPU build.
    return min(candidates, key=lambda record: ("libtorch_cuda.so" in record["libraries"], record["build"]))


def _nearest_releases(version: TorchVersion, machine: Machine) -> list[str]:
    """Return the releases before and after one that is not embedded."""
    # The neighbours on both sides, since users may want an older one or a newer one.
    releases = versions(machine)
    place = bisect.bisect(releases, version)
    return list(map(str, releases[max(place - 2, 0) : place + 2]))


def make_record(record: TorchRelease, libraries: Mapping[str, SharedObject]) -> dict[str, Any]:
    """Return what the data file has for a release, besides its names: the inverse of ``release``.

    :param libraries: base name → facts; their columns are counted from 0 in this order
    """

    def base_names(paths: tuple[str, ...]) -> list[str]:
        # torch/_C is a stub whose only purpose is to load libtorch_python.so.
        return [name if name in libraries else "libtorch_python.so" for name in map(posixpath.basename, paths)]

    return {
        "build": record.build,
        "machine": record.machine.value,
        "global": base_names(record.global_libraries),
        "local": base_names(record.local_libraries),
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
    return _public_version(record["build"])


@functools.cache
def _public_version(build: str) -> TorchVersion:
    return TorchVersion(build).of_release


@functools.cache
def _make_table() -> NameTable:
    return NameTable.of("exports")


def any_exports(name: str) -> bool:
    """Whether a library of any release exports a symbol."""
    return bool(_make_table().columns_with(name))


def exports_starting_with(prefix: str) -> Sequence[tuple[str, int]]:
    """Return the names of all releases that begin so, in order, each with the columns that have it."""
    return _make_table().starting_with(prefix)


def _libraries_in(record: dict[str, Any]) -> dict[str, SharedObject]:
    return {
        name: SharedObject(
            machine=Machine(record["machine"]),
            executable=False,
            soname=library["soname"],
            needed=tuple(library["needed"]),
            rpath=(),
            runpath=("$ORIGIN",),
            build_id=None,
            version_needs=(),
            version_definitions=None if library["versions"] is None else frozenset(library["versions"]),
            symbols=ColumnSymbols(table=_make_table(), column=library["column"]),
            references=(),
            imports=frozenset(),
            pybind11_internals=library["pybind11"],
            pybind11_python=(),
        )
        for name, library in record["libraries"].items()
    }


def _make_release(record: dict[str, Any], files: Files) -> TorchRelease:
    package = posixpath.join(SITE, "torch")
    machine = Machine(record["machine"])
    # The libraries are put where a wheel would have them, so that ``$ORIGIN`` and search paths work as on a real
    # system.
    paths = {name: posixpath.join(package, "lib", name) for name in record["libraries"]}
    for name, facts in _libraries_in(record).items():
        files.put_facts(paths[name], facts)
    return TorchRelease(
        build=record["build"],
        package=package,
        machine=machine,
        python=None,
        libraries=tuple(paths.values()),
        global_libraries=tuple(paths[name] for name in record["global"]),
        local_libraries=tuple(paths[name] for name in record["local"]),
    )
