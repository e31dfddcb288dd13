"""The graph of an exported program: JSON, whose nodes call operators with named arguments.

All versions of the schema since torch 2.1 have the same outline (``torch/_export/serde/schema.py``), so one reader is
enough: a graph has nodes, and a node a target and inputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from abiscan.errors import InputError
from abiscan.models import schema
from abiscan.models.model import OperatorCall
from abiscan.regex import regex
from abiscan.words import listed

_TARGET: Final = regex(
    r"torch\.ops\.(?P<namespace>\w+)\.(?P<name>\w+)(?:\.(?P<overload>\w+))?",
)
_HIGHER_ORDER: Final = "higher_order"
_FIX: Final = "save the model again: it is damaged or malicious"
_CLASS: Final = regex(r"__torch__\.torch\.classes\.(\w+)\.(\w+)")


class Graph(Struct, frozen=True, kw_only=True):
    """What is known of an exported program's graph; ``weights`` has the names of those that are saved with it."""

    operators: tuple[OperatorCall, ...]
    schema: tuple[int, ...] | None
    devices: tuple[str, ...]
    classes: tuple[str, ...]
    torch_version: str | None
    higher_order: tuple[str, ...]
    weights: tuple[str, ...]


def read_graph(content: bytes, subject: str, member: str) -> Graph:
    """Read a graph.

    :param subject: its name in messages
    :param member: its name in places
    :raises InputError: it is not the JSON of an exported program
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(subject, f"is not the JSON of an exported program: {error}", _FIX) from error
    if not isinstance(document, dict):
        raise InputError(subject, "is not the JSON of an exported program", _FIX)
    if missing := next(_missing_parts(document), None):
        raise InputError(subject, f"is not an exported program: {missing}", _FIX)
    try:
        program = _convert_program(document)
    except schema.ProgramError as error:
        raise InputError(subject, f"is not an exported program: {error}", _FIX) from error
    operators: list[OperatorCall] = []
    devices: dict[str, None] = {}
    classes: dict[str, None] = {}
    higher: dict[str, None] = {}
    # Any object with a target is a node: where the graph is in the document differs from version to version.
    for node in _all_objects(document):
        if isinstance(target := node.get("target"), str) and target.startswith("torch.ops."):
            call = _read_call(node, target, member)
            if call:
                operators.append(call)
            elif target.startswith(f"torch.ops.{_HIGHER_ORDER}."):
                higher[target] = None
        if isinstance(device := node.get("device"), dict) and isinstance(device.get("type"), str):
            devices[device["type"]] = None
        name = node.get("class_fqn")
        if isinstance(name, str) and (match := _CLASS.fullmatch(name)):
            classes[f"{match[1]}.{match[2]}"] = None
    version = document.get("torch_version")
    return Graph(
        operators=tuple(operators),
        schema=_read_schema_version(document.get("schema_version")),
        devices=tuple(devices),
        classes=tuple(classes),
        torch_version=version if isinstance(version, str) and version.partition("+")[0][:1].isdigit() else None,
        higher_order=tuple(higher),
        weights=tuple(program.list_weights()) if program is not None else (),
    )


# The fields without a default in every release (torch/_export/serde/schema.py), with what they hold. ``schema_version``
# was one number up to 2.2.
_REQUIRED: Final[tuple[tuple[tuple[str, ...], Mapping[str, type | tuple[type, ...]]], ...]] = (
    ((), {"graph_module": dict, "opset_version": object, "range_constraints": dict, "schema_version": (dict, int)}),
    (("graph_module",), {"graph": dict, "signature": dict, "module_call_graph": list}),
    (
        ("graph_module", "graph"),
        {
            **dict.fromkeys(("inputs", "outputs", "nodes"), list),
            **dict.fromkeys(("tensor_values", "sym_int_values", "sym_bool_values"), dict),
        },
    ),
    (("graph_module", "signature"), {"input_specs": list, "output_specs": list}),
)
_NODE_FIELDS: Final = {"target": str, "inputs": list, "outputs": list, "metadata": object}


def _missing_parts(document: dict[str, Any]) -> Iterator[str]:
    """Yield what a program lacks that every release asks for as it loads one."""
    for path, fields in _REQUIRED:
        part = document
        for name in path:
            part = part[name]  # which the fields before have
        yield from _wrong_fields(part, fields, ".".join(path))
    for number, node in enumerate(document["graph_module"]["graph"]["nodes"]):
        yield from _wrong_fields(node, _NODE_FIELDS, f"node {number}")
    version = document["schema_version"]
    if isinstance(version, dict):
        yield from _wrong_fields(version, {"major": int, "minor": int}, "schema_version")
    elif version >= schema.VERSION[0]:
        yield "schema_version is a bare number, as torch up to 2.2 saved it"


def _convert_program(document: dict[str, Any]) -> schema.ExportedProgram | None:
    """Return a program as the schema describes it; None if it is of another version.

    :raises ProgramError: it is not what torch saves
    """
    major, minor = schema.VERSION
    version = _read_schema_version(document["schema_version"])
    described = version is not None and len(version) > 1 and version[0] == major and version[1] <= minor
    return schema.convert(document, schema.ExportedProgram) if described else None


def _wrong_fields(part: object, fields: Mapping[str, type | tuple[type, ...]], place: str) -> Iterator[str]:
    if not isinstance(part, dict):
        yield f"{place} is not an object"
    elif wrong := [name for name, kind in fields.items() if name not in part or not isinstance(part[name], kind)]:
        yield f"{f'{place} has' if place else 'it has'} no {listed(wrong)} as torch saves it"


def _all_objects(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all objects in it, in the order of the file."""
    # A stack, not recursion: the depth of the document is the author's choice. Reversed, so that the first comes first.
    waiting: list[Any] = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting += reversed(item.values())
        elif isinstance(item, list):
            waiting += reversed(item)


def _read_call(node: dict[str, Any], target: str, member: str) -> OperatorCall | None:
    match = _TARGET.fullmatch(target)
    if match is None or match["namespace"] == _HIGHER_ORDER:
        return None
    # Inputs have the names of arguments from the schema; where some lack one, their number is not told by position.
    inputs = node.get("inputs")
    inputs = [value for value in inputs if isinstance(value, dict)] if isinstance(inputs, list) else []
    names = [value["name"] for value in inputs if isinstance(value.get("name"), str)]
    name = node.get("name")
    overload = match["overload"] or "default"
    return OperatorCall(
        operator=f"{match['namespace']}::{match['name']}",
        overload="" if overload == "default" else overload,
        positional=0 if len(names) == len(inputs) else None,
        names=tuple(filter(None, names)),
        at=f"{member}: {name}" if isinstance(name, str) else member,
    )


def _read_schema_version(value: object) -> tuple[int, ...] | None:
    if isinstance(value, int):
        return (value,)
    if isinstance(value, dict) and isinstance(value.get("major"), int) and isinstance(value.get("minor"), int):
        return value["major"], value["minor"]
    return None


def schema_version(text: bytes) -> tuple[int, ...] | None:
    """Return the version in a member ``version``: ``8.7``; None if it is none."""
    words = text.decode("ascii", "replace").strip().split(".")
    return tuple(map(int, words)) if all(word.isdecimal() and len(word) < 10 for word in words) else None
