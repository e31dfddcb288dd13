"""Versions that work together, as text: one line for each package, and the command to type."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abiscan.results.fit import FitReport, Fitting
from abiscan.words import clean, first_line


def render_fit(fit: FitReport, console: Console, *, verbose: bool) -> None:
    """Write what to install, or what stands in the way.

    :param verbose: show a table of all newer versions, and why each of them does not fit
    """
    if fit.obstacle is not None:
        console.print(Text(clean(first_line(fit.obstacle)), style="red"), soft_wrap=True)
    if fit.torch_instead is not None:
        number = fit.torch_instead.partition("+")[0]
        console.print(Text(f"torch {fit.torch_instead} would work: use --torch {number}"), soft_wrap=True)
    for place in fit.elsewhere:
        where = f"builds of {place.name} are published at {place.page}; to look there, type:"
        console.print(Text(clean(where)), soft_wrap=True)
        console.print(Text(f"  {clean(place.command)}", style="bold"), soft_wrap=True, no_wrap=True)
    if not fit.packages:
        return
    console.print(Text(f"with torch {fit.torch}{' (installed)' if fit.installed else ''}:"), soft_wrap=True)
    for package in fit.packages:
        line = Text("  ").append(f"{package.name}=={package.version}", style="bold green")
        console.print(line.append(f"  {clean(_format_comment(package))}"), soft_wrap=True)
    if verbose and any(package.rejected for package in fit.packages):
        console.print(_make_table(fit))
    console.print()
    console.print(Text(clean(fit.command or ""), style="bold"), soft_wrap=True, no_wrap=True)


def _format_comment(package: Fitting) -> str:
    parts = [package.note if package.proven else f"not proven: {package.note}"] if package.note else []
    if package.variant:
        parts.append(f"variant {package.variant}, for an installer that knows variants")
    if package.rejected:
        # Newest first, so the last one is the next newer version: the first that users ask about.
        nearest = package.rejected[-1]
        parts.append(f"{nearest.version} {first_line(nearest.reason)}")
    else:
        parts.append("the newest")
    return "; ".join(parts)


def _make_table(fit: FitReport) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for title in ("\nnewer version", "\nwhy it does not work"):
        table.add_column(title, overflow="fold")
    for package in fit.packages:
        for rejected in package.rejected:
            subject = Text(f"{package.name} {rejected.version}")
            table.add_row(subject, Text(clean(first_line(rejected.reason))))
    return table
