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
from msgspec import field

import abiscan
from abiscan.cli import main
from abiscan.results.doctor import Diagnosis, EnvironmentState, TorchHealth
from abiscan.results.document import Document, JsonObject
from abiscan.results.fit import FitReport, Fitting, Rejected
from abiscan.results.stable import StableReport
from abiscan.results.unchecked import Unchecked
from tests.fakes import SAMPLES
from tests.schemas import is_valid, validate
from tools import schemas
from tools.schemas import schema_files

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
    ("release", ["release", WHEEL]),
    ("stable", ["stable", LOADS]),
    ("ops", ["ops", LOADS]),
    ("ops", ["ops", WHEEL]),
    ("ops", ["ops", "--torch", "1.4.0"]),
    ("ops-api-version", ["ops", "--torch", "1.4.0", "--api-version"]),
    ("stable", ["stable", LOADS]),
    ("ops-api-history", ["ops", LOADS, "--api-version", "--torch", "2.12.0", "--torch", "2.13.0"]),
]


@pytest.mark.parametrize("file", schema_files(), ids=lambda file: file.name)
def test_the_published_schemas_are_those_of_the_types(file: Path) -> None:
    assert file.read_text("utf-8") == schema_files()[file], "run `make gen`"


class Described(Document, frozen=True, kw_only=True):
    """A document.

    :ivar plain: what it is,
        None if it is ``nothing``
    """

    plain: str | None
    part: DescribedPart
    always: int = 1


class DescribedPart(JsonObject, frozen=True, kw_only=True):
    """A part of it."""

    name: str = field(name="class")
    since: str | None = None


def test_a_field_of_a_type_is_one_of_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schemas.DOCUMENTS, "some", ("some", (Described,)))
    made = schemas.schema("some")
    assert made["required"] == ["version", "tool", "plain", "part", "always"]  # what has a default is written, too
    assert made["properties"]["plain"]["description"] == "what it is, null if it is `nothing`"
    part = made["$defs"]["DescribedPart"]
    assert part["required"] == ["class"]
    assert part["properties"]["since"] == {"type": "string"}  # left out, and so never null
    text = Described(plain=None, part=DescribedPart(name="a")).to_json()
    jsonschema.validate(json.loads(text), made, cls=jsonschema.Draft202012Validator)
    assert list(json.loads(text)) == made["required"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), DOCUMENTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_document_satisfies_its_schema(name: str, words: Sequence[str]) -> None:
    printed = click.testing.CliRunner().invoke(main, [*words, "--format", "json"])
    document = json.loads(printed.stdout)
    validate(document, name)
    assert (document["version"], document["tool"]) == (1, {"name": "abiscan", "version": abiscan.__version__})
    del document["tool"]
    assert not is_valid(document, name)


@pytest.mark.parametrize("name", ["a/b", '"\\\b\t', "\x7f\x01", "größe 🔥 \u2028", "not UTF-8: \udcff"])
def test_a_document_is_ascii_whatever_the_names(name: str) -> None:
    unread = Unchecked(target=name, problem="-", fix="-", readable=False)
    text = StableReport(rows=(), unchecked=(unread,)).to_json()
    assert json.loads(text)["unchecked"][0]["target"] == name
    assert text == json.dumps(json.loads(text), indent=1) + "\n"


def test_doctor() -> None:
    diagnosis = Diagnosis(
        chosen="/env (--python)",
        environment=EnvironmentState(python="3.11.7", executable=None, root=None),
        torch=TorchHealth(version="2.13.0+cpu", imports=None),
    )
    document = json.loads(diagnosis.to_json())
    validate(document, "doctor", 2)
    first = json.loads(diagnosis.to_json1())
    validate(first, "doctor")
    assert (document["version"], first["version"]) == (2, 1)


FITTING: Final = Fitting(name="a", version="1", rejected=(Rejected(version="2", reason="?"),))


@pytest.mark.parametrize("packages", [(), (FITTING,)])
def test_fit(packages: Sequence[Fitting]) -> None:
    document = json.loads(FitReport(torch="2.13.0+cpu", installed=False, packages=packages, obstacle=None).to_json())
    validate(document, "fit")


def test_no_command_is_forgotten() -> None:
    context = click.Context(main)
    with_json = {
        name
        for name in main.list_commands(context)
        for parameter in getattr(main.get_command(context, name), "params", ())
        if parameter.name == "form" and isinstance(parameter.type, click.Choice) and "json" in parameter.type.choices
    }
    assert with_json == {words[0] for _, words in DOCUMENTS} | {"doctor", "fit"}
    published = {
        path.name.removesuffix("-v1.json") for path in Path(abiscan.__file__).parent.glob("results/schema/*-v1.json")
    }
    by_index = {
        "doctor",
        "fit",
        "matrix-versions",
        "check-lock",
        "diff-lock",
        "fit-lock",
    }  # their own tests have an index
    assert published == {name for name, _ in DOCUMENTS} | by_index | {"survey"}  # a survey is a file of lines
