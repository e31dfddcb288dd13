"""The pipeline behind ``abiscan matrix``: ``check`` on many torches."""

from __future__ import annotations

from collections.abc import Sequence

from abiscan.extension.built_for import BuiltFor
from abiscan.findings import Rule
from abiscan.inputs.requirement import simplest
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.inputs.version import TorchVersion
from abiscan.pipelines.bench import Bench
from abiscan.pipelines.turns import Turns
from abiscan.results.check import Result
from abiscan.results.matrix import Matrix, Row, works
from abiscan.torches.torch import TorchChoice


def matrix(
    targets: Sequence[Source],
    choices: Sequence[TorchChoice],
    rules: Sequence[Rule],
    session: Session,
    *,
    explained: bool,
) -> Matrix:
    """Check every extension in ``targets`` on each of several torches.

    :param choices: the torches; empty for all embedded releases
    :param explained: whether the findings are shown: see ``Judge.judge``
    :raises AbiscanError: no target, or a torch, cannot be read
    """
    bench = Bench(choices, session, targets)
    rows: list[Row] = []
    suggestions: dict[str, str | None] = {}
    turns = Turns(targets)
    for source in turns:
        with turns.of(source):
            of_target = rows_of(bench, source, rules, explained=explained)
            suggestions[bench.target(source).target.name] = suggestion(of_target)
            rows += of_target
    judged = {release for row in rows for release in row.results}
    return Matrix(
        rows=tuple(rows),
        releases=tuple(filter(judged.__contains__, bench.names)),
        suggestions=suggestions,
        unchecked=turns.unchecked(),
    )


def rows_of(bench: Bench, source: Source, rules: Sequence[Rule], *, explained: bool) -> list[Row]:
    """Every extension of a target, unreadable ones included, on all torches of a bench."""
    examined = bench.target(source)
    results_by_path: dict[str, dict[str, Result]] = {}
    for torch in bench.names:
        for result in bench.judge(source, torch, rules, explained=explained):
            results_by_path.setdefault(result.path, {})[torch] = result
    origins = {extension.path: extension.origin for extension in examined.extensions}
    metadata = examined.target.metadata
    required = metadata.requires_torch if metadata else None
    return [
        Row(
            target=examined.target.name,
            path=path,
            built_for=origins.get(path, BuiltFor(releases=(), clues=())),
            declared=str(required) if required else None,
            results=results,
        )
        for path, results in results_by_path.items()
    ]


def builds_of(rows: Sequence[Row]) -> dict[TorchVersion, str]:
    """The releases on which any extension was checked, oldest first, with one build each: one on which all work.

    If there is none, it is the last build: of a CPU and a CUDA build, that is the latter. A torch without a known
    version is left out, since it cannot be required.
    """
    builds: dict[TorchVersion, list[str]] = {}
    for name, result in {name: result for row in rows for name, result in row.results.items()}.items():
        if version := TorchVersion.parse(result.torch or ""):
            builds.setdefault(version, []).append(name)
    return {
        release: next((name for name in builds[release] if all_work(rows, name)), builds[release][-1])
        for release in sorted(builds)
    }


def all_work(rows: Sequence[Row], name: str) -> bool:
    """Whether all extensions work on a build, except those for machines that it is not built for."""
    return all(works(row.results[name]) for row in rows if name in row.results)


def suggestion(rows: Sequence[Row]) -> str | None:
    """The simplest requirement that admits the releases on which all extensions of a target work."""
    builds = builds_of(rows)
    return simplest([release for release, name in builds.items() if all_work(rows, name)], list(builds))
