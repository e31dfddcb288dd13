from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest

import abiscan
from abiscan.findings import Effect
from abiscan.gaps import Gap
from abiscan.results.check import Report
from abiscan.results.document import read_schema
from abiscan.results.verdict import How, PredictedError, Verdict
from tests.schemas import validate
from tests.unit.report.reports import failure, finding, result

FULL = Report(
    results=(
        failure(findings=(finding(proofs=2),), external=("libcudart.so.12",), gaps=(Gap(stage="elf", reason="cut"),)),
        result(),
        result(verdict=Verdict.UNKNOWN, sha256=None, torch=None, torch_build=None),
    )
)


def document(report: Report = FULL) -> Any:
    return json.loads(report.to_json())


def valid(found: Any) -> bool:
    return jsonschema.Draft202012Validator(read_schema("check")).is_valid(found)


def test_the_document_word_for_word() -> None:
    assert document() == {
        "version": 1,
        "tool": {"name": "abiscan", "version": abiscan.__version__},
        "packages": [],
        "results": [
            {
                "target": "pkg.whl",
                "path": "pkg/_C.so",
                "sha256": "0" * 64,
                "torch": "2.9.1",
                "torch_build": "2.9.1+cpu",
                "torch_cuda": None,
                "verdict": "fails",
                "predicted_error": {
                    "how": "raises",
                    "object": "_C.so",
                    "message": "undefined symbol: f",
                },
                "undefined_symbols": ["f"],
                "external": ["libcudart.so.12"],
                "findings": [
                    {
                        "rule": "a-rule",
                        "effect": "load-fails",
                        "message": "it is so",
                        "evidence": [
                            {"subject": "_Z0", "readable": "f0()", "object": "_C.so", "instead": "f0(int)"},
                            {"subject": "_Z1", "readable": "f1()", "object": "_C.so", "instead": "f1(int)"},
                        ],
                        "fix": "mend it",
                        "says": None,
                        "symptom": None,
                        "page": "docs/rules/a-rule.md",
                    }
                ],
                "cpu": None,
                "needs": {"glibc": None, "glibcxx": None, "cxxabi": None},
                "gaps": [{"stage": "elf", "reason": "cut"}],
                "suppressed": [],
            },
            {**_LOADS},
            {**_LOADS, "verdict": "unknown", "sha256": None, "torch": None, "torch_build": None},
        ],
        "unchecked": [],
    }


_LOADS: dict[str, Any] = {
    "target": "pkg.whl",
    "path": "pkg/_C.so",
    "sha256": "0" * 64,
    "torch": "2.9.1",
    "torch_build": "2.9.1+cpu",
    "torch_cuda": None,
    "verdict": "loads",
    "predicted_error": None,
    "undefined_symbols": [],
    "external": [],
    "findings": [],
    "cpu": None,
    "needs": {"glibc": None, "glibcxx": None, "cxxabi": None},
    "gaps": [],
    "suppressed": [],
}


def test_the_text_is_ascii_and_ends_in_a_newline() -> None:
    text = Report(results=(result(path="ä/\x1b[31m.so"),)).to_json()
    assert text.isascii()
    assert text.endswith("}\n")
    assert "\x1b" not in text


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(read_schema("check"))
    assert read_schema("check")["properties"]["version"] == {"const": 1}


@pytest.mark.parametrize(
    "report",
    [
        FULL,
        Report(results=()),
        *(
            Report(results=(failure(predicted_error=PredictedError(how=How.ABORTS, object=None, message=text)),))
            for text in ("x", "")
        ),
        *(Report(results=(result(findings=(finding(effect),)),)) for effect in Effect),
    ],
)
def test_what_is_rendered_satisfies_the_schema(report: Report) -> None:
    validate(document(report), "check")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("version",), "1"),
        (("tool", "name"), "another"),
        (("results",), {}),
        (("results", 0, "verdict"), "maybe"),
        (("results", 0, "verdict"), "loads"),  # beside a predicted error
        (("results", 1, "verdict"), "fails"),  # without one
        (("results", 0, "predicted_error"), None),
        (("results", 0, "predicted_error", "how"), "dies"),
        (("results", 0, "predicted_error", "object"), 1),
        (("results", 0, "sha256"), "abc"),
        (("results", 0, "undefined_symbols"), ["f", "f"]),
        (("results", 0, "external"), [None]),
        (("results", 0, "findings", 0, "effect"), "bad"),
        (("results", 0, "findings", 0, "rule"), "Not_Kebab"),
        (("results", 0, "findings", 0, "fix"), ""),
        (("results", 0, "findings", 0, "evidence", 0, "subject"), None),
        (("results", 0, "gaps", 0, "reason"), 1),
    ],
)
def test_the_schema_rejects_a_wrong_value(path: tuple[str | int, ...], value: Any) -> None:
    wrong = copy.deepcopy(document())
    *folder, last = path
    place = wrong
    for step in folder:
        place = place[step]
    place[last] = value
    assert valid(document())
    assert not valid(wrong)


@pytest.mark.parametrize("name", sorted({*_LOADS} - {"torch_build", "torch_cuda", "suppressed"}))
def test_the_schema_asks_for_every_field_of_the_contract(name: str) -> None:
    wrong = document()
    del wrong["results"][0][name]
    assert not valid(wrong)


def test_a_text_that_is_not_wholly_known_says_so() -> None:
    unknown = PredictedError(how=How.ABORTS, object=None, message="ASSERT FAILED at ?", exact=False)
    (one,) = json.loads(Report(results=(failure(predicted_error=unknown),)).to_json())["results"]
    assert one["predicted_error"] == {"how": "aborts", "object": None, "message": "ASSERT FAILED at ?", "exact": False}
