"""The report as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from abiscan.findings import Effect, Evidence, Finding
from abiscan.report import package_text
from abiscan.report.fixes import FIX, fix_lines, shared_fixes
from abiscan.report.line import Page, StyledLine
from abiscan.results.answers import ReportAnswer, answers_of
from abiscan.results.check import Report
from abiscan.results.package import PackageResult
from abiscan.results.verdict import Verdict
from abiscan.words import clean, plural

if TYPE_CHECKING:
    from rich.text import Text

_EVIDENCE_SHOWN: Final = 3
_LINES_SHOWN: Final = 12
_VERDICT_STYLES: Final = {
    Verdict.LOADS: "green",
    Verdict.CORRUPTS: "bold red",
    Verdict.FAILS: "bold red",
    Verdict.UNKNOWN: "yellow",
}
_LABELS: Final = {
    Effect.NOTE: ("note", "cyan"),
    Effect.OVERRIDES: ("warning", "yellow"),
    Effect.CALL_FAILS: ("warning", "yellow"),
}


def render_report(report: Report, page: Page, *, verbosity: int = 0, accepted: str = "") -> None:
    """Print the report.

    :param accepted: which file changed which verdict, in one line; empty if none did
    :param verbosity: -1: verdicts only; 0: findings with some evidence; 1: all evidence and gaps
    """
    blocks: list[Iterator[StyledLine | Text]] = [_answer_lines(entry, verbosity) for entry in answers_of(report)]
    # Of several answers, the last lines on the screen are the overview.
    if verbosity >= 0 and len(blocks) > 1:
        from abiscan.report import tally

        blocks.append(tally.list_lines(report))
    for number, block in enumerate(blocks):
        if number and verbosity >= 0:
            page.print(StyledLine())
        for line in block:
            page.print(line, soft_wrap=True)
    for target in report.unchecked:
        if target.readable:  # what cannot be read is an error, and on stderr
            page.print(StyledLine(clean(str(target))), soft_wrap=True)
    if accepted:
        page.print(StyledLine(clean(accepted), style="yellow"), soft_wrap=True)


def _answer_lines(entry: ReportAnswer, verbosity: int) -> Iterator[StyledLine]:
    result = entry.judged
    if isinstance(result, PackageResult):
        yield from package_text.list_lines(entry.report, result, verbosity)
        return
    yield format_verdict(entry)
    if verbosity < 0:
        return
    shared = shared_fixes(result.findings)
    # Findings of one load often lead to one symptom.
    shown_symptoms: set[str | None] = {None}
    for finding in result.findings:
        yield from _finding_lines(finding, verbosity, fix=finding.fix not in shared)
        if finding.symptom not in shown_symptoms:
            yield StyledLine(f"  = users may see: {clean(finding.symptom or '')}")
            shown_symptoms.add(finding.symptom)
    for suppressed in result.suppressed:
        yield StyledLine((f"suppressed[{suppressed.finding.rule}]", "dim"), f": {clean(suppressed.finding.message)}")
        yield StyledLine(f"  = reason: {clean(suppressed.reason)}", style="dim")
    if result.before_torch:
        yield StyledLine(f"  = before import torch: ImportError: {clean(result.before_torch)}")
    if result.cpu is not None and (needed := result.cpu.summary):
        yield StyledLine(f"  = needs {needed} to load")
    yield from package_text.list_system_needs(entry.report, [result])
    # Gaps explain an unknown verdict; next to a known one, only those matter that kept a rule from an answer.
    shows_all = verbosity > 0 or result.verdict is Verdict.UNKNOWN
    for gap in (gap for gap in result.gaps if shows_all or gap.rules):
        yield StyledLine((f"gap[{gap.stage}]", "yellow"), f": {clean(gap.reason)}")
    yield from fix_lines(shared)


def _finding_lines(finding: Finding, verbosity: int, *, fix: bool) -> Iterator[StyledLine]:
    label, style = _LABELS.get(finding.effect, ("error", "bold red"))
    yield StyledLine((f"{label}[{finding.rule}]", style), (f": {clean(finding.message)}", "bold"))
    shown_evidence = finding.evidence if verbosity > 0 else finding.evidence[:_EVIDENCE_SHOWN]
    for evidence in shown_evidence:
        yield from _evidence_lines(evidence)
    if hidden := len(finding.evidence) - len(shown_evidence):
        yield StyledLine(f"    … {hidden} more (use -v to show them)", style="dim")
    yield from _quote_torch(finding.says, verbosity)
    yield StyledLine(f"  = effect: {finding.effect.value}")
    if fix:
        yield StyledLine("  = ", FIX, f": {clean(finding.fix)}")
    yield StyledLine(f"  = help: abiscan explain {finding.rule}", style="dim")


def _quote_torch(text: str | None, verbosity: int) -> Iterator[StyledLine]:
    lines = text.splitlines() if text else []
    shown_lines = lines if verbosity > 0 else lines[:_LINES_SHOWN]
    for number, line in enumerate(shown_lines):
        yield StyledLine(f"  = torch says: {clean(line)}" if number == 0 else f"      {clean(line)}")
    if hidden := len(lines) - len(shown_lines):
        yield StyledLine(f"      … {plural(hidden, 'more line')} (use -v to show them)", style="dim")


def _evidence_lines(evidence: Evidence) -> Iterator[StyledLine]:
    location = f"  ({clean(evidence.object)})" if evidence.object else ""
    yield StyledLine("    ", clean(evidence.readable or evidence.subject), (location, "dim"))
    if evidence.readable and evidence.readable != evidence.subject:
        yield StyledLine(f"      {clean(evidence.subject)}", style="dim")
    if evidence.instead:
        yield StyledLine(("      found: ", "dim"), clean(evidence.instead))


def format_verdict(entry: ReportAnswer) -> StyledLine:
    """Return the verdict, in one line."""
    result = entry.judged
    if isinstance(result, PackageResult):
        return package_text.format_headline(result)
    word = "loads, then corrupts memory" if result.verdict is Verdict.CORRUPTS else result.verdict.value
    line = StyledLine(clean(entry.title), ": ", (word, _VERDICT_STYLES[result.verdict]), f" on {entry.torch}")
    if result.elsewhere:
        line.append(f" ({result.elsewhere})")
    if entry.error is not None:
        line.append(f" - {clean(entry.error)}")
    elif result.call_error:
        line.append(f", until a call fails - {clean(result.call_error.line)}")
    elif result.external:
        line.append(f" if {clean(', '.join(result.external))} can be found at run time")
    if not result.uses_torch:
        line.append(", but does not use torch")
    return line
