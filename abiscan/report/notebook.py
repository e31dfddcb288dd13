"""Results as a table of HTML, which notebooks show in the place of a repr."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from abiscan.report.page import escaped
from abiscan.results.check import Report
from abiscan.results.matrix import Matrix, format_cell, name_of_row


def report_table(report: Report) -> str:
    """Return a row for each answer, and for each target without one."""
    rows = [
        (entry.title, entry.torch, entry.verdict.replace("-", " "), entry.error or "", entry.fix or "")
        for entry in report.answers
    ]
    rows += [(target.target, "", "", target.said, "") for target in report.unchecked]
    return _make_table(("", "torch", "verdict", "error", "fix"), rows)


def matrix_table(matrix: Matrix) -> str:
    """Return a row for each package, and for each file that belongs to none, with its signs."""
    columns = matrix.columns
    rows = [(name_of_row(row), *(format_cell(row, column) for column in columns)) for row in matrix.whole_rows]
    return _make_table(("", *(column.release for column in columns)), rows)


def _make_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escaped(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
