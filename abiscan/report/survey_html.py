"""The summary of a survey as a page of HTML: targets by torches, and causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final

from abiscan.report.marks import CLASSES
from abiscan.report.page import escaped, fill_page
from abiscan.results.rule_page import is_address, page_of
from abiscan.results.survey import LEGEND, SIGNS, SurveyEntry, SurveySummary

_CAUSES_SHOWN: Final = 100


def render_page(summary: SurveySummary) -> str:
    """Return the page."""
    return fill_page(
        "Which packages work on which torch?",
        _counts_html(summary),
        (*_table_html(summary), *_causes_html(summary)),
        LEGEND,
    )


def _counts_html(summary: SurveySummary) -> Iterator[str]:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in summary.counts.items())
    yield f"<p>{escaped(counts)}</p>"


def _table_html(summary: SurveySummary) -> Iterator[str]:
    yield '<div class="scroll" tabindex="0" role="region" aria-label="targets by torches"><table>'
    heads = "".join(
        f'<th scope="col" class="release"><button>{escaped(torch)}</button></th>' for torch in summary.torches
    )
    yield f'<thead><tr><th scope="col"><button>target</button></th>{heads}</tr></thead><tbody>'
    for title, row in summary.titled:
        target = next(iter(row.values())).target
        cells = "".join(_format_cell(row, torch) for torch in summary.torches)
        yield f'<tr><th scope="row" title="{escaped(target)}">{escaped(title)}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _format_cell(row: Mapping[str, SurveyEntry], torch: str) -> str:
    if torch not in row:
        return '<td class="none" data-verdict="none"></td>'
    entry = row[torch]
    sign = SIGNS[entry.verdict]
    label = escaped(f"{entry.verdict} on torch {torch}{f': {entry.says}' if entry.says else ''}")
    shown = f'<span role="img" aria-label="{label}" title="{label}">{sign}</span>'
    return f'<td class="{CLASSES[sign]}" data-verdict="{CLASSES[sign]}">{shown}</td>'


def _causes_html(summary: SurveySummary) -> Iterator[str]:
    if not summary.causes:
        return
    yield "<h2>Commonest causes</h2>"
    yield '<div class="scroll" tabindex="0" role="region" aria-label="causes"><table class="texts">'
    heads = "".join(
        f'<th scope="col"><button>{name}</button></th>' for name in ("answers", "rule", "what users see", "example")
    )
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for cause in summary.causes[:_CAUSES_SHOWN]:
        # The name of the example without its folder: the column is narrow, and the page may be published.
        texts = (cause.says, PurePath(cause.example).name)
        cells = (str(cause.count), _format_rule(cause.rule), *map(escaped, texts))
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</tbody></table></div>"


def _format_rule(rule: str | None) -> str:
    """Return a rule, with a link to its page where that has an address."""
    name, page = escaped(rule or ""), page_of(rule or "")
    return f'<a href="{escaped(page)}">{name}</a>' if rule and is_address(page) else name
