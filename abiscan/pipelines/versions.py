"""The pipeline behind ``abiscan matrix NAME --versions``: each version on the index, on each release of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from abiscan.cache.result_cache import answer
from abiscan.errors import InputError, NoExtensionError
from abiscan.index.client import Candidate, Index, settings_of_pip
from abiscan.index.system import System
from abiscan.inputs import isolation, memory
from abiscan.inputs.session import Session
from abiscan.inputs.sources import name_of
from abiscan.results.matrix import best_of
from abiscan.results.package import PackageVerdict
from abiscan.results.versions import VersionRow, VersionTable
from abiscan.torches.torch import TorchChoice

ALL: Final = "all"
"""What users write for all versions."""

_FOLDER: Final = "wheels"
_PURE: Final = "contains nothing that is compiled for torch"


class _Verdicts(Struct, frozen=True, kw_only=True):
    """The verdict on each release, as pairs; or why there is none."""

    releases: tuple[tuple[str, PackageVerdict | None], ...] = ()
    reason: str | None = None


def version_table(
    name: str, versions: str, choices: Sequence[TorchChoice], session: Session, *, python: str | None = None
) -> VersionTable:
    """Check the versions of a package that the index has for this system.

    :param versions: ``all``, or a version specifier: ``>=0.20``
    :param choices: the torches; empty for all embedded releases
    :param python: the interpreter whose pip settings count
    :raises InputError: the index cannot be read, or does not have such a version
    """
    requirement = _make_requirement(name, versions)
    system = System.of()
    settings = settings_of_pip(python, session.index)
    with contextlib.closing(Index(settings, system, session.folder / _FOLDER)) as index:
        candidates = index.candidates(requirement)
        rows = []
        for number, candidate in enumerate(candidates, 1):
            session.progress(f"{candidate} ({number} of {len(candidates)})")
            rows.append((candidate, _check_candidate(candidate, index, choices, session)))
    # All checked versions have the same columns, in the same order: those of the torches that were asked for.
    releases = next((tuple(release for release, _ in row.releases) for _, row in rows if row.releases), ())
    return VersionTable(
        package=requirement.name,
        system=str(system),
        releases=releases,
        rows=tuple(
            VersionRow(
                version=str(candidate.version),
                verdicts=tuple(verdict for _, verdict in row.releases),
                reason=row.reason,
            )
            for candidate, row in rows
        ),
        bytes_read=index.bytes_read,
    )


def _make_requirement(name: str, versions: str) -> Requirement:
    try:
        requirement = Requirement(name)
        requirement.specifier = SpecifierSet("" if versions == ALL else versions)
    except (InvalidRequirement, InvalidSpecifier, RecursionError) as error:
        fix = f"pass the name of a package, and all or a specifier with --versions: {name} --versions '>=1.0'"
        raise InputError(f"{name} --versions {versions}", "is not a package with a version specifier", fix) from error
    return requirement


def _check_candidate(candidate: Candidate, index: Index, choices: Sequence[TorchChoice], session: Session) -> _Verdicts:
    """Return what an earlier run found, as long as nothing has changed that it depends on, or else look."""
    if candidate.unfit:
        return _Verdicts(reason=candidate.unfit)
    question = ["versions", *index.origin(candidate), [str(choice) for choice in choices], str(index.system)]
    return answer(session.folder, question, lambda: _read_candidate(candidate, index, choices, session), ())


def _read_candidate(candidate: Candidate, index: Index, choices: Sequence[TorchChoice], session: Session) -> _Verdicts:
    from abiscan.pipelines.matrix import make_matrix
    from abiscan.rules import RULES
    from abiscan.verdict.torch_set import CheckRequest

    wheel = index.wheel(candidate)
    try:
        isolation.begin_target(name_of(wheel))
        # Before reading the next version, which needs as much again.
        memory.give_back()
        request = CheckRequest(targets=(wheel,), torches=tuple(choices), rules=tuple(RULES))
        with isolation.turn_of(name_of(wheel)):
            result = make_matrix(request, session, with_suggestions=False)
    except NoExtensionError:
        return _Verdicts(reason=_PURE)
    except InputError as error:
        return _Verdicts(reason=error.problem)
    if not result.packages:
        return _Verdicts(reason=next((target.problem for target in result.unchecked), _PURE))
    (package,) = result.packages
    bests = (
        (column.release, best_of([package.results[build] for build in column.builds if build in package.results]))
        for column in result.columns
    )
    return _Verdicts(releases=tuple((release, best.verdict if best else None) for release, best in bests))
