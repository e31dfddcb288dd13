"""The state of an environment as SARIF 2.1.0: a result for each cause, with what fails for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import abiscan
from abiscan.report.sarif import FINGERPRINT, SCHEMA, hash_parts, level_of, locate_file
from abiscan.results.doctor import MEANINGS, Ailment, Diagnosis


def render_sarif(diagnosis: Diagnosis) -> str:
    """Return the state as a SARIF log of one run that ends in a newline."""
    rules = {kind.value: text for kind, text in MEANINGS.items()}
    rules |= {finding.rule: "It concerns every process of the environment." for finding in diagnosis.process}
    torch = diagnosis.torch.version or "this torch"
    run = {
        "tool": {
            "driver": {
                "name": "abiscan",
                "version": abiscan.__version__,
                "semanticVersion": abiscan.__version__,
                "rules": [{"id": name, "shortDescription": {"text": text}} for name, text in rules.items()],
            }
        },
        "automationDetails": {"id": f"abiscan/doctor/{torch.replace('/', '_')}/"},
        "columnKind": "utf16CodeUnits",
        "results": list(_sarif_results(diagnosis, list(rules), torch)),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _sarif_results(diagnosis: Diagnosis, rules: list[str], torch: str) -> Iterator[dict[str, Any]]:
    root = diagnosis.environment.root or diagnosis.environment.executable or "."
    for item in diagnosis.ailments:
        if item.because_of is None:  # what fails for another is mended with that
            following = [other.subject for other in diagnosis.ailments if other.because_of == item.name]
            yield _make_result(
                item.trouble.value,
                rules,
                level_of(item.effect) if item.effect else "warning",
                "\n".join(_describe(item, following)),
                locate_file(root, item.subject),
                (item.trouble.value, item.subject, torch),
            )
    for finding in diagnosis.process:
        subjects = [evidence.subject for evidence in finding.evidence]
        text = "\n".join(filter(None, (finding.message, finding.says, f"Fix: {finding.fix}")))
        yield _make_result(
            finding.rule,
            rules,
            level_of(finding.effect),
            text,
            locate_file(root, finding.rule),
            (finding.rule, *subjects),
        )


def _describe(ailment: Ailment, following: list[str]) -> Iterator[str]:
    because = f" {ailment.cause}" if ailment.cause else ""
    yield f"{ailment.subject}{because}: {ailment.message}"
    if following:
        yield f"for the same reason: {', '.join(following)}"
    if ailment.stays is not None:
        yield ailment.stays
    yield from (f"Fix: {command}" for command in ailment.commands)


def _make_result(
    rule: str, rules: list[str], level: str, text: str, location: dict[str, Any], identity: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "ruleIndex": rules.index(rule),
        "level": level,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: hash_parts(*identity)},
    }
