from __future__ import annotations

import io
from typing import Final

import pytest
from rich.console import Console

from abiscan.report.line import Page, PlainPage, StyledLine, is_plain

LINES: Final = (
    StyledLine(),
    StyledLine("plain"),
    StyledLine(("error[rule]", "bold red"), (": what is wrong [red]", "bold"), " ", style="dim"),
    StyledLine("long " * 60),
    StyledLine("wide: 漢字, :smile: ", ("…", "yellow")),
    StyledLine("a\tb\x07c\rd\ne"),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def console(stream: io.TextIOBase | object) -> Console:
    return Console(file=stream, highlight=False)  # type: ignore[arg-type]


def printed(page: Page, stream: io.StringIO) -> str:
    for line in LINES:
        page.print(line, soft_wrap=True)
    return stream.getvalue()


def test_a_plain_page_prints_what_rich_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    plain, rich = io.StringIO(), io.StringIO()
    assert is_plain(plain)
    text = printed(console(rich), rich)
    assert printed(PlainPage(plain, console), plain) == text
    assert "error[rule]: what is wrong [red] \n" in text


@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_where_rich_writes_styles_a_page_is_not_plain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_plain(Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(name, "1")
    stream = io.StringIO()
    assert not is_plain(stream)
    assert "\x1b[1;2;31merror[rule]\x1b[0m" in printed(console(stream), stream)


def test_a_line_grows() -> None:
    line = StyledLine(("works", "green"))
    line.append(" on torch")
    assert (line.plain, len(line)) == ("works on torch", 14)
