"""Every JSON document of every command satisfies the schema that is published for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import click.testing
import jsonschema
import pytest

import abiscan
from abiscan.cli import main
from abiscan.results.doctor import Diagnosis
from abiscan.results.document import schema
from abiscan.results.fit import FitReport, Fitting, Rejected
from tests.fakes import SAMPLES

LOADS: Final = str(SAMPLES / "loads" / "loads.so")
WHEEL: Final = str(SAMPLES / "wheels" / "abiscan_sample-1.0-py3-none-linux_x86_64.whl")
DETECTOR: Final = str(SAMPLES / "models" / "detector.pt")
CLASSIFIER: Final = str(SAMPLES / "models" / "classifier.pt2")
BROKEN: Final = str(SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so")
# The schema, and the words of a command whose document it describes.
DOCUMENTS: Final = [
    ("check", ["check", LOADS, BROKEN, WHEEL, "--torch", ">=2.12,<2.14"]),
    ("check", ["check", DETECTOR, CLASSIFIER, "--torch", "2.7.1"]),
    ("matrix", ["matrix", DETECTOR, CLASSIFIER, "--torch", "2.7.1", "--torch", "2.13.0"]),
    ("ops-model", ["ops", DETECTOR]),
    ("matrix", ["matrix", LOADS, "--torch", "2.12.0", "--torch", "2.13.0"]),
    ("coverage", ["coverage", str(SAMPLES / "coverage" / "backend.so"), "--torch", "2.13.0"]),
    ("diff", ["diff", "2.7.0", "2.7.1", "--used-by", LOADS]),
    ("stable", ["stable", LOADS]),
    ("ops", ["ops", LOADS]),
    ("ops", ["ops", WHEEL]),
    ("ops", ["ops", "--torch", "1.4.0"]),
    ("ops-api-version", ["ops", "--torch", "1.4.0", "--api-version"]),
    ("stable", ["stable", LOADS]),
    ("ops-api-history", ["ops", LOADS, "--api-version", "--torch", "2.12.0", "--torch", "2.13.0"]),
]


@pytest.mark.parametrize(("name", "words"), DOCUMENTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_document_satisfies_its_schema(name: str, words: Sequence[str]) -> None:
    printed = click.testing.CliRunner().invoke(main, [*words, "--format", "json"])
    document = json.loads(printed.stdout)
    jsonschema.Draft202012Validator.check_schema(schema(name))
    jsonschema.validate(document, schema(name), cls=jsonschema.Draft202012Validator)
    assert (document["version"], document["tool"]) == (1, {"name": "abiscan", "version": abiscan.__version__})
    del document["tool"]
    assert not jsonschema.Draft202012Validator(schema(name)).is_valid(document)


def test_doctor() -> None:
    document = json.loads(
        Diagnosis(
            environment="/env (--python)", torch="2.13.0+cpu", python=None, ailments=(), healthy=("pkg==1",)
        ).to_json()
    )
    jsonschema.validate(document, schema("doctor"), cls=jsonschema.Draft202012Validator)


FITTING: Final = Fitting(name="a", version="1", rejected=(Rejected(version="2", reason="?"),))


@pytest.mark.parametrize("packages", [(), (FITTING,)])
def test_fit(packages: Sequence[Fitting]) -> None:
    document = json.loads(FitReport(torch="2.13.0+cpu", installed=False, packages=packages, obstacle=None).to_json())
    jsonschema.Draft202012Validator.check_schema(schema("fit"))
    jsonschema.validate(document, schema("fit"), cls=jsonschema.Draft202012Validator)


def test_no_command_is_forgotten() -> None:
    context = click.Context(main)
    with_json = {
        name
        for name in main.list_commands(context)
        for parameter in getattr(main.get_command(context, name), "params", ())
        if parameter.name == "form" and isinstance(parameter.type, click.Choice) and "json" in parameter.type.choices
    }
    assert with_json == {words[0] for _, words in DOCUMENTS} | {"doctor", "fit"}
    published = {path.name.removesuffix("-v1.json") for path in Path(abiscan.__file__).parent.glob("results/schema/*")}
    by_index = {"doctor", "fit", "matrix-versions"}  # their own tests have an index
    assert published == {name for name, _ in DOCUMENTS} | by_index | {"survey"}  # a survey is a file of lines
