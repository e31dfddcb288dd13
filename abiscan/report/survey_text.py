"""The summary of a survey for a terminal: how many answers of each kind, and the commonest causes."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from abiscan.report.characters import clean
from abiscan.results.survey import SIGNS, SurveySummary
from abiscan.words import plural

_CAUSES_SHOWN: Final = 10


def render(summary: SurveySummary, console: Console) -> None:
    """Print the summary."""
    answers = sum(summary.counts.values())
    targets = plural(len(summary.rows), "target")
    console.print(
        f"{targets} on {plural(len(summary.torches), 'torch', 'torches')}: {plural(answers, 'answer')}", markup=False
    )
    for verdict, count in summary.counts.items():
        console.print(f"  {SIGNS[verdict]} {count:>6}  {verdict}", markup=False, soft_wrap=True)
    if summary.causes:
        console.print("commonest causes:")
    for cause in summary.causes[:_CAUSES_SHOWN]:
        rule = f"{cause.rule}: " if cause.rule else ""
        console.print(
            f"  {cause.count:>6}  {rule}{clean(cause.says)} ({clean(cause.example)})", markup=False, soft_wrap=True
        )
    if (hidden := len(summary.causes) - _CAUSES_SHOWN) > 0:
        console.print(f"  and {plural(hidden, 'more cause')}")
