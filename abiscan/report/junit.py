"""The report as JUnit XML, for build servers: one test suite per torch, one test case per extension."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from abiscan.findings import Effect, Finding
from abiscan.results.check import Report, Result
from abiscan.results.unchecked import Unchecked
from abiscan.results.verdict import Verdict

# Characters that XML 1.0 does not allow, escaped or not (section 2.2, Char).
_NO_CHARACTER: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, fail_on: Effect, *, strict: bool) -> str:
    """The report as an XML document that ends in a newline.

    A test case is a failure if it alone would make the exit code 1, and an error if its verdict is unknown.
    """
    suites: dict[str, list[Result]] = {}
    for result in report.results:
        suites.setdefault(f"torch {result.torch_build or '(unknown version)'}", []).append(result)
    root = ET.Element("testsuites", {"name": "abiscan"})
    for name, results in suites.items():
        _suite(root, name, results, fail_on, strict=strict)
    if report.unchecked:
        _unchecked(root, report.unchecked)
    ET.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(root: ET.Element, name: str, results: Sequence[Result], fail_on: Effect, *, strict: bool) -> None:
    suite = ET.SubElement(root, "testsuite", {"name": _text(name), "tests": str(len(results))})
    failures = errors = 0
    for result in results:
        case = ET.SubElement(suite, "testcase", {"name": _text(result.path), "classname": _text(result.target)})
        # A case has one outcome: a certain one takes precedence.
        if result.is_failure(fail_on, strict=strict):
            failures += 1
            _outcome(case, "failure", result)
        elif result.verdict is Verdict.UNKNOWN:
            errors += 1
            _outcome(case, "error", result)
        elif lines := [*map(_finding, result.findings), *_known(result)]:
            ET.SubElement(case, "system-out").text = _text("\n".join(lines))
    suite.attrib |= {"failures": str(failures), "errors": str(errors), "skipped": "0"}


def _unchecked(root: ET.Element, targets: Sequence[Unchecked]) -> None:
    """A suite of its own: what cannot be read is an error, and what has nothing to check is skipped."""
    suite = ET.SubElement(root, "testsuite", {"name": "not checked", "tests": str(len(targets)), "failures": "0"})
    skipped = sum(target.readable for target in targets)
    suite.attrib |= {"errors": str(len(targets) - skipped), "skipped": str(skipped)}
    for target in targets:
        case = ET.SubElement(suite, "testcase", {"name": _text(target.target), "classname": _text(target.target)})
        outcome = ET.SubElement(case, "skipped" if target.readable else "error", {"message": _text(target.problem)})
        if not target.readable:
            outcome.attrib["type"] = "unreadable"
            outcome.text = _text(target.fix)


def _outcome(case: ET.Element, tag: str, result: Result) -> None:
    error, gaps = result.predicted_error, [f"gap[{gap.stage}]: {gap.reason}" for gap in result.gaps]
    if error:
        message = str(error)
    else:
        message = next((finding.message for finding in result.findings), next(iter(gaps), "could not be checked"))
    kind = next((finding.rule for finding in result.findings), "gap")
    outcome = ET.SubElement(case, tag, {"type": kind, "message": _text(message)})
    outcome.text = _text("\n".join([*map(_finding, result.findings), *_known(result), *gaps]))


def _finding(finding: Finding) -> str:
    proofs = [f"  {evidence.readable or evidence.subject}" for evidence in finding.evidence]
    lines = [f"{finding.effect.value}[{finding.rule}]: {finding.message}", *proofs, f"  fix: {finding.fix}"]
    return "\n".join(lines)


def _known(result: Result) -> list[str]:
    return [
        f"suppressed[{suppressed.finding.rule}]: {suppressed.finding.message} ({suppressed.reason})"
        for suppressed in result.suppressed
    ]


def _text(text: str) -> str:
    return _NO_CHARACTER.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)
