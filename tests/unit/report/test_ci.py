"""The views for build servers: SARIF, JUnit, annotations of GitHub, Markdown."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import msgspec.structs
import pytest
import xmlschema

from abiscan.findings import Confidence, Effect
from abiscan.gaps import Gap
from abiscan.inputs.kinds import TargetKind
from abiscan.python.package.model import HowLoaded
from abiscan.report import github, junit, markdown, sarif
from abiscan.results.check import Report, Suppressed
from abiscan.results.package import (
    ConditionKind,
    ImportFailure,
    PackageResult,
    PackageVerdict,
    UsedLibrary,
    VerdictCondition,
)
from abiscan.results.unchecked import Unchecked
from abiscan.results.verdict import How, Verdict
from abiscan.rules import RULES
from tests.unit.report.reports import failure, finding, result

SCHEMAS = Path(__file__).resolve().parents[2] / "data" / "schemas"
RULE = RULES[0].name
BROKEN = finding(proofs=2, rule=RULE)
NOTED = finding(Effect.NOTE, rule=RULE)
IN_CALLS = finding(Effect.CALL_FAILS, rule=RULE)
GAP = Gap(stage="elf", reason="cut")
FULL = Report(
    results=(
        failure(findings=(BROKEN, NOTED), gaps=(GAP,)),
        result(suppressed=(Suppressed(finding=BROKEN, reason="known"),)),
        result(torch=None, torch_build=None, verdict=Verdict.UNKNOWN, gaps=(GAP,)),
        result(
            target="build/out",
            kind=TargetKind.FOLDER,
            path="pkg/_C.so",
            findings=(finding(Effect.CALL_FAILS, rule=RULE),),
        ),
    )
)
HOSTILE = "a\x1b]0;x\x07\n::error::b\r|`<b>%0A\ud800\ufffe"


def run_of(report: Report) -> Any:
    log = json.loads(sarif.render_sarif(report, RULES))
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    return log["runs"][0]


def test_every_rule_is_described_once_in_sarif() -> None:
    rules = run_of(FULL)["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.name for rule in RULES]
    assert all("**Fix.**" in rule["help"]["markdown"] for rule in rules)


def test_runs_on_different_torches_are_different_categories_of_github() -> None:
    # GitHub: the category is the id up to its last slash, and an upload replaces the one of its category before.
    ids = [
        run_of(Report(results=(result(torch=torch, torch_build=torch),)))["automationDetails"]["id"]
        for torch in ("2.8.0", "2.9.1")
    ]
    assert ids == ["abiscan/2.8.0/", "abiscan/2.9.1/"]


def test_rules_in_sarif_have_addresses_where_the_documentation_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("helpUri" in rule for rule in run_of(FULL)["tool"]["driver"]["rules"])  # a path is no absolute URI
    monkeypatch.setenv("ABISCAN_DOCS", "https://example.org/docs/")
    rules = run_of(FULL)["tool"]["driver"]["rules"]
    assert [rule["helpUri"] for rule in rules] == [f"https://example.org/docs/rules/{rule.name}.md" for rule in RULES]
    package = PackageResult(
        target="a.whl",
        name="a",
        version="1",
        torch="2.9.1",
        torch_build=None,
        module="a",
        verdict=PackageVerdict.WORKS,
    )
    last = run_of(Report(results=(), packages=(package,)))["tool"]["driver"]["rules"][-1]
    assert (last["id"], last["helpUri"]) == ("package", "https://example.org/docs/packages.md")


def test_findings_in_sarif_that_are_less_than_certain_say_so() -> None:
    possible = finding(Effect.NOTE, rule=RULE, confidence=Confidence.POSSIBLE)
    entries = run_of(Report(results=(failure(findings=(BROKEN, possible)),)))["results"]
    assert [entry["properties"].get("confidence") for entry in entries] == [None, "possible"]


def test_findings_are_results_of_sarif() -> None:
    run = run_of(FULL)
    assert [entry["level"] for entry in run["results"]] == ["error", "note", "error", "warning"]
    assert {run["tool"]["driver"]["rules"][entry["ruleIndex"]]["id"] for entry in run["results"]} == {RULE}
    places = [entry["locations"][0] for entry in run["results"]]
    files = [place["physicalLocation"]["artifactLocation"]["uri"] for place in places]
    assert files == ["pkg.whl", "pkg.whl", "pkg.whl", "build/out/pkg/_C.so"]
    assert {place["logicalLocations"][0]["fullyQualifiedName"] for place in places} == {"pkg/_C.so"}
    assert [entry.get("suppressions", [{}])[0].get("justification") for entry in run["results"]][2] == "known"
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 2


def test_uris_in_sarif_are_uris() -> None:
    entries = run_of(Report(results=(failure(target="/a b/ü.whl", findings=(BROKEN,)),)))["results"]
    assert entries[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///a%20b/%C3%BC.whl"


def test_a_name_that_is_no_text_has_a_uri() -> None:
    entries = run_of(Report(results=(failure(target="n\udcff.so", findings=(BROKEN,)),)))["results"]
    uri = entries[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.startswith("n%FF.so")


def fingerprint(**changes: Any) -> str:
    changed = msgspec.structs.replace(BROKEN, **changes.pop("finding", {}))
    (entry,) = run_of(Report(results=(failure(**{"findings": (changed,), **changes}),)))["results"]
    (found,) = entry["partialFingerprints"].values()
    return str(found)


def test_fingerprints_tell_causes_apart_and_nothing_else() -> None:
    same = fingerprint()
    assert fingerprint(target="/elsewhere/pkg-2.whl") == same
    assert fingerprint(torch_build="2.9.1+cu128") == same
    assert fingerprint(finding={"message": "said otherwise", "fix": "do this"}) == same
    assert fingerprint(finding={"evidence": BROKEN.evidence[::-1]}) == same
    others = {
        fingerprint(path="pkg/_D.so"),
        fingerprint(torch="2.9.0"),
        fingerprint(finding={"evidence": BROKEN.evidence[:1]}),
        fingerprint(finding={"rule": RULES[1].name}),
    }
    assert same not in others
    assert len(others) == 4


@pytest.mark.parametrize("report", [FULL, Report(results=()), Report(results=(failure(target=HOSTILE[:-2]),))])
def test_sarif_satisfies_its_schema(report: Report) -> None:
    schema = json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_text("utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    log = json.loads(sarif.render_sarif(report, RULES))
    validator.validate(log)
    assert not validator.is_valid({**log, "version": "2.0.0"})
    assert not validator.is_valid({**log, "runs": [{**log["runs"][0], "tool": {}}]})


@functools.cache
def junit_schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")


def test_junit_is_held_against_its_schema() -> None:
    assert not junit_schema().is_valid("<testsuites><testcase/></testsuites>")
    assert not junit_schema().is_valid("<testsuites><testsuite name='a' tests='1' failures='0'/></testsuites>")


def junit_of(report: Report, fail_on: Effect = Effect.CORRUPTS, *, strict: bool = False) -> ET.Element:
    text = junit.render_junit(report, fail_on, strict=strict)
    junit_schema().validate(text)
    root = ET.fromstring(text.encode())
    assert root.tag == "testsuites"
    for suite in root:
        for kind in ("failure", "error"):
            assert len(suite.findall(f"testcase/{kind}")) == int(suite.attrib[f"{kind}s"])
        assert len(suite.findall("testcase")) == int(suite.attrib["tests"])
    return root


def test_junit_has_a_case_for_each_extension_and_torch() -> None:
    root = junit_of(FULL)
    assert [suite.attrib["name"] for suite in root] == ["torch 2.9.1+cpu", "torch (unknown version)"]
    failed, known, mild, unknown = root.iter("testcase")
    assert [child.tag for child in failed] == ["failure"]
    assert failed[0].attrib == {"type": RULE, "message": "_C.so: undefined symbol: f"}
    assert [child.tag for child in (*known, *mild)] == ["system-out", "system-out"]
    assert [child.tag for child in unknown] == ["error"]


@pytest.mark.parametrize("fails", [True, False])
def test_junit_has_gaps_where_they_explain_something(fails: bool) -> None:
    (case,) = junit_of(Report(results=(failure(findings=(BROKEN if fails else NOTED,), gaps=(GAP,)),))).iter("testcase")
    assert ("gap[elf]: cut" in "".join(case.itertext())) is fails


def test_junit_fails_what_the_exit_code_fails() -> None:
    for fail_on in Effect:
        for strict in (False, True):
            for results in (FULL.results, FULL.results[:2], FULL.results[2:3]):
                report = Report(results=results)
                root = junit_of(report, fail_on, strict=strict)
                failures, errors = (len(list(root.iter(kind))) for kind in ("failure", "error"))
                assert report.exit_code(fail_on, strict=strict) == (1 if failures else 3 if errors else 0)


def test_junit_survives_what_xml_cannot_hold() -> None:
    root = junit_of(Report(results=(failure(target=HOSTILE, findings=(finding(message=HOSTILE),)),)))
    assert "\\x1b" in next(root.iter("testcase")).attrib["classname"]


def test_annotations_of_github() -> None:
    lines = github.render_annotations(FULL).splitlines()
    assert lines[0] == (
        f"::error file=pkg.whl,title=abiscan {RULE}::pkg/_C.so: it is so%0Afix: mend it%0A_C.so: undefined symbol: f"
    )
    assert "::notice file=pkg.whl," in "\n".join(lines)
    assert [line.partition(" ")[0] for line in lines if line.startswith("::")] == [
        *("::error", "::warning", "::warning", "::notice")
    ]


def annotated(report: Report) -> list[str]:
    return [line for line in github.render_annotations(report).splitlines() if line.startswith("::")]


def test_one_annotation_for_all_findings_of_a_rule_in_a_target() -> None:
    results = [failure(path=f"pkg/_{number}.so", findings=(BROKEN,)) for number in range(20)]
    (only,) = annotated(Report(results=tuple(results)))
    assert only.startswith("::error file=pkg.whl,")
    assert ["pkg/_0.so: it is so" in only, "pkg/_9.so: it is so" in only] == [True, False]
    assert "%0Aand 15 others%0Afix: mend it%0A" in only
    assert only.count("fix: mend it") == only.count("undefined symbol: f") == 1


def test_no_more_annotations_than_github_shows() -> None:
    results = tuple(failure(target=f"{number:02}.whl", findings=(BROKEN, NOTED)) for number in range(14))
    for command in ("error", "notice"):
        shown = [line for line in annotated(Report(results=results)) if line.startswith(f"::{command} ")]
        assert len(shown) == 10
        assert shown[-1].partition(" ")[2] == (
            "title=abiscan more findings::5 more, which GitHub would not show: see the log"
            "%0A09.whl, 10.whl, 11.whl, 12.whl, 13.whl"
        )


def test_a_gap_beside_a_verdict_is_no_annotation() -> None:
    assert annotated(Report(results=(result(gaps=(GAP, GAP)),))) == []
    unknown = result(verdict=Verdict.UNKNOWN, gaps=(GAP, Gap(stage="elf", reason="torn")))
    assert annotated(Report(results=(unknown, unknown))) == [
        "::warning file=pkg.whl,title=abiscan gap::pkg/_C.so: cut%0Apkg/_C.so: torn"
    ]


UNREAD = Unchecked(target="a.whl", problem="not a wheel", fix="download it again", readable=False)
PURE = Unchecked(target="b.whl", problem="contains no ELF shared object", fix="", readable=True)


def test_targets_without_results_are_in_every_view() -> None:
    report = Report(results=(), unchecked=(UNREAD, PURE))
    lines = github.render_annotations(report).splitlines()
    assert lines[0] == "::error file=a.whl,title=abiscan cannot read::not a wheel%0Afix: download it again"
    assert lines[1:] == ["b.whl: nothing to check: contains no ELF shared object"]
    unread, pure = junit_of(report).iter("testcase")
    assert [(case.attrib["name"], case[0].tag) for case in (unread, pure)] == [("a.whl", "error"), ("b.whl", "skipped")]
    run = run_of(report)["invocations"][0]
    assert not run["executionSuccessful"]
    assert [one["level"] for one in run["toolExecutionNotifications"]] == ["error", "note"]
    assert "| `a.whl` | | ❔ not checked | not a wheel |" in markdown.render_markdown(report)
    assert "| `b.whl` | | nothing to check | contains no ELF shared object |" in markdown.render_markdown(report)


def test_every_view_says_for_which_build_a_verdict_holds() -> None:
    other = {"2.9.1+cu128": Verdict.FAILS}
    package = PackageResult(
        target="a.whl",
        name="a",
        version="1",
        torch="2.9.1",
        torch_build="2.9.1+cpu",
        module="a",
        verdict=PackageVerdict.WORKS,
        other_builds={"2.9.1+cu128": PackageVerdict.IMPORT_FAILS},
    )
    report = Report(results=(result(other_builds=other),), packages=(package,))
    document = json.loads(report.to_json())
    assert [item["other_builds"] for item in (*document["packages"], *document["results"])] == [
        {"2.9.1+cu128": "import-fails"},
        {"2.9.1+cu128": "fails"},
    ]
    assert "other_builds" not in json.loads(FULL.to_json())["results"][0]
    assert "loads on torch 2.9.1+cpu (fails on torch 2.9.1+cu128)" in github.render_annotations(report)
    text = markdown.render_markdown(report)
    assert "| 2.9.1\\+cpu | ✅ loads (fails on torch 2.9.1\\+cu128) |  |" in text
    assert "| 2.9.1\\+cpu | ✅ works (import fails on torch 2.9.1\\+cu128) |  |" in text
    cases = [case.findtext("system-out") for case in junit_of(report).iter("testcase")]
    assert cases == [
        "other builds: import fails on torch 2.9.1+cu128",
        "other builds: fails on torch 2.9.1+cu128",
    ]
    run = run_of(report)
    assert run["results"] == []
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert [note["message"]["text"] for note in notes] == [
        "a 1 on torch 2.9.1+cpu: works, but import fails on torch 2.9.1+cu128",
        "pkg/_C.so on torch 2.9.1+cpu: loads, but fails on torch 2.9.1+cu128",
    ]
    assert [note["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for note in notes] == [
        "a.whl",
        "pkg.whl",
    ]
    for rendered in (github.render_annotations(FULL), markdown.render_markdown(FULL), sarif.render_sarif(FULL, RULES)):
        assert "on torch 2.9.1+cu128" not in rendered


def test_a_library_without_a_known_error_is_named_alone_in_markdown() -> None:
    library = UsedLibrary(
        path="a/_C.so", loaded_at="a/b.py:1", how=HowLoaded.ON_DEMAND, used=None, verdict=Verdict.FAILS
    )
    package = PackageResult(
        target="a.whl",
        name="a",
        version="1",
        torch="2.9.1",
        torch_build="2.9.1+cpu",
        module="a",
        verdict=PackageVerdict.WORKS_WITHOUT,
        libraries=(library,),
    )
    assert "- *without* `a/_C.so`\n" in markdown.render_markdown(Report(results=(), packages=(package,)))


@pytest.mark.parametrize(
    ("verdict", "met", "command", "level"),
    [
        (PackageVerdict.WORKS, True, None, None),
        (PackageVerdict.WORKS, False, "warning", "note"),
        (PackageVerdict.WORKS_WITHOUT, True, "warning", "note"),
        (PackageVerdict.UNKNOWN, True, "warning", "warning"),
        (PackageVerdict.IMPORT_FAILS, True, "error", "error"),
        (PackageVerdict.CORRUPTS, True, "error", "error"),
    ],
)
def test_a_package_that_does_not_simply_work(
    verdict: PackageVerdict, met: bool, command: str | None, level: str | None
) -> None:
    condition = VerdictCondition(kind=ConditionKind.LIBRARY, name="libcuda.so.1", why="it needs CUDA", met=met)
    package = PackageResult(
        target="a.whl",
        name="a",
        version="1",
        torch="2.9.1",
        torch_build="2.9.1+cpu",
        module="a",
        verdict=verdict,
        conditions=(condition,),
    )
    report = Report(results=(), packages=(package,))
    title = f"::{command} file=a.whl,title=abiscan a 1 on torch 2.9.1+cpu::"
    assert [line.startswith(title) for line in annotated(report)] == ([True] if command else [])
    entries = run_of(report)["results"]
    assert [(entry["ruleId"], entry["level"]) for entry in entries] == ([("package", level)] if level else [])
    assert ["condition: it needs CUDA" in entry["message"]["text"] for entry in entries] == [not met] * len(entries)


def test_nothing_in_a_file_becomes_a_command_of_github() -> None:
    report = Report(results=(failure(target=f":{HOSTILE},x:y", findings=(finding(message=HOSTILE),)),))
    lines = github.render_annotations(report).splitlines()
    assert [line[:8] for line in lines if line.lstrip().startswith("::")] == ["::error "]
    properties = lines[0].split("::")[1]
    assert properties.count(",") == 1
    assert "%2Cx%3Ay" in properties
    assert "%250A" in lines[0]


def test_markdown_shows_verdicts_findings_and_what_is_known() -> None:
    text = markdown.render_markdown(FULL)
    assert "| `pkg.whl: pkg/_C.so` | 2.9.1\\+cpu | ❌ fails | `_C.so: undefined symbol: f` |" in text
    assert f"- **{RULE}** (load-fails): it is so" in text
    assert "- *suppressed*: it is so (known)" in text
    assert "- *gap, elf*: cut" in text


def test_markdown_keeps_its_table() -> None:
    text = markdown.render_markdown(Report(results=(failure(target=HOSTILE, findings=(finding(message=HOSTILE),)),)))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert rows[2].replace("\\|", "").count("|") == 5
    assert "\n::error" not in text
    assert "\\<b\\>" in text


@pytest.mark.parametrize("effect", Effect)
def test_annotations_have_the_error_where_the_finding_is_its_cause(effect: Effect) -> None:
    for make, fails in ((failure, True), (result, False)):
        (line,) = annotated(Report(results=(make(findings=(finding(effect, rule=RULE),)),)))
        is_cause = fails and effect in (Effect.LOAD_FAILS, Effect.ABORTS)
        assert ("undefined symbol: f" in line) is is_cause


@pytest.mark.parametrize("names", [("_C.so",), ("_C.so", "_D.so")])
def test_markdown_and_sarif_name_the_files_of_which_a_finding_is(names: tuple[str, ...]) -> None:
    results = (*(failure(path=f"pkg/{name}", findings=(BROKEN,)) for name in names), result(path="pkg/_E.so"))
    libraries = tuple(
        UsedLibrary(
            path=each.path, file=each.path, loaded_at=None, how=HowLoaded.IMPORT, used=True, verdict=each.verdict
        )
        for each in results
    )
    words, cause = "build it first", "undefined symbol: f"
    failed = ImportFailure(how=How.RAISES, exception="ImportError", message=words, file=None, line=None, cause=cause)
    package = PackageResult(
        target="pkg.whl",
        name="pkg",
        version="1.0",
        torch="2.9.1",
        torch_build="2.9.1+cpu",
        module="pkg",
        verdict=PackageVerdict.IMPORT_FAILS,
        error=failed,
        libraries=libraries,
    )
    report = Report(results=results, packages=(package,))
    text = markdown.render_markdown(report)
    assert text.count(f"**{RULE}**") == 1
    of_package, of_rule = run_of(report)["results"]
    assert (of_package["ruleId"], of_rule["ruleId"]) == ("package", RULE)
    assert of_package["message"]["text"].splitlines() == [
        "pkg 1.0 on torch 2.9.1+cpu: import fails - ImportError: build it first",
        "undefined symbol: f",
    ]
    places = (*of_rule["locations"], *of_rule["relatedLocations"])
    assert [place["logicalLocations"][0]["fullyQualifiedName"] for place in places] == [f"pkg/{name}" for name in names]
    assert [place["physicalLocation"]["region"] for place in places] == [{"startLine": 1}] * len(names)
    assert "  - `f0()`, found: `f0(int)`\n" in text
    assert ("in 2 files: `pkg/_C.so`, `pkg/_D.so`" in text) is (len(names) > 1)
    assert " files: " not in text or len(names) > 1


def test_an_annotation_of_a_package_has_the_cause_of_its_error() -> None:
    def lines(cause: str | None) -> list[str]:
        failed = ImportFailure(
            how=How.RAISES, exception="OSError", message="is gone", file=None, line=None, cause=cause
        )
        package = PackageResult(
            target="a.whl", name="a", version="1", torch="2.9.1", torch_build="2.9.1+cpu", module="a",
            verdict=PackageVerdict.IMPORT_FAILS, error=failed,
        )  # fmt: skip
        (line,) = annotated(Report(results=(), packages=(package,)))
        return line.rpartition("::")[2].split("%0A")

    first = lines(None)
    assert len(first) == 1
    assert "OSError: is gone" in first[0]
    assert lines("undefined symbol: f") == [*first, "undefined symbol: f"]
