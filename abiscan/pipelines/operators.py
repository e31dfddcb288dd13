"""The pipelines behind ``abiscan diff`` and ``abiscan ops --torch``: torches with their libraries and operators."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Operators
from abiscan.errors import InputError
from abiscan.inputs.files import Files, read_facts
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.store import Store
from abiscan.releases import embedded, embedded_operators, from_libs
from abiscan.releases.model import TorchRelease
from abiscan.releases.operator_store import operators_of

if TYPE_CHECKING:
    from abiscan.extension.inventory import Inventory
    from abiscan.inputs.sources import Source, Target
    from abiscan.pipelines.diff import Side, Use
    from abiscan.results.api_history import ApiHistory
    from abiscan.results.diff import Comparison
    from abiscan.results.operators import ExtensionOperators, TorchApiVersions, TorchOperators

# What only some of these need is imported there: to load it takes longer than to read what is cached.


def extension_operators(source: Source, store: Store) -> ExtensionOperators:
    """What the extensions of a target register.

    :raises InputError: it cannot be read, or holds nothing that uses torch
    """
    from abiscan.extension.inventory import inventory
    from abiscan.results.operators import ExtensionOperators

    target, inventories = inventory(source, store)
    single = isinstance(source, Path) and source.is_file() and source.suffix != ".whl"
    return ExtensionOperators(target=target.name, inventories=inventories, single=single)


def torch_operators(spec: str, machine: Machine, store: Store) -> TorchOperators:
    """The operators of a torch: a release number, or what is at a path.

    :param machine: which build of a release number
    :raises InputError: there is no such torch
    """
    from abiscan.results.operators import TorchOperators

    release, found = _read(spec, machine, Files(store.facts_of), store)
    return TorchOperators(release=release, operators=found)


def live_operators(executable: str | None) -> TorchOperators:
    """The operators of a running torch: of the interpreter ``executable``, of this one for None.

    :raises InputError: it has no torch, or its torch does not answer
    """
    from abiscan.inputs import interpreter as python
    from abiscan.releases import from_python
    from abiscan.results.operators import TorchOperators

    package = python.installed_torch() if executable is None else python.ask(executable)[1]
    if package is None:
        raise InputError(executable or sys.executable, "has no torch", "name a Python that has one with --python")
    release = from_libs.from_path(package, Files(read_facts))
    return TorchOperators(release=release, operators=from_python.read_operators(executable or sys.executable))


def api_versions(found: TorchOperators) -> TorchApiVersions:
    """The version of the interface of each operator of a torch."""
    from abiscan.releases.api_version import api_versions as versions_of
    from abiscan.results.operators import TorchApiVersions

    versions = {name: str(version) for name, version in sorted(versions_of(found.operators).items())}
    return TorchApiVersions(release=found.release, versions=versions, gaps=found.operators.gaps)


def difference(old: str, new: str, machine: Machine, used_by: Source | None, store: Store) -> Comparison:
    """What changed from one torch to another.

    :param machine: which build of a release number
    :param used_by: an extension; limits the answer to what it touches
    :raises InputError: a torch or the extension cannot be read
    """
    from abiscan.extension.inventory import inventory
    from abiscan.pipelines.diff import compare

    before, after = (_side(spec, machine, store) for spec in (old, new))
    return compare(before, after, _use(*inventory(used_by, store)) if used_by else None)


def _is_number(spec: str) -> bool:
    return embedded.is_version(spec) and not Path(spec).exists()


def _each(spec: str) -> list[str]:
    """The releases that a version specifier admits, else what is given."""
    return [spec] if Path(spec).exists() else [str(version) for version in embedded.admitted(spec)] or [spec]


def _read(spec: str, machine: Machine, files: Files, store: Store) -> tuple[TorchRelease, Operators]:
    if _is_number(spec):
        return embedded.release(spec, machine, files), embedded_operators.operators(spec, machine)
    release = from_libs.from_path(Path(spec), files)
    return release, operators_of(release, files, store.folder)


def _side(spec: str, machine: Machine, store: Store) -> Side:
    from abiscan.pipelines.diff import Side

    files = Files(store.facts_of)
    release, found = _read(spec, machine, files, store)
    if _is_number(spec):
        exports = embedded.exports(spec, machine)
    else:
        libraries = Libraries(release.own_libraries, files)
        exports = {name: frozenset(facts.symbols.starting_with("")) for name, facts in libraries.items()}
    return Side(name=str(release), exports=exports, operators=found, release=release.version, machine=release.machine)


def api_history(target: Source, specs: Sequence[str], store: Store) -> ApiHistory:
    """Whether releases changed anything for an extension.

    :param specs: release numbers, version specifiers, paths of torches; none for all embedded releases
    :raises InputError: the target or a torch cannot be read
    """
    from abiscan.extension.inventory import inventory
    from abiscan.pipelines.api_history import history

    read, inventories = inventory(target, store)
    machine = next((extension.facts.machine for extension in read.extensions), Machine.X86_64)
    names = _use(read, inventories).operators
    torches: dict[str, Operators] = {}
    every = [each for spec in specs for each in _each(spec)] or [str(version) for version in embedded.versions(machine)]
    for spec in every:
        if _is_number(spec):
            torches[spec] = embedded_operators.operators(spec, machine, names)
        else:
            release, found = _read(spec, machine, Files(store.facts_of), store)
            torches[release.build or spec] = found
    return history(read.name, names, torches)


def _use(target: Target, inventories: Iterable[Inventory]) -> Use:
    from abiscan.pipelines.diff import Use

    return Use(
        symbols=frozenset(name for extension in target.extensions for name in extension.facts.imports),
        operators=frozenset(
            name
            for each in (found.registrations for found in inventories)
            for name in (
                *(kernel.operator for kernel in each.kernels),
                *(operator.name for operator in each.operators),
                *(lookup.operator for lookup in each.lookups),
            )
        ),
    )
