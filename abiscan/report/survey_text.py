"""The summary of a survey for a terminal: how many answers of each kind, and the commonest causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Console

from abiscan.inputs.version import TorchVersion
from abiscan.results.survey import SIGNS, SurveySummary
from abiscan.words import clean, plural, ranges

_CAUSES_SHOWN: Final = 10
_MEMBERS_SHOWN: Final = 10


def render_summary(summary: SurveySummary, console: Console) -> None:
    """Print the summary."""

    def show(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    targets, torches = plural(len(summary.rows), "target"), plural(len(summary.torches), "torch", "torches")
    show(f"{targets} on {torches}: {plural(sum(summary.counts.values()), 'answer')}")
    for verdict, count in summary.counts.items():
        show(f"  {SIGNS[verdict]} {count:>6}  {verdict}")
        for line in _targets_with_verdict(summary, verdict):
            show(f"            {line}")
    if summary.causes:
        show("commonest causes:")
    for cause in summary.causes[:_CAUSES_SHOWN]:
        rule = f"{cause.rule}: " if cause.rule else ""
        show(f"  {cause.count:>6}  {rule}{clean(cause.says)} ({clean(cause.example)})")
    if (hidden := len(summary.causes) - _CAUSES_SHOWN) > 0:
        show(f"  and {plural(hidden, 'more cause')}")


def _targets_with_verdict(summary: SurveySummary, verdict: str) -> Iterator[str]:
    """Yield the targets with a verdict, each with its torches and what users see first; the first few of them."""
    members = [
        (title, entries)
        for title, row in summary.titled
        if (entries := [entry for entry in row.values() if entry.verdict == verdict])
    ]
    # A torch without a version, such as a folder, sorts before all releases.
    ordered = sorted(summary.torches, key=lambda torch: (TorchVersion.parse(torch) or TorchVersion("0"), torch))
    for title, entries in members[:_MEMBERS_SHOWN]:
        torches = ranges([entry.torch for entry in entries], ordered)
        errors = list(dict.fromkeys(entry.says for entry in entries if entry.says and entry.exit_code))
        first = f": {errors[0]}" if errors else ""
        others = f", and {plural(len(errors) - 1, 'other error')}" if len(errors) > 1 else ""
        yield clean(f"{title} on torch {torches}{first}{others}")
    if (hidden := len(members) - _MEMBERS_SHOWN) > 0:
        yield f"and {hidden} more"
