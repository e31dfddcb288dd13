"""The report as GitHub annotations: workflow commands on stdout, and verdicts for those who read the log.

GitHub shows the first ten annotations of each level in a step, so one stands for all findings of a rule in a target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from abiscan.findings import Effect, Finding
from abiscan.report.lock_text import change_sentence, comparison_lines
from abiscan.report.sarif import level_of
from abiscan.report.text import format_verdict
from abiscan.results.answers import ReportAnswer, answers_of
from abiscan.results.check import Report, Result
from abiscan.results.lock import LockComparison
from abiscan.results.package import PackageVerdict
from abiscan.results.verdict import Verdict
from abiscan.words import clean, first_line, listed, plural, without_commands

_COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}
_ANNOTATIONS: Final = 10  # of each level in a step: GitHub's "Workflow annotation limits"
_SHOWN: Final = 5


class _Annotation(Struct, frozen=True, kw_only=True):
    command: str
    target: str | None
    title: str
    text: str

    def __str__(self) -> str:
        file = f"file={_escape_property(self.target)}," if self.target is not None else ""
        # ``::error file=…,title=…::text``, in the documentation of GitHub "Workflow commands".
        line = f"{self.command} {file}title={_escape_property(f'abiscan {self.title}')}::{_escape_data(self.text)}"
        return f"::{without_commands(line)}"


def render_annotations(report: Report) -> str:
    """Return the annotations, the most severe first, then one line per verdict."""
    # The order matters twice: within a level it is kept, and GitHub drops what comes after the tenth.
    answers = list(answers_of(report))
    annotations = [*_of_unread(report), *_of_packages(answers), *_of_findings(report), *_of_gaps(report)]
    lines = [str(shown) for command in _COMMANDS.values() for shown in _limit_annotations(annotations, command)]
    verdicts = [format_verdict(entry).plain for entry in answers]
    verdicts += (clean(str(target)) for target in report.unchecked if target.readable)
    # Names come from files, and a line that begins with "::" would be a command to the runner.
    lines += map(without_commands, verdicts)
    return "".join(f"{line}\n" for line in lines)


def render_lock_annotations(comparison: LockComparison) -> str:
    """Return an annotation for each change of a lock that makes something worse, or of which nothing is known; then
    everything for those who read the log.
    """
    kinds = (("error", comparison.worse), ("warning", comparison.unknown))
    annotations = [
        _Annotation(
            command=command,
            target=comparison.new,
            title=change.name,
            text="\n".join(filter(None, (change_sentence(change, comparison), first_line(change.error or "")))),
        )
        for command, changes in kinds
        for change in changes
    ]
    lines = [str(shown) for command in _COMMANDS.values() for shown in _limit_annotations(annotations, command)]
    lines += (without_commands(clean(line)) for line in comparison_lines(comparison))
    return "".join(f"{line}\n" for line in lines)


def _limit_annotations(annotations: Iterable[_Annotation], command: str) -> list[_Annotation]:
    """Return those of one level; if there are too many, the last one says how many are missing, and of which
    targets.
    """
    requested = [annotation for annotation in annotations if annotation.command == command]
    if len(requested) <= _ANNOTATIONS:
        return requested
    # One of the ten places goes to the line about the others.
    hidden = requested[_ANNOTATIONS - 1 :]
    targets = listed(dict.fromkeys(annotation.target or "" for annotation in hidden), _SHOWN)
    text = f"{len(hidden)} more, which GitHub would not show: see the log\n{targets}"
    return [
        *requested[: _ANNOTATIONS - 1],
        _Annotation(command=command, target=None, title="more findings", text=text),
    ]


def _of_unread(report: Report) -> Iterator[_Annotation]:
    for target in report.unchecked:
        if not target.readable:
            text = f"{target.problem}\nfix: {target.fix}" if target.fix else target.problem
            yield _Annotation(command="error", target=target.target, title="cannot read", text=text)


def _of_packages(answers: Iterable[ReportAnswer]) -> Iterator[_Annotation]:
    """Yield one for each package that does not simply work, with what is behind that."""
    for entry in answers:
        # By the default of --fail-on: the level of an annotation does not depend on the exit code that a job asked for.
        fails, package = entry.fails(), entry.package
        if package and (package.verdict is not PackageVerdict.WORKS or package.unmet or fails):
            result = [cause.finding for cause in entry.causes if cause.harmful or not fails]
            lines = [package.summary, *([entry.cause] if entry.cause else [])]
            lines += _shorten_texts(f"{finding.rule}: {finding.message}" for finding in result)
            lines += [f"fix: {finding.fix}" for finding in result[:1]]
            command = "error" if fails else "warning"
            yield _Annotation(command=command, target=package.target, title=package.subject, text="\n".join(lines))


def _of_findings(report: Report) -> Iterator[_Annotation]:
    groups: dict[tuple[str, Effect, str], list[tuple[Result, Finding]]] = {}
    for result in report.alone:
        for finding in result.findings:
            groups.setdefault((result.target, finding.effect, finding.rule), []).append((result, finding))
    for (target, effect, rule), item in sorted(groups.items(), key=lambda group: -group[0][1].severity):
        command = _COMMANDS[level_of(effect)]
        yield _Annotation(command=command, target=target, title=rule, text="\n".join(_finding_lines(item)))


def _finding_lines(reported: Sequence[tuple[Result, Finding]]) -> Iterator[str]:
    """Yield what several results have to say about one rule, each thing once."""
    errors = (
        str(result.predicted_error)
        for result, finding in reported
        if result.predicted_error and finding.effect in (Effect.LOAD_FAILS, Effect.ABORTS)
    )
    yield from _shorten_texts(f"{result.path}: {finding.message}" for result, finding in reported)
    yield from _shorten_texts(f"fix: {finding.fix}" for _, finding in reported)
    yield from _shorten_texts(errors)


def _of_gaps(report: Report) -> Iterator[_Annotation]:
    """Yield what is unknown because of gaps; those of other verdicts are in the other formats."""
    unknown: dict[str, list[Result]] = {}
    for result in report.alone:
        if result.verdict is Verdict.UNKNOWN:
            unknown.setdefault(result.target, []).append(result)
    for target, results in unknown.items():
        text = "\n".join(_shorten_texts(f"{result.path}: {gap.reason}" for result in results for gap in result.gaps))
        yield _Annotation(command="warning", target=target, title="gap", text=text)


def _shorten_texts(texts: Iterable[str]) -> list[str]:
    different = list(dict.fromkeys(texts))
    hidden = len(different) - _SHOWN
    return [*different[:_SHOWN], *([f"and {plural(hidden, 'other')}"] if hidden > 0 else [])]


# A value ends at a colon or a comma, the text only at the end of the line: so they are escaped differently.
# The escapes of the runner (actions/toolkit, command.ts).


def _escape_data(text: str) -> str:
    lines = (clean(line) for line in text.splitlines())
    return "%0A".join(line.replace("%", "%25") for line in lines)


def _escape_property(text: str) -> str:
    return clean(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
