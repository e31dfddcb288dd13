"""The lines of a trace."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from abiscan.cache.result_cache import answer, answer_by_content
from abiscan.inputs import tracing


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("maps _C.so", "linkage: maps _C.so"),
        ("maps a\nrules: b", r"linkage: maps a\x0arules: b"),
        ("\x1b[2J\r\x9b", r"linkage: \x1b[2J\x0d\x9b"),
        ("\u202e\u2028\udc80", r"linkage: \u202e\u2028\udc80"),
        ("x" * 3_000, f"linkage: {'x' * 2_000}…"),
    ],
)
def test_a_line_is_one_line(message: str, line: str) -> None:
    assert tracing.format_line("abiscan.linkage", message) == line


def test_it_is_on_while_somebody_listens(tmp_path: Path) -> None:
    assert not tracing.is_on()
    with tracing.trace_to(str(tmp_path / "trace")):
        assert tracing.is_on()
        assert tracing.trace_destination() == str(tmp_path / "trace")
        logging.getLogger("abiscan.rules").debug("asks %s", "one")
    logging.getLogger("abiscan.rules").debug("asks %s", "another")
    assert not tracing.is_on()
    assert tracing.trace_destination() is None
    assert (tmp_path / "trace").read_text("utf-8") == "rules: asks one\n"


def test_kept_answers_are_not_used(tmp_path: Path) -> None:
    asked: list[str] = []

    def find() -> str:
        asked.append("")
        return "found"

    def ask() -> None:
        assert answer(tmp_path, ["question"], find, []) == "found"
        assert answer_by_content(tmp_path, "0" * 64, ["question"], find) == "found"

    ask()
    ask()
    assert len(asked) == 2
    with tracing.trace_to(str(tmp_path / "trace")):
        ask()
    assert len(asked) == 4
