"""The matrix as JSON, version 1. Its JSON Schema is ``schema/matrix-v1.json``, beside this file."""

from __future__ import annotations

import json
from typing import Any, Final

import abiscan
from abiscan.report.json import predicted_error
from abiscan.report.matrix_model import Matrix, Row, rules_of
from abiscan.report.model import Result

VERSION: Final = 1


def render(matrix: Matrix) -> str:
    """The matrix as a JSON text that ends in a newline."""
    document = {
        "version": VERSION,
        "tool": {"name": "abiscan", "version": abiscan.__version__},
        "suggestions": [{"target": target, "requirement": text} for target, text in matrix.suggestions.items()],
        "results": list(map(_row, matrix.rows)),
    }
    return json.dumps(document, indent=1) + "\n"


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
        "predicted_error": predicted_error(result.predicted_error),
    }
