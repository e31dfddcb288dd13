"""The report as GitHub annotations: workflow commands on stdout, and verdicts for those who read the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.findings import Effect, Finding
from abiscan.report.characters import clean
from abiscan.report.sarif import level
from abiscan.report.text import verdict
from abiscan.results.check import Report, Result

_COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report) -> str:
    """One command per finding, one line per verdict."""
    return "".join(f"{line}\n" for result in report.results for line in _lines(result))


def _lines(result: Result) -> Iterator[str]:
    for finding in result.findings:
        yield _command(_COMMANDS[level(finding.effect)], result, finding)
    for gap in result.gaps:
        if not result.findings:
            text = _data(f"{result.path}: {gap.reason}")
            yield f"::warning file={_property(result.target)},title=abiscan gap::{text}"
    # A log line that starts with :: would also be a command.
    yield verdict(result).plain.lstrip(" :")


def _command(name: str, result: Result, finding: Finding) -> str:
    title = f"abiscan {finding.rule}"
    text = f"{result.path}: {finding.message}\nfix: {finding.fix}"
    error = result.predicted_error
    if error and finding.effect in (Effect.LOAD_FAILS, Effect.ABORTS):
        text += f"\n{error}"
    return f"::{name} file={_property(result.target)},title={_property(title)}::{_data(text)}"


# The escapes of the runner (actions/toolkit, command.ts).


def _data(text: str) -> str:
    lines = (clean(line) for line in text.splitlines())
    return "%0A".join(line.replace("%", "%25") for line in lines)


def _property(text: str) -> str:
    return clean(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
