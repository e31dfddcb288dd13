"""The variant properties that are true of a wheel (``abiscan stamp --variant``): what its libraries need."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

import abiscan
from abiscan.binary.elf import Machine
from abiscan.cpu.architectures import ARCHITECTURES
from abiscan.cpu.variants import properties_of_needs
from abiscan.errors import InputError
from abiscan.extension.examined import ExaminedExtension, examine
from abiscan.extension.gpu import first_driver
from abiscan.gpu.devices import Gpu
from abiscan.gpu.drivers import cuda_of_driver, driver_of_cuda, knows_ptx
from abiscan.gpu.variants import architecture_property, lower_bound_of, runs_all
from abiscan.inputs.session import Session
from abiscan.inputs.variants import VariantProperty, torch_property
from abiscan.inputs.version import TorchVersion
from abiscan.results.check import Result
from abiscan.results.matrix import Matrix, is_working
from abiscan.rules import layout_drift, vtable_drift
from abiscan.torches.pythons import runs_in


class TrueProperties(Struct, frozen=True, kw_only=True):
    """What is true of a wheel, and what could not be found out, a sentence each."""

    properties: tuple[VariantProperty, ...]
    gaps: tuple[str, ...]


def true_properties(path: Path, session: Session) -> TrueProperties:
    """Find the variant properties that are true of a wheel.

    :raises InputError: it has no extension of torch for Linux
    """
    examined = examine(path, session)
    machines = {extension.facts.machine for extension in examined.extensions}
    if len(machines) != 1:
        problem = "has extensions for several machines" if machines else "has no extension of torch for Linux"
        raise InputError(str(path), problem, "pass a wheel for x86_64 or aarch64")
    machine = machines.pop()
    session.progress("looking for the releases of torch that it works on")
    matrix = abiscan.matrix(
        path, rules=(layout_drift.RULE, vtable_drift.RULE), explained=False, each_file=True, session=session
    )
    python = examined.target.metadata.python if examined.target.metadata else None
    # A release without a wheel for the Python of this wheel cannot be in one environment with it.
    releases = [release for release in matrix.releases if runs_in(TorchVersion(release).of_release, python)]
    torches = [release for release in releases if _is_working(matrix, release)]
    session.progress("collecting what it needs of processors")
    # What it needs of processors does not depend on torch, so one release that it loads on will do.
    newest = torches[-1] if torches else None
    results = (
        abiscan.check(
            path, newest, each_file=True, cpus=(ARCHITECTURES[machine].baseline,), rules=(), session=session
        ).results
        if newest
        else ()
    )
    session.progress("collecting what it needs of GPUs")
    gpus = list(_of_gpus(examined.extensions))
    return TrueProperties(
        properties=(
            *(properties_of_needs(machine, _needed_features(results)) if newest else ()),
            *gpus,
            *map(torch_property, _shorten_releases(torches, releases)),
        ),
        gaps=tuple(dict.fromkeys(_property_gaps(machine, results, examined.extensions, has_torch=newest is not None))),
    )


def _is_working(matrix: Matrix, release: str) -> bool:
    """Whether every extension works on a release."""
    return all(release in row.results and is_working(row.results[release]) for row in matrix.rows)


def _shorten_releases(torches: Iterable[str], releases: Iterable[str]) -> Iterator[str]:
    """Yield minor versions all of whose releases are there, and single releases of others."""
    working = {TorchVersion(release).of_release for release in torches}
    numbers = dict.fromkeys(TorchVersion(release).of_release for release in releases)
    for (major, minor), of_minor in itertools.groupby(numbers, lambda version: version.minor_version):
        siblings = list(of_minor)
        if working.issuperset(siblings):
            yield f"{major}.{minor}"
        else:
            yield from (str(release) for release in siblings if release in working)


def _needed_features(results: Iterable[Result]) -> frozenset[str]:
    """Return what the loads need, and the operators without asking."""
    needs = [result.cpu for result in results if result.cpu is not None]
    operators = (reach for of_file in needs for reach in (of_file.operators or {}).values())
    return frozenset(
        (
            *(feature for of_file in needs for feature in of_file.features),
            *(use.feature for reach in operators for use in reach.uses),
        )
    )


def _property_gaps(
    machine: Machine, results: Iterable[Result], extensions: Iterable[ExaminedExtension], *, has_torch: bool
) -> Iterator[str]:
    if not has_torch:
        yield "it works on no known release of torch, so what it needs of processors was not looked at"
    elif machine is not Machine.X86_64:
        yield f"what operators need of processors is not known for {machine.value}"
    for result in results:
        yield from (f"{result.path}: {gap.reason}" for gap in result.gaps if gap.stage == "cpu")
    for extension in extensions:
        if extension.gpu is not None:
            yield from (f"{extension.path}: {reason}" for reason in extension.gpu.gaps)


def _of_gpus(extensions: Iterable[ExaminedExtension]) -> Iterator[VariantProperty]:
    """Yield the oldest CUDA of drivers that run all of it, and the architectures on which all operators have code."""
    examined = list(extensions)
    drivers = (first_driver(extension.gpu, extension.facts.needed) for extension in examined)
    # All of its code has to run, so the newest of the oldest drivers counts.
    driver = max(filter(None, drivers), default=None)
    oldest = cuda_of_driver(driver) if driver else None
    if oldest is None:
        return
    yield lower_bound_of(oldest)
    codes = [extension.gpu for extension in examined if extension.gpu is not None and extension.gpu.containers]
    entries = {entry.target: entry for code in codes for container in code.containers for entry in container.entries}
    newest = driver_of_cuda(oldest)  # as new as every admitted driver is
    stated: dict[VariantProperty, None] = {}
    for entry in sorted(entries.values(), key=lambda entry: (entry.architecture, entry.target)):
        gpu = Gpu(name=entry.target, capability=entry.architecture)
        true = architecture_property(entry)
        is_known = entry.ptx_isa is None or newest is None or knows_ptx(newest, entry.ptx_isa) is not False
        if true and is_known and all(runs_all(code.on(gpu, newest)) for code in codes):
            stated[true] = None
    yield from stated
