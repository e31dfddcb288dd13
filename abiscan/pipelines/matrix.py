"""The pipeline behind ``abiscan matrix``: ``check`` on many torches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec.structs
from msgspec import Struct

from abiscan.extension.built_for import BuiltFor
from abiscan.gpu.devices import Hardware
from abiscan.inputs import branches
from abiscan.inputs.requirement import simplest_requirement
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source, Target, name_of
from abiscan.inputs.version import TorchVersion
from abiscan.pipelines.stable import list_stabilities
from abiscan.results.check import Result, distinguishing_parts
from abiscan.results.gpus import GpuRow
from abiscan.results.matrix import Matrix, PackageRow, Row, is_importable, is_loading, is_working
from abiscan.results.package import PackageResult, PackageVerdict
from abiscan.results.stable import StableSummary
from abiscan.verdict.torch_set import CheckRequest, TorchSet
from abiscan.verdict.turns import TargetQueue

_TRIED_OF: Final = 8
"""Of so many torches, one is checked before others are shared among processes."""
_WORTH_SHARING: Final = 2.0
"""The seconds of work that are: a process costs a tenth of one, and reads once more what all of them need."""


class CheckedTarget(Struct, frozen=True, kw_only=True):
    """A target on all torches of a set: every extension, unreadable ones included, and the package that it is."""

    rows: tuple[Row, ...]
    package: PackageRow | None

    def imports_on(self, name: str) -> bool:
        """Whether a package can be imported on a build; for other targets, whether all extensions work."""
        if self.package:
            return name in self.package.results and is_importable(self.package.results[name])
        return self._fits_all(name, is_loading)

    def works_on(self, name: str) -> bool:
        """Whether all extensions work on a build, except those for other machines and those that are not used."""
        if self.package:
            return name in self.package.results and self.package.results[name].verdict is PackageVerdict.WORKS
        return self._fits_all(name, is_working)

    def _fits_all(self, name: str, fits: Callable[[Result], bool]) -> bool:
        return all(fits(row.results[name]) for row in self.rows if name in row.results)

    @property
    def builds(self) -> dict[TorchVersion, str]:
        """The releases on which anything was checked, oldest first, with one build each: one that works, if any does.

        Otherwise it is the last build: of a CPU and a CUDA build, that is the latter. A torch without a known version
        is left out, since it cannot be required.
        """
        # A requirement names releases, not builds, so a release counts by its best build.
        builds: dict[TorchVersion, list[str]] = {}
        results: dict[str, Result | PackageResult] = dict(self.package.results) if self.package else {}
        for name, result in {
            **results,
            **{name: item for row in self.rows for name, item in row.results.items()},
        }.items():
            if version := TorchVersion.parse(result.torch or ""):
                builds.setdefault(version, []).append(name)
        return {release: self._best_build(builds[release]) for release in sorted(builds)}

    def _best_build(self, names: Sequence[str]) -> str:
        for fits in (self.works_on, self.imports_on):
            if result := next(filter(fits, names), None):
                return result
        return names[-1]

    @property
    def suggestion(self) -> str | None:
        """The simplest requirement that admits the releases on which the whole target works.

        For a package that never works completely, those on which it can be imported.
        """
        builds = self.builds

        def requirement(fits: Callable[[str], bool]) -> str | None:
            return simplest_requirement([release for release, name in builds.items() if fits(name)], list(builds))

        return requirement(self.works_on) or requirement(self.imports_on)


class _Part(Struct, frozen=True, kw_only=True):
    """What the matrix says about one target."""

    target: str
    checked_target: CheckedTarget
    stable_abi: StableSummary | None
    gpus: tuple[GpuRow, ...]


def make_matrix(
    request: CheckRequest, session: Session, *, with_suggestions: bool, gpu_table: Hardware | None = None
) -> Matrix:
    """Check every extension of the targets, and every package, on each torch.

    :param with_suggestions: whether the findings are shown: see ``Checker.check``
    :param gpu_table: the GPUs of a second table, one of each architecture if it names none; None for no such table
    :raises AbiscanError: no target, or a torch, cannot be read
    """
    targets = request.targets
    turns = TargetQueue(targets)
    torch_set = TorchSet(request, turns.counting(session))

    def read_targets() -> Iterator[Source]:
        """Yield the targets, each with its files laid over those of the targets before it, on every torch."""
        for source in turns:
            with turns.of(source):
                for torch in torch_set.names:
                    torch_set.target(source, torch)
                _require_torch(torch_set.target(source).target)
                yield source

    def check_target(source: Source) -> _Part:
        share = session.jobs if len(targets) == 1 else 1
        checked_target = check_on_all(
            torch_set, source, with_suggestions=with_suggestions, with_findings=True, jobs=share
        )
        examined, gpus = torch_set.target(source), tuple[GpuRow, ...]()
        if gpu_table is not None:
            from abiscan.pipelines.gpus import gpu_rows

            gpus = tuple(gpu_rows(examined, gpu_table))
        return _Part(
            target=examined.target.name,
            checked_target=checked_target,
            stable_abi=StableSummary.of(list_stabilities(examined)) if examined.extensions else None,
            gpus=gpus,
        )

    parts: list[_Part] = []
    jobs = session.jobs if len(targets) > 1 else 1
    # To read the torches takes a process about as long as to check a target.
    # Targets share the processes if there are several, or else the torches of a single one do: never both, or there
    # would be more processes than were asked for.
    for source, result_of_branch in branches.share_in_order(
        read_targets(), check_target, name_of, jobs, first_here=len(targets) > 3 * jobs
    ):
        with turns.of(source):
            parts.append(result_of_branch())
    rows = tuple(row for part in parts for row in part.checked_target.rows)
    # A release that the user asked for has a column, whether or not there is a build of it for any of the targets.
    rows_of_packages = [part.checked_target.package for part in parts if part.checked_target.package]
    apart = distinguishing_parts(rows_of_packages)
    packages = tuple(msgspec.structs.replace(row, apart=apart.get(row.target, "")) for row in rows_of_packages)
    checked = {*(torch_set.names if request.torches else ()), *(release for row in rows for release in row.results)}
    checked |= {release for package in packages for release in package.results}
    return Matrix(
        rows=rows,
        packages=packages,
        releases=tuple(filter(checked.__contains__, torch_set.names)),
        suggestions={part.target: part.checked_target.suggestion for part in parts},
        stable_abi={part.target: part.stable_abi for part in parts if part.stable_abi},
        unchecked=turns.unchecked(),
        gpus=None if gpu_table is None else tuple(row for part in parts for row in part.gpus),
    )


def _require_torch(target: Target) -> None:
    """Reject a file that has nothing to do with torch; of a package, the code may, as ``check`` has it.

    :raises NoExtensionError: there is nothing that uses torch
    """
    if target.package is None and not target.is_model:
        target.require_extensions()


def check_on_all(
    torch_set: TorchSet, source: Source, *, with_suggestions: bool, with_findings: bool = False, jobs: int = 1
) -> CheckedTarget:
    """Return a target on all torches of a set.

    :param with_findings: whether rules on the package as a whole are asked, too
    :param jobs: the number of processes that share the torches
    :raises InputError: it cannot be read, or contains nothing that uses torch
    """
    examined = torch_set.target(source)
    _require_torch(examined.target)

    # A target with libraries has no verdict on a release without a build for their machine.
    has_verdict = examined.target.is_model or not examined.target.uses_torch

    def check_on(torches: Sequence[str]) -> list[tuple[tuple[Result, ...], PackageResult | None]]:
        outcomes = []
        for torch in torches:
            results = torch_set.check(source, torch, with_suggestions=with_suggestions)
            is_checked = bool(results) or has_verdict
            package = torch_set.package(source, torch, results, with_findings=with_findings) if is_checked else None
            outcomes.append((results, package))
        return outcomes

    examined.recover(jobs)
    # Recovers what they register before the processes part, whether or not a torch asks for it.
    origins = {extension.path: extension.origin for extension in examined.extensions}
    first, *remaining = torch_set.names
    # The first torch includes reading the target, which is not repeated; some others show how long each takes.
    tried = remaining[::_TRIED_OF] if jobs > 1 else []
    left = [torch for torch in remaining if torch not in tried]
    by_torch = dict(zip([first], check_on([first]), strict=True))
    start = time.process_time()
    by_torch.update(zip(tried, check_on(tried), strict=True))
    # The estimate is from every eighth torch, old and new: a new one may take several times as long as an old one.
    if tried and (time.process_time() - start) / len(tried) * len(left) < _WORTH_SHARING:
        jobs = 1
    shares = [left[number::jobs] for number in range(min(jobs, len(left)))]  # old and new torches take turns
    for share, result_of_branch in branches.share_in_order(shares, check_on, lambda _: name_of(source), jobs):
        by_torch.update(zip(share, result_of_branch(), strict=True))
    # Put together in the order of the torches, whatever the order in which the processes have finished.
    results_by_path: dict[str, dict[str, Result]] = {}
    packages: dict[str, PackageResult] = {}
    for torch in torch_set.names:
        results, package = by_torch[torch]
        for result in results:
            results_by_path.setdefault(result.path, {})[torch] = result
        if package:
            packages[torch] = package
    if not packages:
        examined.target.require_extensions()
    metadata = examined.target.metadata
    required = metadata.requires_torch if metadata else None
    declared = str(required) if required else None
    rows = (
        Row(
            target=examined.target.name,
            path=path,
            built_for=origins.get(path, BuiltFor(releases=(), clues=())),
            declared=declared,
            results=results,
        )
        for path, results in results_by_path.items()
    )
    return CheckedTarget(rows=tuple(rows), package=_make_row(packages, declared) if packages else None)


def _make_row(packages: dict[str, PackageResult], declared: str | None) -> PackageRow:
    first = next(iter(packages.values()))
    return PackageRow(target=first.target, name=first.name, version=first.version, declared=declared, results=packages)
