"""Findings that the user accepts: a baseline, and suppressions.

They change the exit code, not the verdict, and every report shows a suppressed finding as such.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec.structs
from msgspec import Struct

from abiscan.errors import InputError
from abiscan.findings import Finding
from abiscan.inputs import observed_fs
from abiscan.results.check import Report, Result, Suppressed
from abiscan.words import listed

_IN_BASELINE: Final = "in the baseline"


class Suppression(Struct, frozen=True, kw_only=True):
    """One entry of ``suppress``.

    :param target: a pattern (``*``, ``?``, ``[…]``) for the path of the extension inside its target, or for the name of
        the target
    :param until: the last day on which it applies
    :param source: the file that it stands in
    """

    rule: str
    target: str
    reason: str
    until: dt.date
    source: str | None = None

    def covers(self, result: Result, finding: Finding) -> bool:
        """Whether it applies to this finding."""
        # A pattern may mean the extension or what it is in, with or without folders: a wheel lies elsewhere in each
        # job.
        names = (result.path, result.target, posixpath.basename(result.target))
        return finding.rule == self.rule and any(fnmatch.fnmatchcase(name, self.target) for name in names)


_Cause = tuple[str, str | None, str]


class Baseline(Struct, frozen=True, kw_only=True):
    """The findings of an earlier report: their evidence, by extension, torch and rule.

    A finding is known if all of its evidence is known: one more missing symbol makes it new, one fewer does not. The
    path and name of a wheel do not matter, nor does the local version label of the torch.
    """

    evidence: Mapping[_Cause, frozenset[tuple[str, str | None]]]
    source: str | None = None

    def knows(self, result: Result, finding: Finding) -> bool:
        """Whether an earlier report has the finding."""
        accepted = self.evidence.get((result.path, result.torch, finding.rule))
        # A subset is known: fewer missing symbols than before are no news. Wording and severity do not count.
        return accepted is not None and accepted >= {
            (evidence.subject, evidence.object) for evidence in finding.evidence
        }


EMPTY: Final = Baseline(evidence={})


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a JSON report of ``abiscan check``.

    :raises InputError: there is none, or it is something else
    """
    fix = "create it with: abiscan check … --format json --output FILE"
    try:
        document = json.loads(observed_fs.read_file(path).decode("utf-8"))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror or error}", fix) from error
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), "not JSON, so not a baseline", fix) from error
    try:
        evidence = {cause: frozenset(proofs) for cause, proofs in _read_evidence(document).items()}
        return Baseline(evidence=evidence, source=str(path))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(str(path), "not a version 1 report of abiscan check, so not a baseline", fix) from error


def _read_evidence(document: Any) -> dict[_Cause, set[tuple[str, str | None]]]:
    if (document["version"], document["tool"]["name"]) != (1, "abiscan"):
        raise TypeError(document["tool"])
    evidence: dict[_Cause, set[tuple[str, str | None]]] = {}
    for result in document["results"]:
        # A report that was made with a baseline is one itself: what it suppressed stays known.
        for finding in (*result["findings"], *result.get("suppressed", ())):
            proofs = evidence.setdefault((result["path"], result["torch"], finding["rule"]), set())
            proofs |= {(entry["subject"], entry.get("object")) for entry in finding["evidence"]}
    return evidence


def verdicts_changed(report: Report, file: Path) -> str:
    """Say in one line what the suppressions in a file accept; empty if they accept nothing."""
    subject = dict.fromkeys(
        f"{suppressed.finding.rule} in {result.path}"
        for result in report.results
        for suppressed in result.suppressed
        if suppressed.source == str(file)
    )
    return f"{file} accepts {listed(subject)}" if subject else ""


def apply_suppressions(report: Report, suppressions: Sequence[Suppression], baseline: Baseline) -> Report:
    """Return the report with the accepted findings moved from ``findings`` to ``suppressed``.

    :param suppressions: those that have not expired
    """

    def sort_findings(result: Result) -> Result:
        # Suppressions before the baseline: their reason says more.
        accepted = {
            finding: item for finding, item in _findings_with_acceptance(result, suppressions, baseline) if item
        }
        return msgspec.structs.replace(
            result,
            findings=tuple(finding for finding in result.findings if finding not in accepted),
            suppressed=tuple(accepted.values()),
        )

    return msgspec.structs.replace(report, results=tuple(map(sort_findings, report.results))).filled()


def _findings_with_acceptance(
    result: Result, suppressions: Sequence[Suppression], baseline: Baseline
) -> Iterator[tuple[Finding, Suppressed | None]]:
    for finding in result.findings:
        by = next((suppression for suppression in suppressions if suppression.covers(result, finding)), None)
        if by is not None:
            yield finding, Suppressed(finding=finding, reason=by.reason, source=by.source)
        elif baseline.knows(result, finding):
            yield finding, Suppressed(finding=finding, reason=_IN_BASELINE, source=baseline.source)
        else:
            yield finding, None
