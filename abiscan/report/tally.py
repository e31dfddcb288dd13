"""The end of a report on several targets: how many answers of each kind, and all of them in a table, best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from abiscan.report.line import StyledLine
from abiscan.report.marks import STYLES
from abiscan.results.answers import answers_of
from abiscan.results.check import Report
from abiscan.results.survey import SIGNS
from abiscan.words import clean, listed, plural

_NOT_CHECKED: Final = "not checked"
_NOTHING: Final = "nothing to check"
_MOST_COLUMNS: Final = 100
"""How long a line may be: its reason is in full above."""
_LEAST_REASON: Final = 40
"""How much of a reason is shown even if the names are long: the verdict, and the beginning of an error."""


def list_lines(report: Report) -> Iterator[StyledLine]:
    """Yield one line with counts, then one line for each answer."""
    # sorted() is stable: within a verdict, the order of the command line stays.
    rows = sorted(_answer_rows(report), key=lambda row: list(_SIGNS).index(row[0]))
    counts = Counter(verdict for verdict, _, _ in rows)
    names = [subject for _, subject, _ in rows]
    summary = listed(
        [f"{counts[verdict]} {_spell_verdict(verdict)}" for verdict in _SIGNS if counts[verdict]], len(_SIGNS)
    )
    yield StyledLine(f"{plural(len(rows), 'answer')}: {summary}", style="bold")
    width = max(map(len, names))
    for verdict, subject, why in rows:
        sign = _SIGNS[verdict]
        # So that the table stays one row for each answer, of which the name is whole.
        room = max(_MOST_COLUMNS - len(f"  {sign} {'':{width}}  "), _LEAST_REASON)
        reason = why if len(why) <= room else f"{why[: room - 1]}…"
        yield StyledLine("  ", (sign, STYLES[sign]), f" {subject:{width}}  {reason}".rstrip())


_SIGNS: Final = {**SIGNS, _NOTHING: "·", _NOT_CHECKED: "!"}


def _spell_verdict(verdict: str) -> str:
    return verdict.replace("-", " ")


def _answer_rows(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield the verdict, the subject and the reason of each answer."""
    for entry in answers_of(report):
        error = "" if entry.error is None else f": {entry.error}"
        yield entry.verdict, clean(f"{entry.title} on {entry.torch}"), clean(f"{_spell_verdict(entry.verdict)}{error}")
    for target in report.unchecked:
        yield _NOTHING if target.readable else _NOT_CHECKED, clean(target.target), clean(target.said)
