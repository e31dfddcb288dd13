"""The report as SARIF 2.1.0, for code scanning.

A finding is a result, and a gap is a tool notification. An extension inside a wheel is a logical location: for code
viewers, the file is the wheel.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, Final

import abiscan
from abiscan.findings import Confidence, Documented, Effect, Finding
from abiscan.inputs.kinds import TargetKind
from abiscan.results.answers import ReportAnswer, answers_of
from abiscan.results.check import Report, Result
from abiscan.results.package import PackageResult, PackageVerdict
from abiscan.results.rule_page import is_address, locate_page, page_of

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT: Final = "abiscan/v1"
_FOLDERS: Final = frozenset({TargetKind.FOLDER, TargetKind.INSTALLED})


def render_sarif(report: Report, rules: Sequence[Documented]) -> str:
    """Return the report as a SARIF log of one run that ends in a newline.

    :param rules: all rules; each is described once, whether or not it found something
    """
    # ``ruleIndex`` is the place of the rule in the array of the driver ("ruleIndex property"); that of packages comes
    # last.
    indices = {rule.name: index for index, rule in enumerate(rules)}
    answers = list(answers_of(report))
    run = {
        "tool": {
            "driver": {
                "name": "abiscan",
                "version": abiscan.__version__,
                "semanticVersion": abiscan.__version__,
                "rules": [
                    *map(_describe_rule, rules),
                    *([{**_PACKAGE_RULE, **_name_page(locate_page("packages.md"))}] if report.packages else []),
                ],
            }
        },
        "automationDetails": {"id": _identify_run(answers)},
        "columnKind": "utf16CodeUnits",
        "invocations": [
            {
                # False if the run did not do what it was asked for ("executionSuccessful property"): a gap is not that.
                "executionSuccessful": all(target.readable for target in report.unchecked),
                "toolExecutionNotifications": [
                    *(
                        _make_notification(entry, f"{gap.stage}: {gap.reason}")
                        for entry in answers
                        for gap in entry.gaps
                        if not entry.package
                    ),
                    *(
                        # There may be no result that could say so.
                        _make_notification(
                            entry, f"{entry.name} on {entry.torch}: {entry.verdict}, but {entry.judged.elsewhere}"
                        )
                        for entry in answers
                        if entry.judged.elsewhere
                    ),
                    *(
                        {"level": "note" if target.readable else "error", "message": {"text": str(target)}}
                        for target in report.unchecked
                    ),
                ],
            }
        ],
        "results": [result for entry in answers for result in _sarif_results(entry, indices)],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _identify_run(answers: Sequence[ReportAnswer]) -> str:
    """Return what tells this run from those on other torches: GitHub takes one upload for each, by what is before the
    last slash (section "runAutomationDetails object", and GitHub's "SARIF support for code scanning").
    """
    builds = dict.fromkeys(entry.judged.torch_build or "this torch" for entry in answers)
    return f"abiscan/{','.join(build.replace('/', '_') for build in builds)}/"


def _make_notification(entry: ReportAnswer, text: str) -> dict[str, Any]:
    return {"level": "warning", "message": {"text": text}, "locations": [_locate_entry(entry)]}


def level_of(effect: Effect) -> str:
    """Return the SARIF level of an effect: what fails a check by default is an error."""
    if effect.severity >= Effect.CORRUPTS.severity:
        return "error"
    return "note" if effect is Effect.NOTE else "warning"


def fingerprint_result(result: Result, finding: Finding) -> str:
    """Return what stays the same between runs: rule, extension, torch and evidence, but not folders or wording."""
    # GitHub takes two results with equal partialFingerprints for one alert. So nothing counts that a new release of
    # abiscan may word differently, nor the place of a build folder.
    return hash_parts(finding.rule, result.path, result.torch or "", *_evidence_subjects(finding))


def _evidence_subjects(finding: Finding) -> list[str]:
    return sorted(f"{evidence.object} {evidence.subject}" for evidence in finding.evidence)


def hash_parts(*parts: str) -> str:
    """Return what tells a result from others in every run: it depends on these parts alone."""
    # Paths may have bytes that are no UTF-8.
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _format_message(finding: Finding, text: str) -> str:
    proofs = (evidence.readable or evidence.subject for evidence in finding.evidence)
    return "\n".join((text, *proofs, f"Fix: {finding.fix}"))


def _describe_rule(rule: Documented) -> dict[str, Any]:
    return {
        "id": rule.name,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.documentation, "markdown": rule.documentation},
        **_name_page(page_of(rule.name)),
    }


def _name_page(page: str) -> dict[str, Any]:
    # SARIF 2.1.0, 3.49.12: an absolute URI, which a path in the repository is not.
    return {**({"helpUri": page} if is_address(page) else {}), "properties": {"page": page}}


def _sarif_results(entry: ReportAnswer, indices: dict[str, int]) -> Iterator[dict[str, Any]]:
    if isinstance(entry.judged, PackageResult):
        yield from _of_package(entry, entry.judged, indices)
    else:
        yield from (_make_entry(entry.judged, finding, indices) for finding in entry.judged.findings)
    for result, suppressed in entry.suppressed:
        # Not ``inSource``: the acceptance stands in pyproject.toml or a baseline ("kind property" of suppression).
        suppression = {"kind": "external", "status": "accepted", "justification": suppressed.reason}
        yield {**_make_entry(result, suppressed.finding, indices), "suppressions": [suppression]}


def _of_package(entry: ReportAnswer, package: PackageResult, indices: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield a result for the import, and one for each cause; what does no harm to the import is a note."""
    if package.verdict is not PackageVerdict.WORKS or package.unmet:
        conditions = [f"condition: {condition.why}" for condition in package.unmet]
        lines = [f"{package.subject}: {package.summary}", *([entry.cause] if entry.cause else []), *conditions]
        mild = "note" if package.verdict in (PackageVerdict.WORKS, PackageVerdict.WORKS_WITHOUT) else "warning"
        yield {
            "ruleId": _PACKAGE_RULE["id"],
            "ruleIndex": len(indices),
            "level": "error" if entry.fails() else mild,
            "message": {"text": "\n".join(lines)},
            "locations": [_locate_entry(entry)],
            "partialFingerprints": {FINGERPRINT: hash_parts(_PACKAGE_RULE["id"], *_identify(package))},
            "properties": {"effect": package.effect.value if package.effect else None, "torch": package.torch_build},
        }
    for cause in entry.causes:
        of_cause = [result for _, result in entry.report.files(package) if result.path in cause.files]
        subjects = _evidence_subjects(cause.finding)
        yield {
            "ruleId": cause.finding.rule,
            "ruleIndex": indices[cause.finding.rule],
            "level": level_of(cause.finding.effect) if cause.harmful else "note",
            "message": {"text": _format_message(cause.finding, cause.finding.message)},
            "locations": [*map(_locate_result, of_cause[:1])] or [locate_file(package.target, package.name)],
            # GitHub shows a result at its first location only; the other files of a cause are related.
            "relatedLocations": [*map(_locate_result, of_cause[1:])],
            "partialFingerprints": {FINGERPRINT: hash_parts(cause.finding.rule, *_identify(package), *subjects)},
            "properties": {
                "effect": cause.finding.effect.value,
                "torch": package.torch_build,
                **_state_confidence(cause.finding),
            },
        }


def _identify(package: PackageResult) -> list[str]:
    return [package.name, package.torch or "", *filter(None, [package.apart, package.named_system])]


_PACKAGE_RULE: Final[dict[str, Any]] = {
    "id": "package",
    "name": "Package",
    "shortDescription": {"text": "Importing the package fails, or works without a part of it."},
    "fullDescription": {"text": "Importing the package fails, or works without a part of it."},
    "help": {"text": "The results for its files say why.", "markdown": "The results for its files say why."},
}


def _make_entry(result: Result, finding: Finding, indices: dict[str, int]) -> dict[str, Any]:
    text = f"{finding.message} ({result.path} on {result.torch_name})"
    return {
        "ruleId": finding.rule,
        "ruleIndex": indices[finding.rule],
        "level": level_of(finding.effect),
        "message": {"text": _format_message(finding, text)},
        "locations": [_locate_result(result)],
        "partialFingerprints": {FINGERPRINT: fingerprint_result(result, finding)},
        "properties": {
            "effect": finding.effect.value,
            "torch": result.torch_build,
            "evidence": [evidence.subject for evidence in finding.evidence],
            **_state_confidence(finding),
        },
    }


def _state_confidence(finding: Finding) -> dict[str, str]:
    return {} if finding.confidence is Confidence.CERTAIN else {"confidence": finding.confidence.value}


def _locate_entry(entry: ReportAnswer) -> dict[str, Any]:
    if isinstance(entry.judged, PackageResult):
        return locate_file(entry.judged.target, entry.judged.module or entry.judged.name)
    return _locate_result(entry.judged)


def _locate_result(result: Result) -> dict[str, Any]:
    # A file inside an archive has no URI that a viewer could open, so the archive is the artifact.
    path = posixpath.join(result.target, result.path) if result.kind in _FOLDERS else result.target
    return locate_file(path, result.path)


def locate_file(path: str, name: str) -> dict[str, Any]:
    """Return the location of a file, and of what is meant in it."""
    # RFC 3986: a relative reference stays relative, and is resolved against the root of the repository.
    uri = urllib.parse.quote(path, errors="surrogateescape")
    return {
        # Code viewers want a line even for a binary.
        "physicalLocation": {
            "artifactLocation": {"uri": f"file://{uri}" if uri.startswith("/") else uri},
            "region": {"startLine": 1},
        },
        "logicalLocations": [{"fullyQualifiedName": name, "kind": "module"}],
    }
