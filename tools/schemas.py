"""The published schemas of the JSON documents, made from the types that msgspec writes: ``make gen`` keeps them.

What a field means is in the docstring of its type, as ``:ivar field: meaning``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec.json
from msgspec import Struct

import abiscan
from abiscan.results.api_history import ApiHistory
from abiscan.results.check_document import PackageResultJson, ReportJson, ResultJson, SurveyJson
from abiscan.results.coverage import BackendReportJson
from abiscan.results.diff import ComparisonJson
from abiscan.results.doctor import DiagnosisJson, DiagnosisJson1
from abiscan.results.fit import FitReportJson
from abiscan.results.lock import LockComparison, LockFit, LockReport
from abiscan.results.matrix import CellJson, MatrixJson
from abiscan.results.model_operators import ModelOperatorsJson
from abiscan.results.operators import InventoriesJson, InventoryJson
from abiscan.results.release import ReleaseReportJson
from abiscan.results.stable import StableReportJson
from abiscan.results.torch_operators import TorchApiVersionsJson
from abiscan.results.versions import VersionTableJson

FOLDER: Final = Path(abiscan.__file__).parent / "results" / "schema"
DOCUMENTS: Final[dict[str, tuple[str, tuple[type[Struct], ...]]]] = {
    "check": ("check", (ReportJson,)),
    "check-lock": ("check LOCK", (LockReport,)),
    "coverage": ("coverage", (BackendReportJson,)),
    "diff": ("diff", (ComparisonJson,)),
    "diff-lock": ("diff OLD NEW of locks", (LockComparison,)),
    "doctor": ("doctor", (DiagnosisJson1,)),
    "fit": ("fit", (FitReportJson,)),
    "fit-lock": ("fit LOCK", (LockFit,)),
    "matrix": ("matrix", (MatrixJson,)),
    "matrix-versions": ("matrix --versions", (VersionTableJson,)),
    "ops": ("ops", (InventoryJson, InventoriesJson)),
    "ops-api-history": ("ops TARGET --api-version", (ApiHistory,)),
    "ops-api-version": ("ops --torch SPEC --api-version", (TorchApiVersionsJson,)),
    "ops-model": ("ops MODEL", (ModelOperatorsJson,)),
    "release": ("release", (ReleaseReportJson,)),
    "stable": ("stable", (StableReportJson,)),
    "survey": ("survey, one line of the output", (SurveyJson,)),
}
"""The documents, version 1: the command that writes each, and its type."""

VERSION_2: Final[dict[str, tuple[str, tuple[type[Struct], ...]]]] = {"doctor": ("doctor", (DiagnosisJson,))}
"""Those that are written in version 2 by default."""

ERRORS: Final = {
    ResultJson: ("fails", "predicted_error"),
    CellJson: ("fails", "predicted_error"),
    PackageResultJson: ("import-fails", "error"),
}
"""The verdict that an object has exactly where it has an error, which no type can say."""

HEAD: Final = {
    "tool": {
        "type": "object",
        "required": ["name", "version"],
        "properties": {"name": {"const": "abiscan"}, "version": {"type": "string"}},
    },
}


def schema(name: str, version: int = 1) -> dict[str, Any]:
    """The schema (draft 2020-12) of a document."""
    words, types = (VERSION_2 if version == 2 else DOCUMENTS)[name]
    begin: dict[str, Any] = {"version": {"const": version}, **HEAD}
    tops, parts = msgspec.json.schema_components(types, schema_hook=lambda _: {"type": "string", "minLength": 1})
    # Those of the package count, whatever else has been imported that is called alike.
    ordered = sorted(_subclasses(Struct), key=lambda cls: cls.__module__.startswith("abiscan."))
    structs = {cls.__name__: cls for cls in ordered}
    for part in parts.keys() & structs.keys():
        # What JSON has of a result means what it means in the result.
        _describe(parts[part], structs[part], structs.get(part.removesuffix("Json"), Struct))
    for part in parts.values():
        part.pop("title", None)
        part["description"] = _in_json(part["description"]).rstrip(".")
    choice = {"oneOf": list(tops), "properties": {}, "required": []}
    whole: dict[str, Any] = parts.pop(types[0].__name__) if len(types) == 1 else choice
    # A document has two fields more than what msgspec writes of it.
    whole |= {"required": [*begin, *whole["required"]], "properties": begin | whole["properties"]}
    whole.pop("description", None)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"abiscan:{name}-v{version}"}
    document = {
        **head,
        "title": f"abiscan {words}, JSON version {version}",
        **whole,
        **({"$defs": parts} if parts else {}),
    }
    text = re.sub(r'(\w)Json"', r'\1"', json.dumps(document))
    return json.loads(text, object_hook=_without_named_keys)  # type: ignore[no-any-return]


def _without_named_keys(item: dict[str, Any]) -> dict[str, Any]:
    """Drop the type of keys, which only msgspec 0.23 and newer write: a schema is the same for all versions."""
    if "$ref" in item.get("propertyNames", {}):
        del item["propertyNames"]
    return item


def _subclasses(cls: type[Struct]) -> Iterator[type[Struct]]:
    for inner in cls.__subclasses__():
        yield inner
        yield from _subclasses(inner)


def _describe(part: dict[str, Any], cls: type[Struct], source: type[Struct]) -> None:
    """Say what a type and its fields are, as its docstring does, or that of the type that it is made from."""
    names = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
    for base in (*reversed(source.__mro__), *reversed(cls.__mro__)):
        text, *fields = re.split(r"^:ivar ", inspect.getdoc(base) or "" if base.__doc__ else "", flags=re.MULTILINE)
        for field in fields if issubclass(base, Struct) else ():
            name, _, meaning = field.partition(": ")
            if name in names:
                part["properties"][names[name]]["description"] = _in_json(meaning)
    part["description"] = text.partition("\n\n")[0]
    if cls in ERRORS:
        verdict, error = ERRORS[cls]
        part |= {"if": _has("verdict", {"const": verdict}), "then": _has(error, {"type": "object"})}
        part |= {"else": _has(error, {"type": "null"})}
    for name, field in part["properties"].items():
        if "default" in field and not cls.__struct_config__.omit_defaults:
            # What is not left out is always there, whatever its default.
            del field["default"]
            part["required"].append(name)
        elif field.get("default", "") is None:
            # What is left out where it is null is never null.
            (other,) = (choice for choice in field.pop("anyOf") if choice != {"type": "null"})
            del field["default"]
            field.update(other)
    part["required"] = [name for name in part["properties"] if name in part["required"]]


def _has(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {name: value}}


def _in_json(text: str) -> str:
    """Words about Python as words about JSON, on one line."""
    return re.sub(r"\bNone\b", "null", " ".join(text.replace("``", "`").split()))


def schema_files() -> dict[Path, str]:
    """The published schemas, as they are to be."""
    first = {FOLDER / f"{name}-v1.json": text_of(schema(name)) for name in DOCUMENTS}
    return first | {FOLDER / f"{name}-v2.json": text_of(schema(name, 2)) for name in VERSION_2}


def text_of(schema: dict[str, Any]) -> str:
    """A schema as text: each type on a line, so that a change shows where it is."""
    parts = {name: json.dumps(part, ensure_ascii=False) for name, part in schema.pop("$defs", {}).items()}
    rows = {key: json.dumps(value, ensure_ascii=False) for key, value in schema.items()}
    return _block({**rows, **({"$defs": _block(parts, "  ")} if parts else {})}, "") + "\n"


def _block(rows: dict[str, str], indent: str) -> str:
    lines = ",\n".join(f'{indent}  "{key}": {text}' for key, text in rows.items())
    return f"{{\n{lines}\n{indent}}}"
