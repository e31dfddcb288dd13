"""The JSON documents of the commands: one encoder of results, by the shapes of their types, and the published schemas.

A type with a shape is an object with the fields that the shape names; one without has all of its own. The unit tests
compare the shapes with the schemas.
"""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Callable, Mapping
from importlib import resources
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec.json
from msgspec import NODEFAULT, Struct

import abiscan

_Type = TypeVar("_Type", bound=type)
_Field = tuple[str, Callable[[Any], Any], Any]  # its name, what has its value, and the value that is left out

SHAPES: Final[dict[type, tuple[_Field, ...]]] = {}
"""The types that have a shape."""


def give_shape(names: str, **computed: Callable[[Any], Any]) -> Callable[[_Type], _Type]:
    """Give a type a shape: the names of the fields of its JSON object, in order.

    ``name=attribute`` has another name than the attribute, ``name?`` is left out where it has its default, ``*name``
    stands for the fields of that value.

    :param computed: the values of fields that are no attributes
    """

    def decorate(cls: _Type) -> _Type:
        fields = []
        # A small language instead of a method for each type: the shape stands next to the fields, in the order of the
        # document, and can be compared with the schema.
        for word in names.split():
            text, _, attribute = word.partition("=")
            name = text.rstrip("?")
            # ``attrgetter`` follows dots: ``code.targets`` takes a field of a field.
            value = computed.get(name) or attrgetter(attribute or name.lstrip("*"))
            fields.append((name, value, _default_of(cls, name) if text != name else NODEFAULT))
        SHAPES[cls] = tuple(fields)
        return cls

    return decorate


def encode_plain(value: Any) -> Any:
    """Return a value as JSON has it; versions and dates as texts."""
    cls = type(value)
    # From the commonest to the rarest: a large report has a hundred thousand values.
    if value is None or cls in _AS_IT_IS:
        return value
    if fields := SHAPES.get(cls):
        return _encode_object(value, fields)
    if isinstance(value, Mapping):
        return {encode_plain(key): encode_plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        # Most lists are of names, for which a call each would take as long as all the rest.
        return [entry if type(entry) is str else encode_plain(entry) for entry in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Struct):
        return {name: encode_plain(getattr(value, name)) for name in value.__struct_fields__}
    return str(value)


_AS_IT_IS: Final = frozenset({str, int, bool})


def _encode_object(value: Any, fields: tuple[_Field, ...]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value_of, left_out in fields:
        entry = value_of(value)
        if name.startswith("*"):
            document |= encode_plain(entry) or {}
        # equal.
        elif left_out is NODEFAULT or entry != left_out:
            document[name] = encode_plain(entry)
    return document


def _default_of(cls: Any, name: str) -> Any:
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    # ``__struct_defaults__`` is aligned with the last of the fields.
    default = defaults[names.index(name) - len(names)]
    return default.factory() if hasattr(default, "factory") else default


class Document(Struct, frozen=True, kw_only=True):
    """A result that is a JSON document."""

    def __repr__(self) -> str:
        """Return one line: what has many parts is counted, since a prompt shows this."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        parts = [
            f"{len(value)} {name}" if isinstance(value, tuple | Mapping) else f"{name}={value!r}"
            for name, value in fields.items()
            if value is not None and not isinstance(value, Struct)
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def to_json(self) -> str:
        """Return the JSON document, version 1, as a text that ends in a newline."""
        return json_text(self, indent=1)


def json_text(result: Any, *, indent: int) -> str:
    """Return a document, version 1, with the tool that made it: as ASCII that ends in a newline.

    :param indent: that of each level; 0 for a single line
    """
    document = {"version": 1, "tool": {"name": "abiscan", "version": abiscan.__version__}, **encode_plain(result)}
    with contextlib.suppress(UnicodeEncodeError):  # of a surrogate: a byte in a path
        text = msgspec.json.encode(document)  # ten times as fast as ``json``, but escapes only what it must
        # ``json`` escapes everything that is not ASCII, msgspec only what JSON requires: with anything else, the slower
        # one decides, so that all documents look alike. A terminal that obeys control characters gets none.
        if text.isascii() and b"\x7f" not in text:
            return (msgspec.json.format(text, indent=indent) if indent else text).decode() + "\n"
    return json.dumps(document, indent=indent or None, separators=None if indent else (",", ":")) + "\n"


def read_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) that every JSON document of a command satisfies.

    :param command: ``check``, ``coverage``, ``diff``, ``doctor``, ``fit``, ``matrix`` or ``ops``;
        ``ops-api-version`` and ``ops-api-history`` for ``ops --api-version`` of a torch and of an extension,
        ``ops-model`` for ``ops`` of a saved model
    """
    text = resources.files("abiscan.results").joinpath(f"schema/{command}-v1.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]
