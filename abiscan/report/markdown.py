"""The report as Markdown, for a build summary or a pull request comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from abiscan.findings import Finding
from abiscan.regex import regex
from abiscan.results.answers import ReportAnswer, answers_of
from abiscan.results.check import Report, Result
from abiscan.words import clean, first_line

_SIGNS: Final = {
    "works": "✅",
    "loads": "✅",
    "works-without": "⚠️",
    "corrupts": "❌",
    "import-fails": "❌",
    "fails": "❌",
    "unknown": "❔",
}
_SPECIAL: Final = regex(r"([\\`*_{}\[\]<>()#+!|~&])")
_EVIDENCE_SHOWN: Final = 10


def render_markdown(report: Report) -> str:
    """Return a table of verdicts, then the findings."""
    return "".join(f"{line}\n" for line in _report_lines(report))


def _report_lines(report: Report) -> Iterator[str]:
    answers = list(answers_of(report))
    # A table and a list, the two forms that comments, summaries and READMEs on all forges render.
    yield f"| {'target' if report.packages else 'extension'} | torch | verdict | first error |"
    yield "|---|---|---|---|"
    for entry in answers:
        elsewhere = f" ({plain(entry.judged.elsewhere)})" if entry.judged.elsewhere else ""
        verdict = f"{_SIGNS[entry.verdict]} {entry.verdict}{elsewhere}"
        error = as_code(entry.error or _note_on(entry))
        yield f"| {as_code(entry.title)} | {plain(_name_torch(entry))} | {verdict} | {error} |"
    for target in report.unchecked:
        verdict = "nothing to check" if target.readable else "❔ not checked"
        yield f"| {as_code(target.target)} | | {verdict} | {plain(target.problem)} |"
    for entry in answers:
        yield from _detail_lines(entry)


def _name_torch(entry: ReportAnswer) -> str:
    return entry.torch.removeprefix("torch ") if entry.judged.torch_build else "?"


def _note_on(entry: ReportAnswer) -> str:
    return "does not use torch" if isinstance(entry.judged, Result) and not entry.judged.uses_torch else ""


def _detail_lines(entry: ReportAnswer) -> Iterator[str]:
    gaps = () if entry.package else entry.gaps
    causes, suppressed = entry.causes, list(entry.suppressed)
    without = entry.package.without if entry.package else ()
    conditions = entry.package.unmet if entry.package else ()
    lost = entry.package.lost if entry.package else ()
    if not (causes or suppressed or without or lost or conditions or gaps):
        return
    yield from ("", f"#### {as_code(entry.package.subject if entry.package else entry.title)}", "")
    if entry.cause:
        yield f"- *cause*: {as_code(first_line(entry.cause))}"
    for library in without:
        error = f": {as_code(first_line(library.error))}" if library.error else ""
        yield f"- *without* {as_code(library.path)}{error}"
    for module in lost:
        yield f"- *without* {as_code(module.name)}: {as_code(str(module.error))}"
    for condition in conditions:
        yield f"- *condition*: {plain(condition.why)}"
    for cause in causes:
        yield from _finding_lines(cause.finding, cause.files if len(cause.files) > 1 else ())
    for _, item in suppressed:
        yield f"- *suppressed*: {plain(item.finding.message)} ({plain(item.reason)})"
    for gap in gaps:
        yield f"- *gap, {plain(gap.stage)}*: {plain(gap.reason)}"


def _finding_lines(finding: Finding, files: Sequence[str] = ()) -> Iterator[str]:
    yield f"- **{finding.rule}** ({finding.effect.value}): {plain(finding.message)}"
    # A comment on GitHub ends at 65,536 characters, and a finding may have thousands of symbols.
    for evidence in finding.evidence[:_EVIDENCE_SHOWN]:
        instead = f", found: {as_code(evidence.instead)}" if evidence.instead else ""
        yield f"  - {as_code(evidence.readable or evidence.subject)}{instead}"
    if (hidden := len(finding.evidence) - _EVIDENCE_SHOWN) > 0:
        yield f"  - … {hidden} more"
    if files:
        yield f"  - in {len(files)} files: {', '.join(map(as_code, files[:_EVIDENCE_SHOWN]))}"
    yield f"  - fix: {plain(finding.fix)}"


def plain(text: str) -> str:
    """Return text without special meaning in Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", clean(text))


def as_code(text: str) -> str:
    """Return text as code, also in a table cell, where a bar ends the cell even inside code."""
    if not text:
        return ""
    # GitHub Flavored Markdown, "Tables (extension)": a bar in a cell is escaped, inside code, too.
    cleaned = clean(text).replace("|", "\\|")
    if "`" not in cleaned:
        return f"`{cleaned}`"
    # CommonMark, "Code spans": the fence has one backtick more than the longest run inside.
    fence = "`" * (1 + max(map(len, re.findall("`+", cleaned))))
    return f"{fence} {cleaned} {fence}"
