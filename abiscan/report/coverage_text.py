"""What a backend cannot run, as text: a table, the most used operators first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abiscan.dispatch.coverage import MissingKernel
from abiscan.regex import regex
from abiscan.results.coverage import BackendReport
from abiscan.words import clean, first_line, listed, plural

_SHOWN: Final = 40
_CALLERS: Final = 3
_GPU_SHOWN: Final = 10
_OPERATOR: Final = regex(r"(?<![\w:])[a-z_]\w*::\w+(?:\.\w+)?(?![\w:])")


def render_coverage(report: BackendReport, console: Console, *, verbose: bool = False) -> None:
    """Print a report.

    :param verbose: list every operator, with what torch says about it
    """
    for line in _head_lines(report):
        console.print(line, soft_wrap=True)
    missing = report.coverage.missing
    # Sorted by use: what is left out at the end is what models call least.
    shown_kernels = missing if verbose else missing[:_SHOWN]
    if shown_kernels:
        console.print(_make_table(shown_kernels))
    if len(missing) > len(shown_kernels):
        console.print(f"and {len(missing) - len(shown_kernels)} more (use -v to show all)", soft_wrap=True)
    # One message is enough to recognise the error; all others have the same form.
    for kernel in missing if verbose else missing[:1]:
        message = kernel.message if verbose else f"{kernel.message.partition('. ')[0]}. … (use -v to show all)"
        console.print(Text.assemble(("torch says: ", "bold"), clean(message)), soft_wrap=True)
    for text in report.coverage.ambiguous:
        console.print(Text(f"ambiguous autograd: {clean(text)}", style="yellow"), soft_wrap=True)
    if report.coverage.unknown and report.workload:
        names = ", ".join(map(clean, report.coverage.unknown))
        console.print(Text(f"not registered in this torch: {names}", style="yellow"), soft_wrap=True)
    for line in _without_code(report, verbose=verbose):
        console.print(line, soft_wrap=True)
    for gap in report.gaps if verbose else _group_gaps(report.gaps):
        console.print(Text(f"gap: {clean(gap)}", style="yellow"), soft_wrap=True)


def _without_code(report: BackendReport, *, verbose: bool) -> Iterator[Text]:
    """Yield the operators of the target without code for a GPU."""
    for gpu, operators in report.without_code.items():
        names = listed(operators, len(operators) if verbose else _GPU_SHOWN)
        subject = (
            f"no code for {plural(len(operators), 'operator')}: {names}" if operators else "every operator has code"
        )
        yield Text(clean(f"{gpu}: {subject}"), style="red" if operators else "green")


def _group_gaps(gaps: Iterable[str]) -> Iterator[str]:
    """Yield one gap of those that differ only in the operators they name, and how many more there are."""
    groups: dict[str, list[str]] = {}
    for gap in gaps:
        # The text without its operators is what the gaps of one cause share.
        groups.setdefault(_OPERATOR.sub("", gap), []).append(gap)
    for first, *alike in groups.values():
        yield f"{first} (and {len(alike)} more like it; use -v to show all)" if alike else first


def _head_lines(report: BackendReport) -> Iterator[Text]:
    coverage = report.coverage
    name = f" ({clean(report.backend_name)})" if report.backend_name else ""
    # What makes the rest of no account is in the first line.
    failure = f": does not load - {clean(first_line(report.load_error))}" if report.load_error is not None else ""
    if report.is_moved and not failure:
        failure = ": none of its kernels is for this backend"
    yield Text.assemble(
        (clean(report.target), "bold"),
        f" on {clean(report.release)}, backend ",
        (clean(report.backend), "cyan"),
        name,
        (failure, "bold red"),
    )
    yield from (Text(f"note: {clean(note)}", style="yellow") for note in report.notes)
    # A fallback runs every operator without a kernel of its own, so it changes what the next line says.
    fallback = " and a fallback" if report.has_fallback else ""
    served = ", ".join(f"{count} by {source.value}" for source, count in coverage.served.items())
    yield Text(f"registers {plural(report.kernels, 'kernel')}{fallback}; operators that run: {served or 'none'}")
    count = len(coverage.missing)
    core = sum(kernel.core for kernel in coverage.missing)
    summary = (
        f"no kernel for {plural(count, 'operator')}, {core} of them core" if count else "every operator has a kernel"
    )
    yield Text(summary, style="red" if count else "green")


def _make_table(missing: Sequence[MissingKernel]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("operator", "", "called by"):
        # On a narrow terminal, it is the callers that are wrapped.
        table.add_column(title, overflow="fold", no_wrap=title == "operator")
    for kernel in missing:
        marks = (("essential", kernel.essential), ("core", kernel.core), ("special", not kernel.general))
        callers = ", ".join(kernel.reached_from[:_CALLERS]) + (", …" if len(kernel.reached_from) > _CALLERS else "")
        table.add_row(
            Text(clean(kernel.operator), style="red" if kernel.essential else ""),
            " ".join(name for name, holds in marks if holds),
            Text(clean(callers)),
        )
    return table
