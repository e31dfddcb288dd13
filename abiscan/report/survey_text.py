"""The summary of a survey for a terminal: how many answers of each kind, and the commonest causes."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from abiscan.results.survey import SIGNS, SurveySummary
from abiscan.words import clean, plural

_CAUSES_SHOWN: Final = 10


def render(summary: SurveySummary, console: Console) -> None:
    """Print the summary."""

    def show(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    targets, torches = plural(len(summary.rows), "target"), plural(len(summary.torches), "torch", "torches")
    show(f"{targets} on {torches}: {plural(sum(summary.counts.values()), 'answer')}")
    for verdict, count in summary.counts.items():
        show(f"  {SIGNS[verdict]} {count:>6}  {verdict}")
    if summary.causes:
        show("commonest causes:")
    for cause in summary.causes[:_CAUSES_SHOWN]:
        rule = f"{cause.rule}: " if cause.rule else ""
        show(f"  {cause.count:>6}  {rule}{clean(cause.says)} ({clean(cause.example)})")
    if (hidden := len(summary.causes) - _CAUSES_SHOWN) > 0:
        show(f"  and {plural(hidden, 'more cause')}")
