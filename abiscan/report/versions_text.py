"""Versions by releases, as text, Markdown and HTML: neighbours with the same answers are one row or column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from abiscan.report.marks import CLASSES, STYLES
from abiscan.report.page import escaped, fill_page
from abiscan.results.versions import VersionTable
from abiscan.words import clean

LEGEND: Final = "✓ works  ◐ works without a part  ✗ fails, or corrupts memory  ? unknown  · no build of torch"
_GAP: Final = 2


def render_table(table: VersionTable, console: Console) -> None:
    """Print the table, in as many parts as the width of the terminal needs."""
    rows = [(clean(str(span)), marks) for span, marks in table.merged()]
    if rows:
        console.print(Text(f"{clean(table.package)} by releases of torch, for {table.system}"), soft_wrap=True)
        for part in _column_groups(table, max(len(name) for name, _ in rows), console.width):
            _print_part(rows, part, console)
        console.print(Text(LEGEND, style="dim"), soft_wrap=True)
    for span, reason in table.unjudged():
        console.print(Text(clean(f"{span}: {reason}")), soft_wrap=True)


def _column_groups(table: VersionTable, name: int, width: int) -> Iterator[list[tuple[int, str]]]:
    """Yield the columns, number and heading, as many at a time as there is room for."""
    part: list[tuple[int, str]] = []
    used = name
    for number, (span, _) in enumerate(table.columns):
        heading = str(span)
        # Each part has at least one column, however narrow the terminal is.
        if part and used + _GAP + len(heading) > width:
            yield part
            part, used = [], name
        part.append((number, heading))
        used += _GAP + len(heading)
    yield part


def _print_part(rows: list[tuple[str, tuple[str, ...]]], part: list[tuple[int, str]], console: Console) -> None:
    width = max(len(name) for name, _ in rows)
    heads = "".join(f"{'':{_GAP}}{heading}" for _, heading in part)
    console.print(Text(f"{'':{width}}{heads}", style="bold"), soft_wrap=True)
    for name, marks in rows:
        line = Text(f"{name:{width}}")
        for number, heading in part:
            line.append(f"{'':{_GAP}}{marks[number]:^{len(heading)}}", style=STYLES[marks[number]])
        # A mark in the middle of a wide heading leaves spaces at the end of the line.
        line.rstrip()
        console.print(line, soft_wrap=True)


def render_markdown(table: VersionTable) -> str:
    """Return the table in Markdown, for a README."""
    heads = [f"torch {span}" for span, _ in table.columns]
    lines = [
        f"| {_format_cell(table.package)} | {' | '.join(heads)} |",
        f"|---|{':-:|' * len(heads)}",
        *(f"| {_format_cell(str(span))} | {' | '.join(marks)} |" for span, marks in table.merged()),
        "",
        LEGEND,
    ]
    unjudged = [f"- {_format_cell(str(span))}: {_format_cell(reason)}" for span, reason in table.unjudged()]
    return "\n".join([*lines, *(["", *unjudged] if unjudged else [])]) + "\n"


def _format_cell(text: str) -> str:
    return "".join(f"\\{character}" if character in "\\|`*_[]<>&#" else character for character in clean(text))


def render_page(table: VersionTable) -> str:
    """Return the table as one HTML page that needs no other file."""
    heads = "".join(
        f'<th scope="col" class="release"><button>{escaped(str(span))}</button></th>' for span, _ in table.columns
    )
    rows = "".join(
        f'<tr><th scope="row">{escaped(str(span))}</th>{"".join(map(_html_cell, marks))}</tr>'
        for span, marks in table.merged()
    )
    unjudged = "".join(f"<li>{escaped(f'{span}: {reason}')}</li>" for span, reason in table.unjudged())
    parts = (
        '<div class="scroll" tabindex="0" role="region" aria-label="versions by releases"><table><thead><tr>'
        f'<th scope="col"><button>version</button></th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        + (f"<h2>Not checked</h2><ul>{unjudged}</ul>" if unjudged else "")
    )
    return fill_page(f"{table.package} by releases of torch", (), [parts], LEGEND)


def _html_cell(mark: str) -> str:
    return f'<td class="{CLASSES[mark]}" data-verdict="{CLASSES[mark]}">{mark}</td>'
