"""The report as JUnit XML, for build servers: one test suite per torch, one test case per extension."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from msgspec import Struct

from abiscan.findings import Effect, Finding
from abiscan.results.answers import ReportAnswer, answers_of
from abiscan.results.check import Report
from abiscan.results.package import PackageResult
from abiscan.results.unchecked import Unchecked
from abiscan.words import clean


def render_junit(report: Report, fail_on: Effect, *, strict: bool) -> str:
    """Return the report as an XML document that ends in a newline.

    A test case is a failure if it alone would make the exit code 1, and an error if its verdict is unknown.
    """
    suites: dict[str, list[_Case]] = {}
    for entry in answers_of(report):
        # By the build, not the release: a run may check a CPU and a CUDA build of one release.
        name = entry.torch if entry.judged.torch_build else "torch (unknown version)"
        suites.setdefault(name, []).append(_make_case(entry, fail_on, strict=strict))
    # The schema is a convention of Ant and Jenkins: testsuites, testsuite, testcase with failure, error or skipped.
    root = ET.Element("testsuites", {"name": "abiscan"})
    for name, cases in suites.items():
        _add_suite(root, name, cases)
    if report.unchecked:
        _add_unchecked(root, report.unchecked)
    ET.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


class _Case(Struct, frozen=True, kw_only=True):
    """A test case: ``outcome`` is ``failure``, ``error`` or None, ``kind`` and ``message`` say which."""

    name: str
    target: str
    outcome: str | None
    kind: str
    message: str
    lines: Sequence[str]


def _make_case(entry: ReportAnswer, fail_on: Effect, *, strict: bool) -> _Case:
    """Return the case of a package, whatever the number of its files: servers count cases, and users install
    packages.
    """
    # A case has one outcome: a certain one takes precedence.
    outcome = "failure" if entry.fails(fail_on, strict=strict) else "error" if entry.verdict == "unknown" else None
    causes = entry.causes
    gaps = [f"gap[{gap.stage}]: {gap.reason}" for gap in entry.gaps]
    if isinstance(entry.judged, PackageResult):
        message, kind = entry.judged.summary, entry.verdict
    else:
        # Gaps explain an error or a failure; under a file that passes, they would be noise.
        gaps, kind = gaps if outcome else [], "gap"
        messages = (cause.finding.message for cause in causes)
        message = str(entry.judged.predicted_error or next(messages, next(iter(gaps), "could not be checked")))
    return _Case(
        name=entry.name,
        target=entry.judged.target,
        outcome=outcome,
        kind=next((cause.finding.rule for cause in causes), kind),
        message=message,
        lines=[
            *([f"cause: {entry.cause}"] if entry.cause else []),
            *([f"other builds: {entry.judged.elsewhere}"] if entry.judged.elsewhere else []),
            *(f"import {module.name}: {module.error}" for module in (entry.package.lost if entry.package else ())),
            *(f"condition: {condition.why}" for condition in (entry.package.unmet if entry.package else ())),
            *(_format_finding(cause.finding, cause.files) for cause in causes),
            *(
                f"suppressed[{suppressed.finding.rule}]: {suppressed.finding.message} ({suppressed.reason})"
                for _, suppressed in entry.suppressed
            ),
            *gaps,
        ],
    )


def _add_suite(root: ET.Element, name: str, cases: Sequence[_Case]) -> None:
    suite = ET.SubElement(root, "testsuite", {"name": _format_text(name), "tests": str(len(cases))})
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", {"name": _format_text(case.name), "classname": _format_text(case.target)}
        )
        text = _format_text("\n".join(case.lines))
        if case.outcome:
            attributes = {"type": case.kind, "message": _format_text(case.message)}
            ET.SubElement(element, case.outcome, attributes).text = text
        # A passing case has no message, so notes and suppressed findings go to its output.
        elif text:
            ET.SubElement(element, "system-out").text = text
    counts = {f"{kind}s": str(sum(case.outcome == kind for case in cases)) for kind in ("failure", "error")}
    suite.attrib |= {**counts, "skipped": "0"}


def _add_unchecked(root: ET.Element, targets: Sequence[Unchecked]) -> None:
    """Write a suite of its own: what cannot be read is an error, and what has nothing to check is skipped."""
    suite = ET.SubElement(root, "testsuite", {"name": "not checked", "tests": str(len(targets)), "failures": "0"})
    skipped = sum(target.readable for target in targets)
    suite.attrib |= {"errors": str(len(targets) - skipped), "skipped": str(skipped)}
    for target in targets:
        case = ET.SubElement(
            suite, "testcase", {"name": _format_text(target.target), "classname": _format_text(target.target)}
        )
        outcome = ET.SubElement(
            case, "skipped" if target.readable else "error", {"message": _format_text(target.problem)}
        )
        if not target.readable:
            outcome.attrib["type"] = "unreadable"
            outcome.text = _format_text(target.fix)


def _format_finding(finding: Finding, files: Sequence[str]) -> str:
    proofs = [f"  {evidence.readable or evidence.subject}" for evidence in finding.evidence]
    places = [f"  in {', '.join(files)}"] if files else []
    lines = [f"{finding.effect.value}[{finding.rule}]: {finding.message}", *proofs, *places, f"  fix: {finding.fix}"]
    return "\n".join(lines)


def _format_text(text: str) -> str:
    # XML 1.0 has no way to write most control characters, not even escaped (section 2.2, "Characters").
    return "\n".join(map(clean, text.split("\n")))
