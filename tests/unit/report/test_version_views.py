"""The table of ``matrix --versions`` as Markdown, read by markdown-it as GitHub does, and as a page."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from abiscan.report import versions_text
from abiscan.results.package import PackageVerdict
from abiscan.results.versions import VersionRow, VersionTable

WORKS, FAILS, UNKNOWN = PackageVerdict.WORKS, PackageVerdict.IMPORT_FAILS, PackageVerdict.UNKNOWN
TABLE = VersionTable(
    package="a_pack_age",
    system="cp312 on linux",
    releases=("2.7.0", "2.7.1", "2.8.0", "2.9.0"),
    rows=(
        VersionRow(version="3.0", verdicts=(FAILS, FAILS, FAILS, WORKS)),
        VersionRow(version="2.1", verdicts=(WORKS, WORKS, FAILS, None)),
        VersionRow(version="2.0", verdicts=(WORKS, WORKS, FAILS, None)),
        VersionRow(version="1.0", reason="has [no] wheel | <b>"),
    ),
)


def test_neighbours_with_the_same_answers_are_one() -> None:
    markdown_it = pytest.importorskip("markdown_it", reason="needs markdown-it")
    html = markdown_it.MarkdownIt("commonmark").enable("table").render(versions_text.render_markdown(TABLE))
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)]
    assert rows == [
        ["a_pack_age", "torch 2.7.0 - 2.7.1", "torch 2.8.0", "torch 2.9.0"],
        ["3.0", "✗", "✗", "✓"],
        ["2.1 - 2.0", "✓", "✗", "·"],
    ]
    assert re.findall(r"<li>(.*?)</li>", html) == ["1.0: has [no] wheel | &lt;b&gt;"]
    assert "<li>" not in versions_text.render_markdown(VersionTable(package="p", system="", releases=(), rows=()))


def test_columns_that_a_terminal_has_no_room_for_come_below() -> None:
    def lines(width: int) -> list[str]:
        stream = io.StringIO()
        versions_text.render_table(TABLE, Console(file=stream, width=width))
        return stream.getvalue().splitlines()

    whole = [
        "a_pack_age by releases of torch, for cp312 on linux",
        "           2.7.0 - 2.7.1  2.8.0  2.9.0",
        "3.0              ✗          ✗      ✓",
        "2.1 - 2.0        ✓          ✗      ·",
        versions_text.LEGEND,
        "1.0: has [no] wheel | <b>",
    ]
    assert lines(80) == lines(38) == whole
    assert lines(37)[1:7] == [
        *("           2.7.0 - 2.7.1  2.8.0", "3.0              ✗          ✗", "2.1 - 2.0        ✓          ✗"),
        *("           2.9.0", "3.0          ✓", "2.1 - 2.0    ·"),
    ]
    assert [line.strip() for line in lines(5) if "2." in line and "-" not in line] == ["2.8.0", "2.9.0"]


def test_the_exit_code_is_3_if_a_verdict_is_unknown() -> None:
    assert TABLE.exit_code == 0
    row = VersionRow(version="3.0", verdicts=(WORKS, WORKS, WORKS, UNKNOWN))
    assert VersionTable(package="p", system="", releases=TABLE.releases, rows=(row,)).exit_code == 3
