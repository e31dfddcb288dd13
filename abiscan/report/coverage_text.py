"""What a backend cannot run, for people: a table, the most used operators first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abiscan.dispatch.coverage import MissingKernel
from abiscan.report.characters import clean
from abiscan.results.coverage import BackendReport

_SHOWN: Final = 40
_CALLERS: Final = 3


def render(report: BackendReport, console: Console, *, verbose: bool = False) -> None:
    """Print a report.

    :param verbose: every operator, and what torch says of each
    """
    for line in _head(report):
        console.print(line, soft_wrap=True)
    missing = report.coverage.missing
    shown = missing if verbose else missing[:_SHOWN]
    if shown:
        console.print(_table(shown))
    if len(missing) > len(shown):
        console.print(f"and {len(missing) - len(shown)} more (-v shows all)", soft_wrap=True)
    for each in missing if verbose else missing[:1]:
        console.print(Text.assemble(("torch says: ", "bold"), clean(each.message)), soft_wrap=True)
    for text in report.coverage.ambiguous:
        console.print(Text(f"ambiguous autograd: {clean(text)}", style="yellow"), soft_wrap=True)
    if report.coverage.unknown and report.workload:
        names = ", ".join(map(clean, report.coverage.unknown))
        console.print(Text(f"not in the dispatcher of this torch: {names}", style="yellow"), soft_wrap=True)
    for note in report.notes:
        console.print(Text(f"note: {clean(note)}", style="yellow"), soft_wrap=True)
    for gap in report.gaps:
        console.print(Text(f"gap: {clean(gap)}", style="yellow"), soft_wrap=True)


def _head(report: BackendReport) -> Iterator[Text]:
    coverage = report.coverage
    name = f" ({clean(report.backend_name)})" if report.backend_name else ""
    yield Text.assemble(
        (clean(report.target), "bold"), f" on {clean(report.release)}, backend ", (clean(report.backend), "cyan"), name
    )
    fallback = " and a fallback" if report.has_fallback else ""
    served = ", ".join(f"{count} by {source.value}" for source, count in coverage.served.items())
    yield Text(f"it registers {report.kernels} kernels{fallback} for it; operators that run: {served or 'none'}")
    count = len(coverage.missing)
    core = sum(each.core for each in coverage.missing)
    what = f"no kernel: {count} operators, {core} of them core" if count else "no operator is without a kernel"
    yield Text(what, style="red" if count else "green")


def _table(missing: Sequence[MissingKernel]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("operator", "", "called by"):
        table.add_column(title, overflow="fold")
    for each in missing:
        marks = (("essential", each.essential), ("core", each.core), ("special", not each.general))
        callers = ", ".join(each.reached_from[:_CALLERS]) + (", …" if len(each.reached_from) > _CALLERS else "")
        table.add_row(
            Text(clean(each.operator), style="red" if each.essential else ""),
            " ".join(name for name, holds in marks if holds),
            Text(clean(callers)),
        )
    return table
