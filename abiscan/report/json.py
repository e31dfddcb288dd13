"""The report as JSON, version 1: what scripts build on. Its JSON Schema is ``schema/check-v1.json``, beside it."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Final

import abiscan
from abiscan.findings import Evidence, Finding
from abiscan.report.model import PredictedError, Report, Result

VERSION: Final = 1


def render(report: Report) -> str:
    """The report as a JSON text that ends in a newline."""
    document = {
        "version": VERSION,
        "tool": {"name": "abiscan", "version": abiscan.__version__},
        "results": [_result(result) for result in report.results],
    }
    return json.dumps(document, indent=1) + "\n"


def schema(command: str = "check") -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every JSON document of a command satisfies.

    :param command: ``check``, ``matrix`` or ``ops``
    """
    text = resources.files("abiscan.report").joinpath(f"schema/{command}-v1.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def _result(result: Result) -> dict[str, Any]:
    return {
        "target": result.target,
        "path": result.path,
        "sha256": result.sha256,
        "torch": result.torch,
        "torch_build": result.torch_build,
        "verdict": result.verdict.value,
        "predicted_error": predicted_error(result.predicted_error),
        "undefined_symbols": list(result.undefined_symbols),
        "external": list(result.external),
        "findings": [_finding(finding) for finding in result.findings],
        "gaps": [{"stage": gap.stage, "reason": gap.reason} for gap in result.gaps],
        "suppressed": [{**_finding(one.finding), "reason": one.reason} for one in result.suppressed],
    }


def predicted_error(error: PredictedError | None) -> dict[str, Any] | None:
    """The first error of a load, null if there is none."""
    if error is None:
        return None
    told = {"how": error.how.value, "object": error.object, "message": error.message}
    return told if error.exact else {**told, "exact": False}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "effect": finding.effect.value,
        "message": finding.message,
        "evidence": [_evidence(evidence) for evidence in finding.evidence],
        "fix": finding.fix,
        "says": finding.says,
        "symptom": finding.symptom,
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "subject": evidence.subject,
        "readable": evidence.readable,
        "object": evidence.object,
        "instead": evidence.instead,
    }
