"""The report as Markdown, for a build summary or a pull request comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from abiscan.findings import Finding
from abiscan.report.characters import clean
from abiscan.results.check import Report, Result
from abiscan.results.verdict import Verdict

_SIGNS: Final = {Verdict.LOADS: "✅", Verdict.CORRUPTS: "❌", Verdict.FAILS: "❌", Verdict.UNKNOWN: "❔"}
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&])")
_EVIDENCE_SHOWN: Final = 10


def render(report: Report) -> str:
    """A table of verdicts, then the findings."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield "| extension | torch | verdict | first error |"
    yield "|---|---|---|---|"
    for result in report.results:
        message = result.predicted_error.line if result.predicted_error else ""
        if not result.uses_torch:
            message = message or "does not use torch"
        verdict = f"{_SIGNS[result.verdict]} {result.verdict.value}"
        yield f"| {_code(_name(result))} | {_plain(result.torch_build or '?')} | {verdict} | {_code(message)} |"
    for target in report.unchecked:
        verdict = "nothing to check" if target.readable else "❔ not checked"
        yield f"| {_code(target.target)} | | {verdict} | {_plain(target.problem)} |"
    for result in report.results:
        if result.findings or result.suppressed or result.gaps:
            yield ""
            yield f"#### {_code(_name(result))}"
            yield ""
            for finding in result.findings:
                yield from _finding(finding)
            for suppressed in result.suppressed:
                yield f"- *suppressed*: {_plain(suppressed.finding.message)} ({_plain(suppressed.reason)})"
            for gap in result.gaps:
                yield f"- *gap, {_plain(gap.stage)}*: {_plain(gap.reason)}"


def _finding(finding: Finding) -> Iterator[str]:
    yield f"- **{finding.rule}** ({finding.effect.value}): {_plain(finding.message)}"
    for evidence in finding.evidence[:_EVIDENCE_SHOWN]:
        instead = f", found: {_code(evidence.instead)}" if evidence.instead else ""
        yield f"  - {_code(evidence.readable or evidence.subject)}{instead}"
    if (hidden := len(finding.evidence) - _EVIDENCE_SHOWN) > 0:
        yield f"  - … {hidden} more"
    yield f"  - fix: {_plain(finding.fix)}"


def _name(result: Result) -> str:
    return result.target if result.target.endswith(result.path) else f"{result.target}: {result.path}"


def _plain(text: str) -> str:
    """Text without special meaning in Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", clean(text))


def _code(text: str) -> str:
    """Text as code, also in a table cell, where a bar ends the cell even inside code."""
    if not text:
        return ""
    cleaned = clean(text).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", cleaned)), default=0))
    return f"{fence} {cleaned} {fence}" if "`" in cleaned else f"`{cleaned}`"
