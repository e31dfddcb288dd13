"""The summary of a survey as Markdown, read by markdown-it as GitHub does, and as a page."""

from __future__ import annotations

import re

import pytest

from abiscan.report import survey_html, survey_markdown
from abiscan.results.survey import SurveyEntry, SurveySummary


def entry(name: str, torch: str, verdict: str, release: str | None = None, **fields: object) -> SurveyEntry:
    target = f"/wheels/{name}-{release}.whl"
    rest = {"exit_code": 0, "exception": None, "says": None, "rules": (), **fields}
    return SurveyEntry(target=target, sha256=None, torch=torch, name=name, release=release, verdict=verdict, **rest)  # type: ignore[arg-type]


SYMBOL = "undefined symbol: f | <g>"
SUMMARY = SurveySummary.of(
    [
        entry("vision", "2.12.0", "works", "1.0"),
        entry("vision", "2.13.0", "fails", "1.0", exit_code=1, says=SYMBOL, rules=("undefined-symbol", "other-rule")),
        entry("audio", "2.13.0", "import-fails", "2.0", exit_code=1, says=SYMBOL, rules=("undefined-symbol",)),
        entry("text", "2.12.0", "unreadable", exit_code=2, says="is truncated"),
        entry("text", "2.13.0", "unknown", exit_code=3),
    ]
)


def test_markdown_has_a_table_of_causes_and_one_of_targets() -> None:
    markdown_it = pytest.importorskip("markdown_it", reason="needs markdown-it")
    html = markdown_it.MarkdownIt("commonmark").enable("table").render(survey_markdown.render_markdown(SUMMARY))
    tables = [
        [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)]
        for table in re.findall(r"<table>(.*?)</table>", html, re.DOTALL)
    ]

    symbol = "<code>undefined symbol: f | &lt;g&gt;</code>"
    causes, targets = tables
    assert html.startswith("<p>1 works, 1 import-fails, 1 fails, 1 unknown, 1 unreadable</p>")
    assert causes == [
        ["answers", "rule", "what users see", "for example"],
        ["2", "undefined-symbol", symbol, "<code>/wheels/audio-2.0.whl</code>"],
        ["1", "", "<code>is truncated</code>", "<code>/wheels/text-None.whl</code>"],
    ]
    assert sorted(targets[1:]) == [
        ["<code>audio 2.0</code>", "", "✗"],
        ["<code>text-None.whl</code>", "!", "?"],
        ["<code>vision 1.0</code>", "✓", "✗"],
    ]
    assert targets[0] == ["target", "2.12.0", "2.13.0"]


@pytest.mark.parametrize(
    ("docs", "rule"),
    [
        ("https://example.org/d", '<a href="https://example.org/d/rules/undefined-symbol.md">undefined-symbol</a>'),
        (None, "undefined-symbol"),
    ],
)
def test_a_page_has_a_cell_for_each_torch_and_a_link_where_it_leads(
    docs: str | None, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ABISCAN_DOCS", raising=False)
    if docs:
        monkeypatch.setenv("ABISCAN_DOCS", docs)
    page = survey_html.render_page(SUMMARY)

    verdicts = {
        name: re.findall(r'<td class="\w+" data-verdict="(\w+)">(?:<span[^>]*>(.)</span>)?</td>', cells)
        for name, cells in re.findall(r'<tr><th scope="row"[^>]*>(.*?)</th>(.*?)</tr>', page)
    }
    assert [sign for _, sign in verdicts["audio 2.0"]] == ["", "✗"]
    assert [sign for _, sign in verdicts["vision 1.0"]] == ["✓", "✗"]
    assert [verdict for verdict, _ in verdicts["audio 2.0"]] == ["none", "fails"]
    assert 'aria-label="fails on torch 2.13.0: undefined symbol: f | &lt;g&gt;"' in page
    assert 'aria-label="unknown on torch 2.13.0"' in page
    assert f"<tr><td>2</td><td>{rule}</td><td>undefined symbol: f | &lt;g&gt;</td><td>audio-2.0.whl</td></tr>" in page
    assert "<tr><td>1</td><td></td><td>is truncated</td><td>text-None.whl</td></tr>" in page
    assert "causes" not in survey_html.render_page(SurveySummary.of([entry("vision", "2.12.0", "works", "1.0")]))
