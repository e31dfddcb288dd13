"""The report as Markdown, for a build summary or a pull request comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from abiscan.findings import Finding
from abiscan.regex import regex
from abiscan.results.causes import group_causes
from abiscan.results.check import Report, Result
from abiscan.results.package import PackageResult, PackageVerdict
from abiscan.results.verdict import Verdict
from abiscan.words import clean, first_line

_SIGNS: Final = {Verdict.LOADS: "✅", Verdict.CORRUPTS: "❌", Verdict.FAILS: "❌", Verdict.UNKNOWN: "❔"}
_PACKAGE_SIGNS: Final = {
    PackageVerdict.WORKS: "✅",
    PackageVerdict.WORKS_WITHOUT: "⚠️",
    PackageVerdict.CORRUPTS: "❌",
    PackageVerdict.IMPORT_FAILS: "❌",
    PackageVerdict.UNKNOWN: "❔",
}
_SPECIAL: Final = regex(r"([\\`*_{}\[\]<>()#+!|~&])")
_EVIDENCE_SHOWN: Final = 10


def render_markdown(report: Report) -> str:
    """Return a table of verdicts, then the findings."""
    return "".join(f"{line}\n" for line in _list_lines(report))


def _list_lines(report: Report) -> Iterator[str]:
    # A table and a list, the two forms that comments, summaries and READMEs on all forges render.
    yield f"| {'target' if report.packages else 'extension'} | torch | verdict | first error |"
    yield "|---|---|---|---|"
    for package in report.packages:
        error = as_code(first_line(str(package.error))) if package.error else ""
        verdict = f"{_PACKAGE_SIGNS[package.verdict]} {package.verdict.value}{_format_elsewhere(package)}"
        yield f"| {as_code(_format_title(package))} | {plain(package.torch_build or '?')} | {verdict} | {error} |"
    for result in report.alone:
        message = result.predicted_error.line if result.predicted_error else ""
        if not result.uses_torch:
            message = message or "does not use torch"
        verdict = f"{_SIGNS[result.verdict]} {result.verdict.value}{_format_elsewhere(result)}"
        yield f"| {as_code(_name_of(result))} | {plain(result.torch_build or '?')} | {verdict} | {as_code(message)} |"
    for target in report.unchecked:
        verdict = "nothing to check" if target.readable else "❔ not checked"
        yield f"| {as_code(target.target)} | | {verdict} | {plain(target.problem)} |"
    for package in report.packages:
        yield from _list_package(report, package)
    for result in report.alone:
        if result.findings or result.suppressed or result.gaps:
            yield ""
            yield f"#### {as_code(_name_of(result))}"
            yield ""
            for finding in result.findings:
                yield from _list_finding(finding)
            yield from _list_suppressed(result)
            for gap in result.gaps:
                yield f"- *gap, {plain(gap.stage)}*: {plain(gap.reason)}"


def _list_package(report: Report, package: PackageResult) -> Iterator[str]:
    causes = group_causes(report, package)
    suppressed = [line for _, result in report.files(package) for line in _list_suppressed(result)]
    if not causes and not suppressed and not package.without:
        return
    yield ""
    yield f"#### {as_code(package.subject)}"
    yield ""
    if package.error and package.error.cause:
        yield f"- *cause*: {as_code(first_line(package.error.cause))}"
    for library in package.without:
        error = f": {as_code(first_line(library.error))}" if library.error else ""
        yield f"- *without* {as_code(library.path)}{error}"
    for cause in causes:
        yield from _list_finding(cause.finding, cause.files if len(cause.files) > 1 else ())
    yield from suppressed


def _format_elsewhere(judged: PackageResult | Result) -> str:
    return f" ({plain(judged.elsewhere)})" if judged.elsewhere else ""


def _format_title(package: PackageResult) -> str:
    return f"{package.name} {package.version}" if package.version else package.name


def _list_suppressed(result: Result) -> Iterator[str]:
    for suppressed in result.suppressed:
        yield f"- *suppressed*: {plain(suppressed.finding.message)} ({plain(suppressed.reason)})"


def _list_finding(finding: Finding, files: Sequence[str] = ()) -> Iterator[str]:
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


def _name_of(result: Result) -> str:
    return result.target if result.target.endswith(result.path) else f"{result.target}: {result.path}"


def plain(text: str) -> str:
    """Return text without special meaning in Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", clean(text))


def as_code(text: str) -> str:
    """Return text as code, also in a table cell, where a bar ends the cell even inside code."""
    if not text:
        return ""
    # GitHub Flavored Markdown, "Tables (extension)": a bar in a cell is escaped, inside code, too.
    cleaned = clean(text).replace("|", "\\|")
    # CommonMark, "Code spans": the fence has one backtick more than the longest run inside.
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", cleaned)), default=0))
    return f"{fence} {cleaned} {fence}" if "`" in cleaned else f"`{cleaned}`"
