"""Findings that the user accepts: a baseline, and the suppressions in ``pyproject.toml``.

They change the exit code, not the verdict, and every report shows a suppressed finding as such.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import json
import posixpath
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec.structs
from msgspec import Struct

from abiscan.errors import InputError
from abiscan.findings import Finding
from abiscan.results.check import Report, Result, Suppressed

_IN_BASELINE: Final = "in the baseline"
_FIELDS: Final = {"rule", "target", "reason", "until"}
_EXAMPLE: Final = '{rule = "undefined-symbol", target = "*/_C.so", reason = "why", until = 2027-01-31}'


class Suppression(Struct, frozen=True, kw_only=True):
    """One entry of ``suppress``.

    :param target: a pattern (``*``, ``?``, ``[…]``) for the path of the extension inside its target, or for the name of
        the target
    :param until: the last day on which it applies
    """

    rule: str
    target: str
    reason: str
    until: dt.date

    def covers(self, result: Result, finding: Finding) -> bool:
        """Whether it applies to this finding."""
        names = (result.path, result.target, posixpath.basename(result.target))
        return finding.rule == self.rule and any(fnmatch.fnmatchcase(name, self.target) for name in names)


_Cause = tuple[str, str | None, str]


class Baseline(Struct, frozen=True, kw_only=True):
    """The findings of an earlier report: their evidence, by extension, torch and rule.

    A finding is known if all of its evidence is known: one more missing symbol makes it new, one fewer does not. The
    path and name of a wheel do not matter, nor does the local version label of the torch.
    """

    evidence: Mapping[_Cause, frozenset[tuple[str, str | None]]]

    def knows(self, result: Result, finding: Finding) -> bool:
        """Whether an earlier report has the finding."""
        known = self.evidence.get((result.path, result.torch, finding.rule))
        return known is not None and known >= {(evidence.subject, evidence.object) for evidence in finding.evidence}


EMPTY: Final = Baseline(evidence={})


def read_baseline(path: Path) -> Baseline:
    """The baseline in a JSON report of ``abiscan check``.

    :raises InputError: there is none, or it is something else
    """
    fix = "create it with: abiscan check … --format json --output FILE"
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror or error}", fix) from error
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), "not JSON, so not a baseline", fix) from error
    try:
        return Baseline(evidence={cause: frozenset(proofs) for cause, proofs in _evidence(document).items()})
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(str(path), "not a version 1 report of abiscan check, so not a baseline", fix) from error


def _evidence(document: Any) -> dict[_Cause, set[tuple[str, str | None]]]:
    if (document["version"], document["tool"]["name"]) != (1, "abiscan"):
        raise TypeError(document["tool"])
    evidence: dict[_Cause, set[tuple[str, str | None]]] = {}
    for result in document["results"]:
        for finding in (*result["findings"], *result.get("suppressed", ())):
            proofs = evidence.setdefault((result["path"], result["torch"], finding["rule"]), set())
            proofs |= {(entry["subject"], entry.get("object")) for entry in finding["evidence"]}
    return evidence


def configuration(folder: Path) -> Path | None:
    """The nearest ``pyproject.toml`` in a folder or above it that has a table ``[tool.abiscan]``."""
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            tools = _table(file).get("tool")
            if isinstance(tools, dict) and "abiscan" in tools:
                return file
    return None


def read_suppressions(file: Path, rules: Collection[str]) -> tuple[Suppression, ...]:
    """The suppressions in a ``pyproject.toml``, expired ones included.

    :param rules: the names of all rules
    :raises InputError: one has no reason, no expiry date, an unknown rule, or is otherwise invalid
    """
    table = _table(file)["tool"]["abiscan"]
    if not isinstance(table, dict):
        raise InputError(str(file), "[tool.abiscan] is not a table", f"write: suppress = [{_EXAMPLE}]")
    if unknown := sorted(set(table) - {"suppress"}):
        raise InputError(str(file), f"[tool.abiscan] has no setting {unknown[0]}", "the only setting is suppress")
    entries = table.get("suppress", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(str(file), "[tool.abiscan] suppress is not a list of tables", f"write: [{_EXAMPLE}]")
    return tuple(_suppression(file, number, entry, rules) for number, entry in enumerate(entries, 1))


def _table(file: Path) -> dict[str, Any]:
    # Imported only if there is a file: most runs read none.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(str(file), f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(str(file), f"not TOML: {error}") from error


def _suppression(file: Path, number: int, entry: Mapping[str, Any], rules: Collection[str]) -> Suppression:
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
    if not isinstance(until, dt.date) or isinstance(until, dt.datetime):
        raise InputError(subject, "until, the expiry date, is missing", f"write: {_EXAMPLE}")
    return Suppression(rule=entry["rule"], target=entry["target"], reason=entry["reason"].strip(), until=until)


def apply(report: Report, suppressions: Sequence[Suppression], baseline: Baseline) -> Report:
    """The report with the accepted findings moved from ``findings`` to ``suppressed``.

    :param suppressions: those that have not expired
    """

    def sort(result: Result) -> Result:
        accepted = {finding: reason for finding, reason in _reasons(result, suppressions, baseline) if reason}
        return msgspec.structs.replace(
            result,
            findings=tuple(finding for finding in result.findings if finding not in accepted),
            suppressed=tuple(Suppressed(finding=finding, reason=reason) for finding, reason in accepted.items()),
        )

    return msgspec.structs.replace(report, results=tuple(map(sort, report.results)))


def _reasons(
    result: Result, suppressions: Sequence[Suppression], baseline: Baseline
) -> Iterator[tuple[Finding, str | None]]:
    for finding in result.findings:
        reasons = (suppression.reason for suppression in suppressions if suppression.covers(result, finding))
        yield finding, next(reasons, None) or (_IN_BASELINE if baseline.knows(result, finding) else None)
