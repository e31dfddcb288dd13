"""The result of ``abiscan matrix``: extensions by releases. Its JSON Schema is ``schema/matrix-v1.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from abiscan.extension.built_for import BuiltFor
from abiscan.findings import Effect
from abiscan.results.check import Result, predicted_error
from abiscan.results.document import rendered
from abiscan.results.unchecked import Unchecked, document_of, exit_code_of
from abiscan.results.verdict import Verdict
from abiscan.words import ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One extension on all releases.

    ``declared`` is the torch requirement in the metadata, ``results`` has the result for each release that exists for
    the extension's machine, by release number, oldest first.
    """

    target: str
    path: str
    built_for: BuiltFor
    declared: str | None
    results: Mapping[str, Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All rows of a run, the ``releases`` that are its columns, oldest first, and what to require.

    ``suggestions`` has, for each target, the simplest requirement that admits exactly those of the releases on which
    the whole target works; None if there are none. ``unchecked`` has the targets without rows.
    """

    rows: tuple[Row, ...]
    releases: tuple[str, ...]
    suggestions: Mapping[str, str | None]
    unchecked: tuple[Unchecked, ...] = ()

    def exit_code(self, fail_on: Effect, *, strict: bool) -> int:
        """The worst of all targets and releases, as ``Report.exit_code``."""
        results = [result for row in self.rows for result in row.results.values()]
        return exit_code_of(
            failed=any(result.is_failure(fail_on, strict=strict) for result in results),
            unknown=any(result.verdict is Verdict.UNKNOWN for result in results),
            unchecked=self.unchecked,
        )

    def to_json(self) -> str:
        """The JSON document, version 1."""
        return rendered(
            {
                "suggestions": [{"target": target, "requirement": text} for target, text in self.suggestions.items()],
                "results": list(map(_row, self.rows)),
                "unchecked": document_of(self.unchecked),
            }
        )


def works(result: Result) -> bool:
    """Whether an extension loads and, as far as is known, does not corrupt memory."""
    return result.verdict is Verdict.LOADS and not result.is_failure(Effect.CORRUPTS, strict=False)


def mark(result: Result | None) -> str:
    """The symbol in a cell: see ``legend``. None means that there is no build of the torch for the machine."""
    if result is None:
        return "·"
    if result.verdict is Verdict.UNKNOWN:
        return "?"
    return "✓" if works(result) else "✗"


def cuda_versions(matrix: Matrix, target: str) -> dict[str, list[str]]:
    """The releases by the version of CUDA that they were built for, if that is why a target fails on some."""
    results = [(name, result) for row in matrix.rows if row.target == target for name, result in row.results.items()]
    if not any("cuda-runtime-mismatch" in rules_of(result) for _, result in results):
        return {}
    version_of = {name: result.torch_cuda for name, result in results if result.torch_cuda}
    by_version: dict[str, list[str]] = {}
    for name in filter(version_of.__contains__, matrix.releases):
        by_version.setdefault(version_of[name], []).append(name)
    return by_version


def legend() -> str:
    """The meaning of the symbols."""
    return "✓ loads  ✗ fails, or corrupts memory  ? unknown  · no build of torch for its machine"


def advice(matrix: Matrix, row: Row) -> str:
    """What the target of a row requires, where it works, and what to require."""
    suggestion = matrix.suggestions.get(row.target)
    works_on = (
        f"works on torch {_working(matrix, row.target)} ({suggestion})"
        if suggestion
        else f"works on none of torch {ranges(matrix.releases, matrix.releases)}"
    )
    return f"requires {row.declared}; {works_on}" if row.declared else works_on


def _working(matrix: Matrix, target: str) -> str:
    """The releases with a build on which the whole target works: ``2.5.0-2.5.1``."""
    rows = [row for row in matrix.rows if row.target == target]
    builds = [name for name in matrix.releases if any(name in row.results for row in rows)]
    good = [name for name in builds if all(works(row.results[name]) for row in rows if name in row.results)]
    return ranges({_number(name) for name in good}, dict.fromkeys(map(_number, builds)))


def _number(build: str) -> str:
    return build.partition("+")[0]


def trouble(result: Result, torch: str | None = None) -> str | None:
    """The first problem, in words: the load error, otherwise the worst finding; None if there is none.

    :param torch: replaces the version of the torch in it: the same for releases that differ in nothing else
    """
    text = _first_problem(result)
    if text is None or torch is None or result.torch is None:
        return text
    return re.sub(rf"(?<= ){re.escape(result.torch)}(\+\w+)?(?![\w.+-])", lambda _: torch, text)


def _first_problem(result: Result) -> str | None:
    if result.predicted_error:
        return str(result.predicted_error)
    if works(result):
        return None
    worst = max(result.findings, key=lambda finding: finding.effect.severity, default=None)
    if worst:
        return worst.message
    return result.gaps[0].reason if result.gaps else "unknown"


def rules_of(result: Result) -> list[str]:
    """The rules with findings, without repetition."""
    return list(dict.fromkeys(finding.rule for finding in result.findings))


def _row(row: Row) -> dict[str, Any]:
    return {
        "target": row.target,
        "path": row.path,
        "built_for": list(map(str, row.built_for.releases)),
        "evidence": [
            {"kind": clue.kind.value, "seen": clue.seen, "releases": list(map(str, clue.releases))}
            for clue in row.built_for.clues
        ],
        "declared": row.declared,
        "releases": {release: _cell(result) for release, result in row.results.items()},
    }


def _cell(result: Result) -> dict[str, Any]:
    return {
        "verdict": result.verdict.value,
        "rules": rules_of(result),
        "torch_cuda": result.torch_cuda,
        "predicted_error": predicted_error(result.predicted_error),
    }
