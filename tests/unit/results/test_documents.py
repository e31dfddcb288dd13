"""Every JSON document of every command satisfies the schema that is published for it."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import click
import click.testing
import jsonschema
import pytest

import abiscan
import abiscan.results
from abiscan.cli import main
from abiscan.registrations import RegisteredKernel
from abiscan.results.check import Suppressed
from abiscan.results.doctor import Diagnosis
from abiscan.results.document import SHAPES, Document, read_schema
from abiscan.results.fit import FitReport, Fitting, Rejected
from abiscan.results.matrix import PackageCell
from abiscan.results.model import ModelResult
from abiscan.results.operators import ExtensionOperators
from abiscan.results.stable import StableReport, StableSummary
from abiscan.results.unchecked import Unchecked
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


# Types with only some fields of an object, which those of a finding, a package or an extension complete.
PARTS: Final = {Suppressed, ModelResult, ExtensionOperators, PackageCell, RegisteredKernel, StableSummary}
BESIDE: Final = {
    "Kernel": {"gpu_targets"},
    "TorchOperators": {"gpu", "cpu"},
}
"""The fields that come to those of a type where it is used, or that it does without."""


def objects(part: Any) -> Iterator[frozenset[str]]:
    """Yield the names of the fields of each object in a schema, without those that every document has."""
    if isinstance(part, dict):
        if part.get("type") == "object" and "properties" in part:
            yield frozenset(part["properties"]) - ({"version", "tool"} if "tool" in part["properties"] else set())
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from objects(inner)


def names(cls: type) -> Iterator[str]:
    """Yield the names of the fields that a shape has, with those of the values that stand for theirs."""
    for name, _, _ in SHAPES[cls]:
        yield from names(shaped(get_type_hints(cls)[name[1:]])) if name.startswith("*") else [name]


def shaped(hint: Any) -> type:
    """The type with a shape in a type that may be optional."""
    (cls,) = (cls for cls in (hint, *get_args(hint)) if cls in SHAPES)
    return cls  # type: ignore[no-any-return]


def test_the_shapes_of_the_types_are_those_of_the_schemas() -> None:
    for module in pkgutil.iter_modules(abiscan.results.__path__):
        importlib.import_module(f"abiscan.results.{module.name}")
    files = Path(abiscan.__file__).parent.glob("results/schema/*")
    published = {fields for file in files for fields in objects(json.loads(file.read_text("utf-8")))}
    for cls in set(SHAPES) - PARTS:
        fields = set(names(cls)) | BESIDE.get(cls.__name__, set())
        assert fields in published, f"{cls.__name__}: {sorted(fields)}"
    assert all(cls in SHAPES or frozenset(cls.__struct_fields__) in published for cls in Document.__subclasses__())


@pytest.mark.parametrize(("name", "words"), DOCUMENTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_document_satisfies_its_schema(name: str, words: Sequence[str]) -> None:
    printed = click.testing.CliRunner().invoke(main, [*words, "--format", "json"])
    document = json.loads(printed.stdout)
    jsonschema.Draft202012Validator.check_schema(read_schema(name))
    jsonschema.validate(document, read_schema(name), cls=jsonschema.Draft202012Validator)
    assert (document["version"], document["tool"]) == (1, {"name": "abiscan", "version": abiscan.__version__})
    del document["tool"]
    assert not jsonschema.Draft202012Validator(read_schema(name)).is_valid(document)


@pytest.mark.parametrize("name", ["a/b", '"\\\b\t', "\x7f\x01", "größe 🔥 \u2028", "not UTF-8: \udcff"])
def test_a_document_is_ascii_whatever_the_names(name: str) -> None:
    unread = Unchecked(target=name, problem="-", fix="-", readable=False)
    text = StableReport(rows=(), unchecked=(unread,)).to_json()
    assert json.loads(text)["unchecked"][0]["target"] == name
    assert text == json.dumps(json.loads(text), indent=1) + "\n"


def test_doctor() -> None:
    document = json.loads(
        Diagnosis(
            environment="/env (--python)", torch="2.13.0+cpu", python=None, ailments=(), healthy=("pkg==1",)
        ).to_json()
    )
    jsonschema.validate(document, read_schema("doctor"), cls=jsonschema.Draft202012Validator)


FITTING: Final = Fitting(name="a", version="1", rejected=(Rejected(version="2", reason="?"),))


@pytest.mark.parametrize("packages", [(), (FITTING,)])
def test_fit(packages: Sequence[Fitting]) -> None:
    document = json.loads(FitReport(torch="2.13.0+cpu", installed=False, packages=packages, obstacle=None).to_json())
    jsonschema.Draft202012Validator.check_schema(read_schema("fit"))
    jsonschema.validate(document, read_schema("fit"), cls=jsonschema.Draft202012Validator)


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
