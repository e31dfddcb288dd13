"""Every rule on every case.

``cases/<rule>/<case>.json`` is a world as text (``world.py``), with the findings that the rule owes it: their effect,
the subjects of their evidence, a piece of the message; where it matters also ``instead``, ``objects`` and ``fix``.
``golden/matrix.txt`` says which rules fire on which case, so that a false alarm of one rule on the case of another
shows at once; ``golden/findings.txt`` has what they say in full.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan import rules
from abiscan.findings import METADATA_RULES, Effect, Finding, Rule
from tests import world
from tests.conftest import Golden

CASES: Final = Path(__file__).parent / "cases"
FILES: Final = sorted(CASES.glob("*/*.json"))
SECTIONS: Final = ("**What it finds.**", "**Why it fails.**", "**Fix.**", "**Limits.**", "**Example.**")


def name_of(file: Path) -> str:
    return f"{file.parent.name}/{file.stem}"


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text("utf-8"))  # type: ignore[no-any-return]


def agrees(expected: dict[str, Any], finding: Finding) -> bool:
    evidence = finding.evidence
    return (
        finding.effect.value == expected["effect"]
        and [one.subject for one in evidence] == expected["subjects"]
        and expected["message"] in finding.message
        and expected.get("fix", "") in finding.fix
        and expected.get("says", finding.says) == finding.says
        and [one.instead for one in evidence][: len(expected.get("instead", ()))] == expected.get("instead", [])
        and [one.object for one in evidence][: len(expected.get("objects", ()))] == expected.get("objects", [])
    )


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_which_rules_fire_on_the_facts_of_a_case(file: Path) -> None:
    case = read(file)
    rule = rules.by_name(file.parent.name.replace("_", "-"))
    assert rule is not None
    findings = list(rule.check(world.linkage(case)))
    assert [finding.rule for finding in findings] == [rule.name] * len(case["findings"]), findings
    for expected, finding in zip(case["findings"], findings, strict=True):
        assert agrees(expected, finding), (expected, finding)


def test_every_rule_on_every_case(golden: Golden) -> None:
    lines = []
    for file in FILES:
        linkage = world.linkage(read(file))
        fired = [rule.name for rule in rules.RULES if any(True for _ in rule.check(linkage))]
        lines.append(f"{name_of(file)}: {' '.join(fired) or '-'}\n")
    golden(Path(__file__).parent / "golden" / "matrix.txt", "".join(lines))


def in_full(finding: Finding) -> Iterator[str]:
    yield f"  {finding.effect.value}: {finding.message}"
    for one in finding.evidence:
        texts = {"readable": one.readable, "object": one.object, "instead": one.instead}
        told = "".join(f"; {name}: {text}" for name, text in texts.items() if text is not None)
        yield f"    {one.subject}{told}"
    for name, text in (("fix", finding.fix), ("says", finding.says), ("symptom", finding.symptom)):
        if text is not None:
            yield f"    {name}: {text}"


def test_every_finding_in_full(golden: Golden) -> None:
    """What each rule says of its own cases, to the letter: whoever changes a text reads it there."""
    lines = []
    for file in FILES:
        rule = rules.by_name(file.parent.name.replace("_", "-"))
        assert rule is not None
        lines.append(f"{name_of(file)}\n")
        lines += [f"{line}\n" for finding in rule.check(world.linkage(read(file))) for line in in_full(finding)]
    golden(Path(__file__).parent / "golden" / "findings.txt", "".join(lines))


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.name)
def test_a_rule_has_cases_that_fire_and_one_that_does_not(rule: Rule) -> None:
    cases = [read(file) for file in FILES if file.parent.name == rule.name.replace("-", "_")]
    assert sum(bool(case["findings"]) for case in cases) >= 2
    assert any(not case["findings"] for case in cases)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_finding_that_stops_the_load_goes_with_an_error(file: Path) -> None:
    linkage = world.linkage(read(file))
    findings = [finding for rule in rules.RULES for finding in rule.check(linkage)]
    # What the metadata admit wrongly is about other releases and processors than those at hand.
    of_load = [finding for finding in findings if finding.rule not in METADATA_RULES]
    stops = any(finding.effect in (Effect.LOAD_FAILS, Effect.ABORTS) for finding in of_load)
    assert stops == (linkage.load.error is not None)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.name)
def test_a_rule_is_documented(rule: Rule) -> None:
    sections = [*SECTIONS]
    if "**Why it matters.**" in rule.documentation:  # of what stops nothing
        sections[1] = "**Why it matters.**"
    found = re.findall(r"^\*\*[^*]+\*\*", rule.documentation, re.MULTILINE)
    assert found == sections
    assert rule.summary == rule.documentation.partition("\n")[0]
    assert rule.summary.endswith(".")


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.name)
def test_a_rule_is_called_as_its_module(rule: Rule) -> None:
    assert rule.check.__module__ == f"abiscan.rules.{rule.name.replace('-', '_')}"


def test_every_module_with_a_rule_is_listed() -> None:
    modules = {file.stem for file in Path(rules.__file__).parent.glob("*.py") if "\nRULE = " in file.read_text("utf-8")}
    assert modules == {rule.name.replace("-", "_") for rule in rules.SELECTABLE}


def test_no_folder_of_cases_without_a_rule() -> None:
    folders = {folder.name for folder in CASES.iterdir() if folder.is_dir()}
    assert folders == {rule.name.replace("-", "_") for rule in rules.RULES}


def test_rules_by_name() -> None:
    assert [rules.by_name(rule.name) for rule in rules.RULES] == list(rules.RULES)
    assert rules.by_name("no-such-rule") is None
