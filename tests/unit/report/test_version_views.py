"""The table of ``matrix --versions`` as Markdown, read by markdown-it as GitHub does, and as a page."""

from __future__ import annotations

import re

import pytest

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


def test_the_exit_code_is_3_if_a_verdict_is_unknown() -> None:
    assert TABLE.exit_code == 0
    row = VersionRow(version="3.0", verdicts=(WORKS, WORKS, WORKS, UNKNOWN))
    assert VersionTable(package="p", system="", releases=TABLE.releases, rows=(row,)).exit_code == 3
