"""What becomes of the environments of a lock, and what an update does to them, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from abiscan.results.doctor import DistributionState
from abiscan.results.lock import LockComparison, LockedState, LockFit, LockReport, OutcomeChange
from abiscan.results.package import PackageVerdict
from abiscan.words import clean, first_line, listed

_MARKS: Final = {
    PackageVerdict.WORKS: "✓",
    PackageVerdict.WORKS_WITHOUT: "◐",
    PackageVerdict.UNKNOWN: "?",
}
_STYLES: Final = {"✓": "green", "◐": "yellow", "?": "yellow", "✗": "bold red"}


def render_lock(report: LockReport, console: Console) -> None:
    """Write the environments, with what works and what does not; those with the same answer once."""
    for names, state in _grouped(report.environments):
        torch = f"torch {state.torch.version}" if state.torch.version else "no torch"
        console.print(Text(f"{clean(listed(names, 8))}, {clean(torch)}: {state.counts}"), soft_wrap=True)
        if state.torch.error is not None:
            console.print(Text(f"  torch itself cannot be imported: {clean(state.torch.error)}"), soft_wrap=True)
        for item in state.distributions:
            mark = _MARKS.get(item.verdict, "✗")
            line = Text(f"  {mark} ", style=_STYLES[mark])
            line.append(clean(f"{item.name} {item.version}"), style="bold" if mark == "✗" else "")
            if why := _why(item):
                line.append(f"  {clean(why)}", style="")
            console.print(line, soft_wrap=True)
        for line_of_pip in (*state.torch.unmet, *(line for item in state.distributions for line in item.unmet)):
            console.print(Text(f"  {clean(line_of_pip)}"), soft_wrap=True)
        for finding in (*state.process, *state.hardware):
            console.print(Text(f"  {clean(finding.message)}"), soft_wrap=True)


def _grouped(states: Sequence[LockedState]) -> list[tuple[list[str], LockedState]]:
    groups: list[tuple[list[str], LockedState]] = []
    for state in states:
        for names, first in groups:
            same = (first.torch, first.process, first.hardware) == (state.torch, state.process, state.hardware)
            if same and list(map(_essence, first.distributions)) == list(map(_essence, state.distributions)):
                names.append(str(state))
                break
        else:
            groups.append(([str(state)], state))
    return groups


def _essence(item: DistributionState) -> tuple[object, ...]:
    return item.name, item.version, item.verdict, item.error, item.cause, item.unmet


def _why(item: DistributionState) -> str:
    if item.cause is not None:
        return f"fails for {item.cause}: {first_line(item.error or '')}"
    if item.error is not None:
        return first_line(item.error)
    return listed(item.without)


def render_fit(fit: LockFit, console: Console) -> None:
    """Write what does not work, and what has to change in a lock."""
    for problem in (*fit.broken, *filter(None, [fit.obstacle])):
        console.print(Text(clean(problem), style="red"), soft_wrap=True)
    torch = f"with torch {clean(fit.torch)}" if fit.torch else "without torch"
    if fit.command is not None:
        console.print(Text(f"{torch}:"), soft_wrap=True)
        for change in fit.changes:
            console.print(Text(f"  {clean(str(change))}", style="bold green"), soft_wrap=True)
        console.print()
        console.print(Text(clean(fit.command), style="bold"), soft_wrap=True, no_wrap=True)
    elif fit.obstacle is None:
        what = "nothing is known to fail" if fit.unknown else "everything works"
        console.print(Text(f"{what} {torch}: nothing has to change"), soft_wrap=True)
    for line in fit.unknown:
        console.print(Text(f"not known: {clean(line)}", style="yellow"), soft_wrap=True)


def change_sentence(change: OutcomeChange, comparison: LockComparison) -> str:
    """Return what an update does to one distribution, in one line."""
    torch = f"{comparison.torch}: " if comparison.torch else ""
    name = f"{change.name} {change.version}"
    where = f" ({listed(change.environments, 4)})" if len(change.environments) < len(comparison.environments) else ""
    if change.after is None:
        return f"{torch}{name} is gone{where}"
    words = {
        PackageVerdict.IMPORT_FAILS: "no longer loads" if change.before is not None else "does not load",
        PackageVerdict.CORRUPTS: "corrupts memory",
        PackageVerdict.WORKS_WITHOUT: "works without a part of it",
        PackageVerdict.UNKNOWN: "could not be checked",
        PackageVerdict.WORKS: "works",
    }
    return f"{torch}{name} {words[change.after]}{where}"


def comparison_lines(comparison: LockComparison) -> Iterator[str]:
    """Yield what an update does, the worst first."""
    for title, changes in _sections(comparison):
        for change in changes:
            yield f"{title}: {change_sentence(change, comparison)}"
            if change.error is not None and title != "better":
                because = f"because of {change.cause}: " if change.cause else ""
                yield f"  {because}{first_line(change.error)}"


def _sections(comparison: LockComparison) -> tuple[tuple[str, tuple[OutcomeChange, ...]], ...]:
    return (
        ("worse", comparison.worse),
        ("better", comparison.better),
        ("still broken", comparison.still),
        ("not known", comparison.unknown),
    )


def render_comparison(comparison: LockComparison, console: Console) -> None:
    """Write what an update of a lock does."""
    styles = {"worse": "bold red", "better": "green"}
    for line in comparison_lines(comparison):
        console.print(Text(clean(line), style=styles.get(line.partition(":")[0], "")), soft_wrap=True)
    if not (comparison.worse or comparison.better or comparison.unknown):
        console.print(Text("nothing that uses torch becomes better or worse"), soft_wrap=True)
    for version_change in comparison.changes:
        console.print(Text(f"  {clean(str(version_change))}"), soft_wrap=True)
