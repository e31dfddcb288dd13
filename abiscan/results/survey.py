"""The results of ``abiscan survey``: one line of JSON for each target and torch. Their schema is ``survey-v1.json``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct

import abiscan
from abiscan.binary.elf import Machine
from abiscan.cpu.needs import summary
from abiscan.findings import Effect
from abiscan.results.check import Report, report_json
from abiscan.results.document import json_text
from abiscan.results.verdict import Verdict
from abiscan.words import first_line

UNREADABLE = "unreadable"
"""The verdict on a target that cannot be read."""

NO_EXTENSION = "no-extension"
"""The verdict on a target in which nothing uses torch."""

SIGNS: Final = {
    "works": "✓",
    "loads": "✓",
    "works-without": "◐",
    "corrupts": "✗",
    "import-fails": "✗",
    "fails": "✗",
    "unknown": "?",
    UNREADABLE: "!",
    NO_EXTENSION: "·",
}
"""The sign of each verdict in a table."""

LEGEND: Final = "✓ works, ◐ works without a part, ✗ fails, ? unknown, ! cannot be read, · does not use torch"

_WORST_FIRST: Final = (Verdict.FAILS, Verdict.CORRUPTS, Verdict.UNKNOWN, Verdict.LOADS)


class SurveyResult(Struct, frozen=True, kw_only=True):
    """One target on one torch: a report with at most one package.

    Nothing in it depends on when or how fast the answer was found. ``sha256`` is that of the target, if it is one file.
    """

    target: str
    sha256: str | None
    torch: str
    report: Report

    def to_line(self) -> str:
        """Return the line of JSON, version 1, with its newline."""
        from abiscan.results.check_document import SurveyJson

        report = report_json(self.report)
        line = SurveyJson.of(
            self,
            exit_code=self.report.exit_code(),
            package=next(iter(report.packages), None),
            results=report.results,
            unchecked=next(iter(report.unchecked), None),
        )
        return json_text(line, indent=0)

    @property
    def verdict(self) -> str:
        """That on the package; without one, the worst on its files."""
        # At most one: a line is about one target.
        for target in self.report.unchecked:
            if target.stopped:
                return Verdict.UNKNOWN.value
            return NO_EXTENSION if target.readable else UNREADABLE
        for package in self.report.packages:
            return package.verdict.value
        verdicts = {result.verdict for result in self.report.results}
        return next((verdict.value for verdict in _WORST_FIRST if verdict in verdicts), NO_EXTENSION)


class SurveyEntry(Struct, frozen=True, kw_only=True):
    """What a summary shows of one line. ``rules`` are those with a harmful finding, ``says`` what users see first.

    ``cpu`` is what extensions need of the processor to be loaded; None if they need nothing, or it was not read.
    """

    target: str
    sha256: str | None
    torch: str
    name: str
    release: str | None
    verdict: str
    exit_code: int
    exception: str | None
    says: str | None
    rules: tuple[str, ...]
    cpu: str | None = None

    @classmethod
    def read(cls, line: str) -> SurveyEntry:
        """Return the entry of a line.

        :raises ValueError: it is not a line of a survey of this version of abiscan
        """
        fields = json.loads(line)
        try:
            # Answers of another version may differ in anything, and a file with both would contradict itself.
            if fields["version"] != 1 or fields["tool"] != {"name": "abiscan", "version": abiscan.__version__}:
                raise ValueError("another version of abiscan wrote it")
            package = fields["package"] or {}
            error = package.get("error") or {}
            return cls(
                target=fields["target"],
                sha256=fields["sha256"],
                torch=fields["torch"],
                name=package.get("name") or fields["target"],
                release=package.get("version"),
                verdict=fields["verdict"],
                exit_code=fields["exit_code"],
                exception=error.get("exception"),
                says=_quote_first(fields),
                rules=tuple(dict.fromkeys(_violated_rules(fields))),
                cpu=_find_cpu(fields),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("it is not a line of a survey") from error


def _quote_first(fields: Mapping[str, Any]) -> str | None:
    if unchecked := fields["unchecked"]:
        return first_line(unchecked["problem"])
    if package := fields["package"]:
        error = package["error"] or {}
        # The cause rather than the message: it is the same for all packages that fail for it.
        return first_line(error.get("cause") or error.get("message") or "") or next(iter(package["gaps"]), None)
    errors = (result["predicted_error"] for result in fields["results"])
    return next((first_line(error["message"]) for error in errors if error), None)


def _find_cpu(fields: Mapping[str, Any]) -> str | None:
    needs = [result["cpu"] for result in fields["results"] if result.get("cpu")]
    features = tuple(sorted({feature for need in needs for feature in need["load"]}))
    has_level = any(need["level"] for need in needs)  # only those of x86-64 have levels
    return (summary(Machine.X86_64, features) if has_level else " and ".join(features)) or None


def _violated_rules(fields: Mapping[str, Any]) -> Iterator[str]:
    # Libraries that the import does not use are no reason for its verdict.
    unused = {library["path"] for library in (fields["package"] or {}).get("libraries", ()) if library["used"] is False}
    results = (result for result in fields["results"] if result["path"] not in unused)
    findings = (finding for part in (*results, fields["package"] or {}) for finding in part.get("findings", ()))
    for finding in findings:
        if Effect(finding["effect"]).severity >= Effect.CALL_FAILS.severity:
            yield finding["rule"]


class SurveyCause(Struct, frozen=True, kw_only=True):
    """What keeps targets from working: a rule (None if it was none) and the first line of what users see.

    ``count`` is the number of answers with it, ``example`` one of their targets.
    """

    rule: str | None
    says: str
    count: int
    example: str


class SurveySummary(Struct, frozen=True, kw_only=True):
    """All lines of a survey. ``rows`` has the entries of each target by torch; ``causes`` begins with the commonest."""

    torches: tuple[str, ...]
    rows: tuple[Mapping[str, SurveyEntry], ...]
    causes: tuple[SurveyCause, ...]

    @classmethod
    def of(cls, entries: Iterable[SurveyEntry]) -> SurveySummary:
        """Return the summary of a survey, sorted by the names of the targets."""
        torches: dict[str, None] = {}
        rows: dict[str, dict[str, SurveyEntry]] = {}
        counts: Counter[tuple[str | None, str]] = Counter()
        examples: dict[tuple[str | None, str], str] = {}
        for entry in entries:
            torches[entry.torch] = None
            rows.setdefault(entry.target, {})[entry.torch] = entry
        # By name, so that the example of a cause does not depend on the order in which answers came.
        for _, row in sorted(rows.items()):
            for entry in row.values():
                if entry.exit_code and entry.says:
                    cause = next(iter(entry.rules), None), entry.says
                    counts[cause] += 1
                    examples.setdefault(cause, entry.target)
        commonest = sorted(counts, key=lambda cause: (-counts[cause], cause[1], cause[0] or ""))
        return cls(
            torches=tuple(torches),
            rows=tuple(row for _, row in sorted(rows.items())),
            causes=tuple(
                SurveyCause(rule=rule, says=says, count=counts[rule, says], example=examples[rule, says])
                for rule, says in commonest
            ),
        )

    @property
    def titled(self) -> Iterator[tuple[str, Mapping[str, SurveyEntry]]]:
        """The rows, each with its package and version; with its file if several have these."""
        firsts = [next(iter(row.values())) for row in self.rows]
        counts = Counter((entry.name, entry.release) for entry in firsts)
        for entry, row in zip(firsts, self.rows, strict=True):
            is_clear = entry.release and counts[entry.name, entry.release] == 1
            yield f"{entry.name} {entry.release}" if is_clear else PurePath(entry.target).name, row

    @property
    def entries(self) -> Iterator[SurveyEntry]:
        """All of them, by target."""
        return (entry for row in self.rows for entry in row.values())

    @property
    def counts(self) -> Mapping[str, int]:
        """How many answers there are of each verdict, in the order of ``SIGNS``."""
        result = Counter(entry.verdict for entry in self.entries)
        return {verdict: result[verdict] for verdict in SIGNS if result[verdict]}

    @property
    def exit_code(self) -> int:
        """The worst of all answers, where 1 is worse than 2, and 2 worse than 3."""
        result = {entry.exit_code for entry in self.entries}
        return next((code for code in (1, 2, 3) if code in result), 0)
