"""The pipeline behind ``abiscan matrix``: ``check`` on many torches, with each target read once.

It is also behind ``check --torch declared``, which compares what a wheel requires with what it loads on.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.errors import InputError
from abiscan.extension.built_for import BuiltFor
from abiscan.findings import Rule
from abiscan.inputs.files import Files
from abiscan.inputs.requirement import Metadata, simplest
from abiscan.inputs.sources import Source, Target, read_target
from abiscan.inputs.store import Store
from abiscan.linkage.declaration import Declaration, Outcome
from abiscan.pipelines import check as scan
from abiscan.releases import embedded
from abiscan.releases.pythons import runs_in
from abiscan.results.check import Report, Result
from abiscan.results.matrix import Matrix, Row, trouble, works


def matrix(
    targets: Sequence[Source],
    choices: Sequence[scan.TorchChoice],
    rules: Sequence[Rule],
    store: Store,
    *,
    explained: bool,
    progress: scan.Progress = lambda _: None,
) -> Matrix:
    """Judge every extension in ``targets`` on each of several torches.

    :param choices: the torches; none for all embedded releases
    :param explained: whether the findings are to be shown: see ``scan.judge``
    :param progress: is told what takes seconds
    :raises InputError: a target or a torch cannot be read as such
    """
    bench = _Bench(choices, store, progress)
    rows: list[Row] = []
    suggestions: dict[str, str | None] = {}
    for source in targets:
        of_target = bench.rows(source, rules, explained=explained)
        suggestions[bench.target(source).name] = _suggestion(of_target)
        rows += of_target
    judged = {release for row in rows for release in row.results}
    return Matrix(rows=tuple(rows), releases=tuple(filter(judged.__contains__, bench.names)), suggestions=suggestions)


def check_declared(
    targets: Sequence[Source], rules: Sequence[Rule], store: Store, progress: scan.Progress = lambda _: None
) -> Report:
    """Judge wheels on the torch that their metadata asks for, and the metadata by all embedded releases.

    That torch is the newest embedded release that the requirement admits: the one that pip installs.

    :param progress: is told what takes seconds
    :raises InputError: a target cannot be read, has no metadata, or admits no embedded release
    """
    results: list[Result] = []
    for source in targets:
        bench = _Bench((), store, progress)
        target = bench.target(source)
        if target.metadata is None:
            raise InputError(
                target.name, "has no metadata that could declare a torch", "pass a wheel, or name the torch"
            )
        rows = bench.rows(source, rules, explained=False)
        builds = _builds(rows)
        admitted = {release for release in builds if _admits(target.metadata, release)}
        if not admitted:
            required = target.metadata.requires_torch or "any torch"
            problem = f"requires {required}, but no embedded release for its Python and machine satisfies that"
            raise InputError(target.name, problem, "correct the requirement, or name the torch")
        declarations = _declarations(target.metadata, rows, builds, admitted)
        results += bench.judge(source, builds[max(admitted)], rules, declarations=declarations)
    return Report(results=tuple(results))


def _builds(rows: Sequence[Row]) -> dict[Version, str]:
    """The releases on which some extensions were judged, oldest first, with one build each: one on which all work.

    Where there is none, the last build counts: of one for CPUs and one with CUDA, that is the latter.
    """
    builds: dict[Version, list[str]] = {}
    for name in dict.fromkeys(name for row in rows for name in row.results):
        builds.setdefault(Version(name.partition("+")[0]), []).append(name)
    return {
        release: next((name for name in builds[release] if _all_work(rows, name)), builds[release][-1])
        for release in sorted(builds)
    }


def _all_work(rows: Sequence[Row], name: str) -> bool:
    """Whether all extensions work on a build that are made for a machine that it is made for."""
    return all(works(row.results[name]) for row in rows if name in row.results)


def _suggestion(rows: Sequence[Row]) -> str | None:
    builds = _builds(rows)
    return simplest([release for release, name in builds.items() if _all_work(rows, name)], list(builds))


def _admits(metadata: Metadata, release: Version) -> bool:
    """Whether pip may install a release beside the wheel: required as the metadata do, in a Python that it is for."""
    required = metadata.requires_torch
    return (required is None or required.admits(release)) and runs_in(release, metadata.python)


def _declarations(
    metadata: Metadata, rows: Sequence[Row], builds: dict[Version, str], admitted: set[Version]
) -> dict[str, Declaration]:
    suggestion = _suggestion(rows)
    return {
        row.path: Declaration(
            requirement=str(metadata.requires_torch) if metadata.requires_torch else None,
            outcomes=tuple(
                Outcome(
                    release=str(release),
                    admitted=release in admitted,
                    error=trouble(row.results[name]),
                    wheel_works=_all_work(rows, name),
                )
                for release, name in builds.items()
                if name in row.results and runs_in(release, metadata.python)
            ),
            suggestion=suggestion,
        )
        for row in rows
    }


def _all_builds() -> list[str]:
    """What to call every embedded build: by its release, and by its full version if its release means another build."""
    further = {name for machine in Machine for name in embedded.further_builds(machine)}
    return sorted({*map(str, embedded.versions()), *further}, key=Version)


def _is_for(name: str, machine: Machine) -> bool:
    """Whether an embedded build is one for a machine, and none that goes by a shorter name there."""
    return name in embedded.further_builds(machine) or Version(name) in embedded.versions(machine)


class _Bench:
    """Several torches, each in a layer of its own over the same files; a target is read once for all at the same path.

    ``names`` are what the torches are called, in their order: by their release, by their build where that is not
    enough.

    :param choices: the torches; none for all embedded releases
    """

    def __init__(self, choices: Sequence[scan.TorchChoice], store: Store, progress: scan.Progress) -> None:
        self._progress = progress
        self._files = Files(store.facts_of)
        self._all_embedded = not choices
        choices = choices or list(map(scan.torch_numbered, _all_builds()))
        layers = [self._files.layer() for _ in choices]
        torches = [choice(layer) for choice, layer in zip(choices, layers, strict=True)]
        self._learnt = scan.Learnt()
        replays = [scan.Replays(*pair, store, self._learnt, progress) for pair in zip(torches, layers, strict=True)]
        self._torches = dict(zip(_names(torches), zip(torches, layers, replays, strict=True), strict=True))
        self._targets: dict[tuple[Source, str], Target] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._torches)

    def target(self, source: Source, torch: scan.Torch | None = None) -> Target:
        """A target, laid beside a torch; beside the first one for None.

        :raises InputError: it cannot be read
        """
        package = (torch or next(iter(self._torches.values()))[0]).package
        if (source, package) not in self._targets:
            self._targets[source, package] = read_target(source, self._files, posixpath.dirname(package), package)
        return self._targets[source, package]

    def rows(self, source: Source, rules: Sequence[Rule], *, explained: bool) -> list[Row]:
        """Every extension of a target, and what should be one and cannot be read, on all torches."""
        target = self.target(source)
        found: dict[str, dict[str, Result]] = {}
        for release in self._torches:
            self._progress(f"{target.name} on torch {release}")
            for result in self.judge(source, release, rules, explained=explained):
                found.setdefault(result.path, {})[release] = result
        origins = self._origins(target)
        required = target.metadata.requires_torch if target.metadata else None
        return [
            Row(
                target=target.name,
                path=extension,
                built_for=origins.get(extension, BuiltFor(releases=(), clues=())),
                declared=str(required) if required else None,
                results=results,
            )
            for extension, results in found.items()
        ]

    def _origins(self, target: Target) -> dict[str, BuiltFor]:
        """What extensions were built for by all that was learnt, of their registrations, too, where they were asked."""
        learnt = self._learnt
        return {
            each.path: (learnt.has_inventories and learnt.inventories.origin(target, each))
            or learnt.origins.of(target, each)
            for each in target.extensions
        }

    def judge(
        self,
        source: Source,
        release: str,
        rules: Sequence[Rule],
        *,
        explained: bool = True,
        declarations: Mapping[str, Declaration] | None = None,
    ) -> Iterator[Result]:
        """The results of ``check`` for one torch; without extensions for machines that the release was not made for."""
        torch, files, replays = self._torches[release]
        target = self.target(source, torch)
        if self._all_embedded:
            there = [each for each in target.extensions if _is_for(release, each.facts.machine)]
            if not there and target.extensions:
                return
            target = replace(target, extensions=tuple(there))
        yield from scan.judge(
            target, torch, files, rules, replays, explained=explained, declarations=declarations or {}
        )


def _names(torches: Sequence[scan.Torch]) -> list[str]:
    """What to call torches: by their release, by their build if two are of one release, by their folder at last."""
    for name in (_release, _build):
        names = list(map(name, torches))
        if len(set(names)) == len(names):
            return names
    return [f"{_build(torch)} ({number})" for number, torch in enumerate(torches, 1)]


def _release(torch: scan.Torch) -> str:
    return _build(torch).partition("+")[0]


def _build(torch: scan.Torch) -> str:
    return torch.build or torch.package
