"""Results as tables of HTML, for notebooks."""

from __future__ import annotations

import re

from abiscan.report.notebook import matrix_table, report_table
from abiscan.results.check import Report
from abiscan.results.matrix import Matrix
from abiscan.results.unchecked import Unchecked
from tests.unit.report.reports import failure, result
from tests.unit.report.test_matrix_text import package, row


def cells(table: str) -> list[list[str]]:
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", line) for line in re.findall(r"<tr>(.*?)</tr>", table)]


def test_a_report_has_a_row_for_each_answer_and_each_target_without_one() -> None:
    unread = Unchecked(target="n.whl", problem="is <none>", fix="use it", readable=False)
    head, fails, loads, without = cells(report_table(Report(results=(failure(), result()), unchecked=(unread,))))
    assert head == ["", "torch", "verdict", "error", "fix"]
    assert fails[1:4] == ["torch 2.9.1+cpu", "fails", "_C.so: undefined symbol: f"]
    assert loads[1:4] == ["torch 2.9.1+cpu", "loads", ""]
    assert without == ["n.whl", "", "", "is &lt;none&gt; (use it)", ""]


def test_a_matrix_has_the_rows_that_count() -> None:
    matrix = Matrix(
        rows=(row(), row("lone.so", "b.so")), packages=(package(),), releases=("2.7.1", "2.8.0", "2.9.1", "2.10.0"),
        suggestions={},
    )  # fmt: skip
    assert cells(matrix_table(matrix)) == [
        ["", "2.7.1", "2.8.0", "2.9.1", "2.10.0"],
        ["a 1.0", "✗", "✓", "◐", "·"],
        ["lone.so", "✗", "✓", "✓", "·"],
    ]
