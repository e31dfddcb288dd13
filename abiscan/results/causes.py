"""The findings about the files of a package, grouped by cause: what many libraries share is said once."""

from __future__ import annotations

import msgspec.structs
from msgspec import Struct

from abiscan.findings import Effect, Finding
from abiscan.results.check import Report, Result
from abiscan.results.package import PackageResult


class Cause(Struct, frozen=True, kw_only=True):
    """A finding that some files of a package share, with the evidence from all of them. ``files`` are their paths.

    ``harmful`` says whether it counts: whether it makes the exit code 1 by default.
    """

    finding: Finding
    files: tuple[str, ...]
    harmful: bool


def causes(report: Report, package: PackageResult, *, unused: bool = False) -> tuple[Cause, ...]:
    """What is wrong with a package, the worst first.

    :param unused: include the files that importing the package does not use
    """
    grouped: dict[tuple[object, ...], list[tuple[Finding, Result | None]]] = {}
    for finding in package.own_findings:
        grouped.setdefault((finding,), []).append((finding, None))
    for library, result in report.files(package):
        if unused or library.used is not False:
            for finding in result.findings:
                key = (finding.rule, finding.effect, finding.says, finding.fix)
                grouped.setdefault(key, []).append((finding, result))
    fails = report.is_failure(package, Effect.CORRUPTS, strict=False)
    found = [_cause(group, fails=fails) for group in grouped.values()]
    return tuple(sorted(found, key=lambda cause: cause.finding.effect.severity, reverse=True))


def _cause(group: list[tuple[Finding, Result | None]], *, fails: bool) -> Cause:
    first = group[0][0]
    every = (evidence for finding, _ in group for evidence in finding.evidence)
    different = {(evidence.subject, evidence.instead): evidence for evidence in reversed(list(every))}
    return Cause(
        finding=msgspec.structs.replace(first, evidence=tuple(reversed(different.values()))),
        files=tuple(dict.fromkeys(result.path for _, result in group if result is not None)),
        harmful=fails and first.effect.severity >= Effect.CORRUPTS.severity,
    )
