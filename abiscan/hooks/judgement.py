"""One package checked against one torch, for all hooks: the worst result, and which torch it would work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from abiscan.extension.built_for import releases_exporting_imports
from abiscan.extension.examined import examine
from abiscan.findings import Effect, Finding
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.pipelines.check import check
from abiscan.results.check import Result
from abiscan.results.package import PackageResult, PackageVerdict
from abiscan.results.verdict import Verdict
from abiscan.rules import RULES
from abiscan.torches import embedded
from abiscan.torches.torch import ReleaseNumber, TorchChoice

# How many of the candidate releases are tried: each takes as long as a check, and users need only one.
_TRIED: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The results for the extensions of one package, the worst first, and the verdict on it if it is one."""

    results: tuple[Result, ...]
    package: PackageResult | None = None

    @property
    def is_broken(self) -> bool:
        """Whether it cannot be imported, or is not safe to use; for a target that is no package, any extension."""
        if self.package is None:
            return bool(self.broken)
        return self.package.verdict in (PackageVerdict.IMPORT_FAILS, PackageVerdict.CORRUPTS)

    @property
    def is_unknown(self) -> bool:
        """Whether that could not be found out."""
        if self.package is None:
            return bool(self.unknown)
        return self.package.verdict is PackageVerdict.UNKNOWN

    @property
    def broken(self) -> tuple[Result, ...]:
        """The results of extensions that do not load, or are not safe to use."""
        return tuple(result for result in self.results if result.is_failure(Effect.CORRUPTS, strict=False))

    @property
    def unknown(self) -> tuple[Result, ...]:
        """The results of extensions that could not be checked."""
        return tuple(result for result in self.results if result.verdict is Verdict.UNKNOWN)

    @property
    def error(self) -> str:
        """What users see when they import the package; else the loader's error for the worst extension."""
        if self.package is not None:
            return str(self.package.error or self.package.summary)
        worst = self.results[0]
        if worst.predicted_error:
            return str(worst.predicted_error)
        finding = worst_finding(worst)
        return finding.message if finding else next((gap.reason for gap in worst.gaps), "could not be checked")


def judge(source: Source, choice: TorchChoice, session: Session, beside: Sequence[Source] = ()) -> Judgement | None:
    """Check one package; None if it has no extension of torch.

    :param beside: packages that will be installed with it
    :raises InputError: it cannot be read
    """
    report = check([source], [choice], RULES, session, beside=beside)
    if not report.results:
        return None
    if not report.results:
        return None
    results = tuple(sorted(report.results, key=_severity, reverse=True))
    return Judgement(results=results, package=next(iter(report.packages), None))


def worst_finding(result: Result) -> Finding | None:
    """The most severe finding, the first if there are several."""
    return max(result.findings, key=lambda finding: finding.effect.severity, default=None)


def _severity(result: Result) -> tuple[int, int]:
    finding = worst_finding(result)
    return finding.effect.severity if finding else -1, result.verdict is Verdict.UNKNOWN


def fitting(source: Source, session: Session) -> tuple[str, ...]:
    """The embedded builds on which all extensions of a package load, newest first, by full version: ``2.8.0+cu128``.

    Only the newest few releases that export what the package imports are checked.

    :raises InputError: it cannot be read, or has no extension of torch
    """
    target = examine(source, session).target
    machines = {extension.facts.machine for extension in target.extensions}
    if len(machines) != 1:
        return ()
    (machine,) = machines
    candidates = releases_exporting_imports(target.extensions)
    required = target.metadata.requires_torch if target.metadata else None
    admitted = [version for version in candidates if required is None or required.admits(version)] or candidates
    tried = sorted(admitted, reverse=True)[:_TRIED]
    builds = [
        (version, build)
        for version, build_machine, build in embedded.builds()
        if build_machine is machine and version in tried
    ]
    return tuple(build for _, build in sorted(builds, reverse=True) if _fits(source, build, session))


def _fits(source: Source, build: str, session: Session) -> bool:
    judgement = judge(source, ReleaseNumber(build), session)
    return judgement is not None and not judgement.is_broken and not judgement.is_unknown
