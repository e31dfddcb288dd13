"""The summary of a survey as Markdown: a table of targets by torches, and the commonest causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.report.markdown import as_code, plain
from abiscan.results.survey import LEGEND, SIGNS, SurveySummary

_CAUSES_SHOWN: Final = 25


def render_markdown(summary: SurveySummary) -> str:
    """Return the summary as one document."""
    return "".join(f"{line}\n" for line in _survey_lines(summary))


def _survey_lines(summary: SurveySummary) -> Iterator[str]:
    yield ", ".join(f"{count} {verdict}" for verdict, count in summary.counts.items())
    if summary.causes:
        yield from ("", "| answers | rule | what users see | for example |", "|---:|---|---|---|")
    for cause in summary.causes[:_CAUSES_SHOWN]:
        yield f"| {cause.count} | {cause.rule or ''} | {as_code(cause.says)} | {as_code(cause.example)} |"
    # Causes stand before this table, which may have thousands of rows.
    torches = [plain(torch) for torch in summary.torches]
    yield from ("", f"| target | {' | '.join(torches)} |", f"|---|{':-:|' * len(torches)}")
    for title, row in summary.titled:
        signs = [SIGNS[row[torch].verdict] if torch in row else "" for torch in summary.torches]
        yield f"| {as_code(title)} | {' | '.join(signs)} |"
    yield from ("", LEGEND)
