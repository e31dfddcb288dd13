"""What a backend cannot run, as JSON version 1. Its JSON Schema is ``schema/coverage-v1.json``, beside this module."""

from __future__ import annotations

import json
from typing import Any, Final

from abiscan.coverage import BackendReport
from abiscan.dispatch.coverage import MissingKernel

VERSION: Final = 1


def render(report: BackendReport) -> str:
    """A JSON text that ends in a newline."""
    coverage = report.coverage
    document = {
        "version": VERSION,
        "target": report.target,
        "paths": list(report.paths),
        "torch": report.torch,
        "built_for": [str(version) for version in report.built_for],
        "backend": report.backend,
        "backend_name": report.backend_name,
        "kernels": report.kernels,
        "fallback": report.has_fallback,
        "workload": report.workload,
        "served": {source.value: count for source, count in coverage.served.items()},
        "missing": [_missing(each) for each in coverage.missing],
        "ambiguous": list(coverage.ambiguous),
        "unknown": list(coverage.unknown),
        "notes": list(report.notes),
        "gaps": [{"stage": "emulation", "reason": gap} for gap in report.gaps],
    }
    return json.dumps(document, indent=1) + "\n"


def _missing(missing: MissingKernel) -> dict[str, Any]:
    return {
        "operator": missing.operator,
        "message": missing.message,
        "exact": missing.exact,
        "essential": missing.essential,
        "core": missing.core,
        "general": missing.general,
        "reached_from": list(missing.reached_from),
    }
