"""The findings about the files of a package, grouped by cause: what many libraries share is said once."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec.structs
from msgspec import Struct

from abiscan.findings import Effect, Evidence, Finding
from abiscan.results.check import Report, Result
from abiscan.results.package import PackageResult


class Cause(Struct, frozen=True, kw_only=True):
    """A finding that some files of a package share, with the evidence from all of them. ``files`` are their paths.

    ``harmful`` says whether it counts: whether it makes the exit code 1 by default.
    """

    finding: Finding
    files: tuple[str, ...]
    harmful: bool


def group_causes(report: Report, package: PackageResult, *, unused: bool = False) -> tuple[Cause, ...]:
    """Return what is wrong with a package: what its import fails with, then the rest, the worst first.

    :param unused: include the files that importing the package does not use
    """
    grouped: dict[tuple[object, ...], list[tuple[Finding, Result | None]]] = {}
    # About the package as a whole, so of no file; equal to nothing that a file has.
    for finding in package.own_findings:
        grouped.setdefault((finding,), []).append((finding, None))
    for library, result in report.files(package):
        if unused or library.used is not False:
            for finding in result.findings:
                # Not the message, which names the file, nor the evidence: fifty libraries that lack the same symbols
                # are one cause.
                key = (finding.rule, finding.effect, finding.says, finding.fix)
                grouped.setdefault(key, []).append((finding, result))
    fails = report.is_failure(package, Effect.CORRUPTS, strict=False)
    failure = package.error
    error = (failure.cause or failure.message or "") if failure else ""
    causes = [_make_cause(group, error, fails=fails) for group in grouped.values()]
    # What the error names comes first, even if something worse is wrong, too: it is what users see.
    return tuple(
        sorted(
            causes, key=lambda cause: (is_named_by(cause.finding, error), cause.finding.effect.severity), reverse=True
        )
    )


def is_named_by(finding: Finding, error: str) -> bool:
    """Return whether an error names what a finding is about."""
    return any(_names_evidence(error, evidence) for evidence in finding.evidence)


def in_the_order_met(findings: Iterable[Finding], error: str) -> tuple[Finding, ...]:
    """Return findings with those first that an error names: the error is what is met first."""
    return tuple(sorted(findings, key=lambda finding: not is_named_by(finding, error)))


def _names_evidence(error: str, evidence: Evidence) -> bool:
    return bool(evidence.subject) and any(
        name in error for name in (evidence.subject, evidence.readable or evidence.subject)
    )


def _make_cause(group: list[tuple[Finding, Result | None]], error: str, *, fails: bool) -> Cause:
    # The finding with the most evidence speaks for all; what only others have is added behind its own.
    largest = max((finding for finding, _ in group), key=lambda finding: len(finding.evidence))
    different: dict[tuple[str, str | None], Evidence] = {}
    for evidence in (*largest.evidence, *(evidence for finding, _ in group for evidence in finding.evidence)):
        different.setdefault((evidence.subject, evidence.instead), evidence)
    ordered = sorted(different.values(), key=lambda evidence: not _names_evidence(error, evidence))
    return Cause(
        finding=msgspec.structs.replace(largest, evidence=tuple(ordered)),
        files=tuple(dict.fromkeys(result.path for _, result in group if result is not None)),
        harmful=fails and largest.effect.severity >= Effect.CORRUPTS.severity,
    )
