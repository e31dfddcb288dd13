"""What becomes of the environments of a lock, and what an update does to them, as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from abiscan.report.lock_text import change_sentence
from abiscan.report.markdown import as_code, plain
from abiscan.results.lock import LockComparison, LockReport, OutcomeChange
from abiscan.words import first_line, plural

LARGEST: Final = 65_000
"""GitHub takes comments of up to 65,536 characters."""


def render_lock_markdown(report: LockReport) -> str:
    """Return a table of what uses torch, environment by environment."""
    lines = ["| environment | torch | distribution | verdict | why |", "|---|---|---|---|---|"]
    for state in report.environments:
        lines += [
            f"| {plain(str(state))} | {plain(state.torch.version or '-')} | {as_code(str(item))} | {item.verdict.value}"
            f" | {as_code(first_line(item.error)) if item.error else ''} |"
            for item in state.distributions
        ]
    return _within_limit(lines)


def render_comparison_markdown(comparison: LockComparison) -> str:
    """Return what an update does: what becomes worse, better, and which versions change."""
    return _within_limit(list(_comparison_lines(comparison)))


def _comparison_lines(comparison: LockComparison) -> Iterator[str]:
    if comparison.worse:
        yield (
            f"### ❌ {plural(len(comparison.worse), 'package')} no longer works"
            if len(comparison.worse) == 1
            else (f"### ❌ {len(comparison.worse)} packages no longer work")
        )
    elif comparison.unknown:
        yield "### ❔ Not everything could be checked"
    elif comparison.better:
        yield "### ✅ Nothing becomes worse, and something better"
    else:
        yield "### ✅ Nothing that uses torch becomes better or worse"
    yield ""
    for mark, changes in (
        ("❌", comparison.worse),
        ("✅", comparison.better),
        ("❔", comparison.unknown),
        ("⚠️ as before:", comparison.still),
    ):
        yield from (_format_change(mark, change, comparison) for change in changes)
    if comparison.changes:
        yield from ("", "| package | before | after |", "|---|---|---|")
        yield from (
            f"| {plain(change.name)} | {plain(change.before or '-')} | {plain(change.after or '-')} |"
            for change in comparison.changes
        )


def _format_change(mark: str, change: OutcomeChange, comparison: LockComparison) -> str:
    because = f", because of {plain(change.cause)}" if change.cause else ""
    error = f": {as_code(first_line(change.error))}" if change.error and mark != "✅" else ""
    return f"- {mark} {plain(change_sentence(change, comparison))}{because}{error}"


def _within_limit(lines: Iterable[str]) -> str:
    """Return lines as a text, without those beyond what a comment may have."""
    lines, size, taken = list(lines), 0, list[str]()
    for line in lines:
        size += len(line) + 1
        if size > LARGEST - 100:
            taken += ["", f"*… and {plural(len(lines) - len(taken), 'line')} more*"]
            break
        taken.append(line)
    return "\n".join(taken) + "\n"
