"""The pipeline behind ``abiscan check --torch declared``: what a wheel requires, compared with what it loads on."""

from __future__ import annotations

from collections.abc import Sequence

from abiscan.errors import InputError
from abiscan.findings import Rule
from abiscan.inputs.requirement import Metadata
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.declaration import Declaration, ReleaseOutcome
from abiscan.pipelines.bench import Bench
from abiscan.pipelines.matrix import all_work, builds_of, rows_of, suggestion
from abiscan.pipelines.turns import Turns
from abiscan.results.check import Report, Result
from abiscan.results.matrix import Row, trouble
from abiscan.torches.pythons import runs_in


def check_declared(targets: Sequence[Source], rules: Sequence[Rule], session: Session) -> Report:
    """Check wheels on the torch that their metadata requires, and the metadata against all embedded releases.

    That torch is the newest embedded release that the requirement admits, which is the one that pip installs.

    A target that cannot be read, has no metadata, or admits no embedded release, is not checked.

    :raises AbiscanError: there is no other target
    """
    turns, results = Turns(targets), list[Result]()
    for source in turns:
        with turns.of(source):
            results += _check_declared(source, Bench((), session, targets), rules)
    return Report(results=tuple(results), unchecked=turns.unchecked())


def _check_declared(source: Source, bench: Bench, rules: Sequence[Rule]) -> tuple[Result, ...]:
    target = bench.target(source).target
    if target.metadata is None:
        raise InputError(target.name, "has no metadata that could declare a torch", "pass a wheel, or name the torch")
    rows = rows_of(bench, source, rules, explained=False)
    builds = builds_of(rows)
    admitted = {release for release in builds if _admits(target.metadata, release)}
    if not admitted:
        required = target.metadata.requires_torch or "any torch"
        problem = f"requires {required}, but no embedded release for its Python and machine satisfies that"
        raise InputError(target.name, problem, "correct the requirement, or name the torch")
    declarations = _declarations(target.metadata, rows, builds, admitted)
    return bench.judge(source, builds[max(admitted)], rules, declarations=declarations)


def _admits(metadata: Metadata, release: TorchVersion) -> bool:
    """Whether pip may install a release together with the wheel: the requirement and the wheel's Python allow it."""
    required = metadata.requires_torch
    return (required is None or required.admits(release)) and runs_in(release, metadata.python)


def _declarations(
    metadata: Metadata, rows: Sequence[Row], builds: dict[TorchVersion, str], admitted: set[TorchVersion]
) -> dict[str, Declaration]:
    required = suggestion(rows)
    return {
        row.path: Declaration(
            requirement=str(metadata.requires_torch) if metadata.requires_torch else None,
            outcomes=tuple(
                ReleaseOutcome(
                    release=str(release),
                    admitted=release in admitted,
                    error=trouble(row.results[name]),
                    wheel_works=all_work(rows, name),
                )
                for release, name in builds.items()
                if name in row.results and runs_in(release, metadata.python)
            ),
            suggestion=required,
        )
        for row in rows
    }
