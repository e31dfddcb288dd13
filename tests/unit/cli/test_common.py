"""What all commands share: a report is written, or an error that cannot be mistaken for a finding."""

from __future__ import annotations

import io
import sys
import time

import pytest

from abiscan.cli import common
from abiscan.inputs import tracing


def test_a_bug_in_a_view_is_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 means a finding; whatever breaks while a report is written must not look like one."""

    class Broken:
        def to_json(self) -> str:
            raise KeyError("of the view")

    with pytest.raises(SystemExit) as ended:
        common.write_result(Broken(), "json", None, {})
    assert ended.value.code == 3
    assert "internal error, please report it: KeyError: 'of the view'" in capsys.readouterr().err


def test_the_runner_sees_no_command_however_the_lines_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub's runner obeys a line that begins with two colons."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    with common.output_to(None) as stream:
        for part in ("first\n::er", "ror::second\nthi", "rd"):
            stream.write(part)
    first, second, third = written.getvalue().split("\n")
    assert (first, third) == ("first", "third")
    assert "error::second" in second
    assert not second.startswith("::")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "trace", "shown"),
    [
        (Terminal(), None, True),
        (Terminal(), "f", True),
        (Terminal(), tracing.STDERR, False),
        (io.StringIO(), "", False),
    ],
)
def test_progress_is_for_terminals_that_show_nothing_else(
    stream: io.StringIO, trace: str | None, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(tracing, "trace_destination", lambda: trace)
    monkeypatch.setattr(common, "_PATIENCE_SECONDS", 0)
    monkeypatch.setenv("TERM", "xterm")
    with common.show_progress("at first"):
        end = time.monotonic() + 60
        while shown and "at first" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.001)
    assert ("at first" in stream.getvalue()) is shown
