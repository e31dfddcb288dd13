"""Findings that the user accepts: a baseline, and the suppressions in ``pyproject.toml``.

They change the exit code, not the verdict, and every report shows a suppressed finding as such.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fnmatch
import gc
import json
import os
import posixpath
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec.structs
from msgspec import Struct

from abiscan.errors import InputError
from abiscan.findings import Finding
from abiscan.inputs import observed_fs
from abiscan.results.check import Report, Result, Suppressed
from abiscan.words import listed

_IN_BASELINE: Final = "in the baseline"
_FIELDS: Final = {"rule", "target", "reason", "until"}
_EXAMPLE: Final = '{rule = "undefined-symbol", target = "*/_C.so", reason = "why", until = 2027-01-31}'


class Suppression(Struct, frozen=True, kw_only=True):
    """One entry of ``suppress``.

    :param target: a pattern (``*``, ``?``, ``[…]``) for the path of the extension inside its target, or for the name of
        the target
    :param until: the last day on which it applies
    :param source: the file that it stands in
    """

    rule: str
    target: str
    reason: str
    until: dt.date
    source: str | None = None

    def covers(self, result: Result, finding: Finding) -> bool:
        """Whether it applies to this finding."""
        # A pattern may mean the extension or what it is in, with or without folders: a wheel lies elsewhere in each
        # job.
        names = (result.path, result.target, posixpath.basename(result.target))
        return finding.rule == self.rule and any(fnmatch.fnmatchcase(name, self.target) for name in names)


_Cause = tuple[str, str | None, str]


class Baseline(Struct, frozen=True, kw_only=True):
    """The findings of an earlier report: their evidence, by extension, torch and rule.

    A finding is known if all of its evidence is known: one more missing symbol makes it new, one fewer does not. The
    path and name of a wheel do not matter, nor does the local version label of the torch.
    """

    evidence: Mapping[_Cause, frozenset[tuple[str, str | None]]]
    source: str | None = None

    def knows(self, result: Result, finding: Finding) -> bool:
        """Whether an earlier report has the finding."""
        accepted = self.evidence.get((result.path, result.torch, finding.rule))
        # A subset is known: fewer missing symbols than before are no news. Wording and severity do not count.
        return accepted is not None and accepted >= {
            (evidence.subject, evidence.object) for evidence in finding.evidence
        }


EMPTY: Final = Baseline(evidence={})


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a JSON report of ``abiscan check``.

    :raises InputError: there is none, or it is something else
    """
    fix = "create it with: abiscan check … --format json --output FILE"
    try:
        document = json.loads(observed_fs.read_file(path).decode("utf-8"))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror or error}", fix) from error
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), "not JSON, so not a baseline", fix) from error
    try:
        evidence = {cause: frozenset(proofs) for cause, proofs in _read_evidence(document).items()}
        return Baseline(evidence=evidence, source=str(path))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(str(path), "not a version 1 report of abiscan check, so not a baseline", fix) from error


def _read_evidence(document: Any) -> dict[_Cause, set[tuple[str, str | None]]]:
    if (document["version"], document["tool"]["name"]) != (1, "abiscan"):
        raise TypeError(document["tool"])
    evidence: dict[_Cause, set[tuple[str, str | None]]] = {}
    for result in document["results"]:
        # A report that was made with a baseline is one itself: what it suppressed stays known.
        for finding in (*result["findings"], *result.get("suppressed", ())):
            proofs = evidence.setdefault((result["path"], result["torch"], finding["rule"]), set())
            proofs |= {(entry["subject"], entry.get("object")) for entry in finding["evidence"]}
    return evidence


def find_configuration(folder: Path, targets: Iterable[str] = ()) -> tuple[Path | None, Path | None]:
    """Find the nearest ``pyproject.toml`` in a folder or above it that has a table ``[tool.abiscan]``.

    :param targets: what is checked: a file inside of one of them is the target's own, and has no say
    :return: that file, and a nearer one that is passed over
    """
    # A stranger's repository could otherwise accept its own findings.
    inside = [os.path.realpath(target) for target in targets if os.path.isdir(target)]  # noqa: PTH112
    passed_over = None
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if observed_fs.is_file(file):
            here = os.path.realpath(place)
            if any(here == root or here.startswith(os.path.join(root, "")) for root in inside):  # noqa: PTH118
                passed_over = passed_over or (file if b"tool.abiscan" in _read_bytes(file) else None)
                continue
            tools = _read_table(file).get("tool")
            if isinstance(tools, dict) and "abiscan" in tools:
                return file, passed_over
    return None, passed_over


def verdicts_changed(report: Report, file: Path) -> str:
    """Say in one line what the suppressions in a file accept; empty if they accept nothing."""
    subject = dict.fromkeys(
        f"{suppressed.finding.rule} in {result.path}"
        for result in report.results
        for suppressed in result.suppressed
        if suppressed.source == str(file)
    )
    return f"{file} accepts {listed(subject)}" if subject else ""


def read_suppressions(file: Path, rules: Collection[str]) -> tuple[Suppression, ...]:
    """Return the suppressions in a ``pyproject.toml``, expired ones included.

    :param rules: the names of all rules
    :raises InputError: one has no reason, no expiry date, an unknown rule, or is otherwise invalid
    """
    table = _read_table(file)["tool"]["abiscan"]
    if not isinstance(table, dict):
        raise InputError(str(file), "[tool.abiscan] is not a table", f"write: suppress = [{_EXAMPLE}]")
    if unknown := sorted(set(table) - {"suppress"}):
        raise InputError(str(file), f"[tool.abiscan] has no setting {unknown[0]}", "the only setting is suppress")
    entries = table.get("suppress", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(str(file), "[tool.abiscan] suppress is not a list of tables", f"write: [{_EXAMPLE}]")
    return tuple(_make_suppression(file, number, entry, rules) for number, entry in enumerate(entries, 1))


def _read_bytes(file: Path) -> bytes:
    try:
        return observed_fs.read_file(file)
    except OSError:
        return b""


def _read_table(file: Path) -> dict[str, Any]:
    # Imported only if there is a file: most runs read none.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        text = observed_fs.read_file(file).decode("utf-8")
        with _collector_paused():
            return tomllib.loads(text)
    except OSError as error:
        raise InputError(str(file), f"cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise InputError(str(file), "not TOML: arrays or tables are nested too deeply") from error
    except ValueError as error:
        raise InputError(str(file), f"not TOML: {error}") from error


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Run no cyclic garbage collection meanwhile.

    tomllib recurses in Python until nothing more can be called. A finalizer that a collection runs there fails, and
    Python prints its traceback, although the error itself is handled.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _make_suppression(file: Path, number: int, entry: Mapping[str, Any], rules: Collection[str]) -> Suppression:
    subject = f"{file}: suppression {number} of [tool.abiscan]"
    if unknown := sorted(set(entry) - _FIELDS):
        raise InputError(subject, f"unknown field {unknown[0]}", f"write: {_EXAMPLE}")
    for field in ("rule", "target", "reason"):
        value = entry.get(field)
        if not isinstance(value, str) or not value.strip():
            raise InputError(subject, f"{field} is missing", f"write: {_EXAMPLE}")
    if entry["rule"] not in rules:
        raise InputError(subject, f"there is no rule {entry['rule']}", f"rules: {', '.join(sorted(rules))}")
    until = entry.get("until")
    # TOML has dates and times, and a datetime is a date to Python.
    if not isinstance(until, dt.date) or isinstance(until, dt.datetime):
        raise InputError(subject, "until, the expiry date, is missing", f"write: {_EXAMPLE}")
    reason = entry["reason"].strip()
    return Suppression(rule=entry["rule"], target=entry["target"], reason=reason, until=until, source=str(file))


def apply_suppressions(report: Report, suppressions: Sequence[Suppression], baseline: Baseline) -> Report:
    """Return the report with the accepted findings moved from ``findings`` to ``suppressed``.

    :param suppressions: those that have not expired
    """

    def sort_findings(result: Result) -> Result:
        # Suppressions before the baseline: their reason says more.
        accepted = {finding: item for finding, item in _list_accepted(result, suppressions, baseline) if item}
        return msgspec.structs.replace(
            result,
            findings=tuple(finding for finding in result.findings if finding not in accepted),
            suppressed=tuple(accepted.values()),
        )

    return msgspec.structs.replace(report, results=tuple(map(sort_findings, report.results))).filled()


def _list_accepted(
    result: Result, suppressions: Sequence[Suppression], baseline: Baseline
) -> Iterator[tuple[Finding, Suppressed | None]]:
    for finding in result.findings:
        by = next((suppression for suppression in suppressions if suppression.covers(result, finding)), None)
        if by is not None:
            yield finding, Suppressed(finding=finding, reason=by.reason, source=by.source)
        elif baseline.knows(result, finding):
            yield finding, Suppressed(finding=finding, reason=_IN_BASELINE, source=baseline.source)
        else:
            yield finding, None
