from __future__ import annotations

import io
import itertools
import random
from typing import Final

import pytest
from rich.console import Console

from abiscan.report.line import PlainPage
from abiscan.report.marks import STYLES
from abiscan.report.table import StyledTable

NAMES: Final = ("torchvision 0.28.0", "a/_C.so", "x", "two words  apart ")
HEADERS: Final = ("2.13.0", "1.4.0\n- 2.12.1", "2.9.0+cu128", "")


def rich_lines(table: StyledTable, width: int) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, highlight=False, width=width)
    console.print(table)
    return stream.getvalue().split("\n")[:-1]


def table(number: int) -> StyledTable:
    chance = random.Random(number)
    columns = chance.choices(HEADERS, k=chance.randint(1, 7))
    cells = [f"{sign}{end}" for sign, end in itertools.product(STYLES, ("", "*", " CUDA", "* CPU, XPU"))]
    rows = [(chance.choice(NAMES), chance.choices(cells, k=len(columns))) for _ in range(chance.randint(1, 4))]
    return StyledTable(columns=columns, rows=rows, name_width=chance.choice((1, 10, 30)))


@pytest.mark.parametrize("width", [30, 80, 200])
def test_a_plain_table_is_what_rich_prints(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    plain = [
        (lines, rich_lines(table(number), width)) for number in range(40) if (lines := table(number).plain_lines(width))
    ]
    assert plain or width == 30
    for lines, expected in plain:
        assert lines == expected


@pytest.mark.parametrize(
    "table",
    [
        StyledTable(columns=["2.13.0"], rows=[("漢字", ["✓"])], name_width=1),
        StyledTable(columns=["2.13.0"], rows=[("a\tb", ["✓"])], name_width=1),
        StyledTable(columns=["[red]2[/]"], rows=[("a", ["✓"])], name_width=1),
        StyledTable(columns=[":smile:"], rows=[("a", ["✓"])], name_width=1),
        StyledTable(columns=["2.13.0"] * 9, rows=[("a", ["✓"] * 9)], name_width=1),
    ],
)
def test_what_only_rich_can_lay_out_it_does(table: StyledTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = io.StringIO()
    assert table.plain_lines(60) is None
    PlainPage(stream, lambda output: Console(file=output, highlight=False)).print(table)
    assert stream.getvalue().split("\n")[:-1] == rich_lines(table, 60)


def test_a_plain_table_needs_no_console() -> None:
    def console(_stream: object) -> Console:
        raise AssertionError("nothing needs it")

    stream = io.StringIO()
    page = PlainPage(stream, console)
    page.print(StyledTable(columns=["1.4.0\n- 2.12.1", "2.13.0"], rows=[("a", ["✗", "✓ CUDA"])], name_width=3))
    page.print()
    assert stream.getvalue().split("\n") == [
        "       1.4.0           ",
        "      - 2.12.1   2.13.0",
        "a        ✗       ✓ CUDA",
        "",
        "",
    ]


@pytest.mark.parametrize("columns", ["", "37", "0", "x"])
def test_a_plain_page_is_as_wide_as_a_console(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    stream = io.StringIO()
    assert PlainPage(stream, lambda output: Console(file=output)).width == Console(file=stream).width
