from __future__ import annotations

import io
from typing import Final

import pytest
from rich.console import Console
from rich.text import Text

from abiscan.cli.common import make_console
from abiscan.report.line import Page, PlainPage, StyledLine, is_plain, wrapped

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


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("", [""]),
        ("one line of thirty characters.", ["one line of thirty characters."]),
        ("a line that is longer than thirty characters", ["a line that is longer than", "  thirty characters"]),
        ("  = fix: install a build of it made for torch", ["  = fix: install a build of it", "      made for torch"]),
        # A symbol stays whole, for the terminal to break; so does the indent that was there.
        ("      _ZN2at4_ops5zeros4callEN3c108ArrayRef", ["      _ZN2at4_ops5zeros4callEN3c108ArrayRef"]),
        ("see _ZN2at4_ops5zeros4callEN3c108ArrayRef", ["see", "  _ZN2at4_ops5zeros4callEN3c108ArrayRef"]),
        ("漢字漢字漢字漢字漢字漢字 漢字漢字", ["漢字漢字漢字漢字漢字漢字", "  漢字漢字"]),
    ],
)
def test_a_line_is_broken_between_words(line: str, lines: list[str]) -> None:
    assert wrapped(Text(line), 30).plain.split("\n") == lines


def test_styles_stay_where_they_are() -> None:
    broken = wrapped(Text.assemble(("error[rule]", "red"), (": what is wrong with it", "bold")), 20)
    assert [(broken.plain[span.start : span.end], span.style) for span in broken.spans] == [
        ("error[rule]", "red"),
        (": what is", "bold"),
        ("wrong with it", "bold"),
    ]


def test_lines_are_broken_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    line = StyledLine("word " * 40)
    for stream, count in ((Terminal(), 3), (io.StringIO(), 1)):
        for setting in ("", "1"):
            monkeypatch.setenv("FORCE_COLOR", setting)
            make_console(stream).print(line, soft_wrap=True)
            assert stream.getvalue().count("\n") == count
            make_console(stream).print(line, soft_wrap=True, no_wrap=True)  # a command
            assert stream.getvalue().count("\n") == count + 1
            stream.seek(0)
            stream.truncate()
