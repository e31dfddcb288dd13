"""The JSON documents of the commands: msgspec writes them, and their published schemas are generated from the types.

A result whose fields are those of its document is the document. Any other has a ``JsonObject`` that describes it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec.json
from msgspec import Struct

import abiscan

if TYPE_CHECKING:
    from typing_extensions import Self


class JsonObject(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An object of a document, with its fields in order: what has its default is left out."""

    @classmethod
    def of(cls, source: object, /, **own: Any) -> Self:
        """Return the object whose fields are the attributes of the same names, but for those that are given."""
        return cls(**{name: own[name] if name in own else getattr(source, name) for name in cls.__struct_fields__})


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

    def _contents(self) -> Struct:
        """Return what the document has, without its version and the tool that made it."""
        return self

    def to_json(self) -> str:
        """Return the JSON document, version 1, as a text that ends in a newline."""
        return json_text(self._contents(), indent=1)


def json_text(contents: Struct, *, indent: int, version: int = 1) -> str:
    """Return a document, with the tool that made it: as ASCII that ends in a newline.

    :param indent: that of each level; 0 for a single line
    :param version: that of its schema
    """
    head = {"version": version, "tool": {"name": "abiscan", "version": abiscan.__version__}}
    with contextlib.suppress(UnicodeEncodeError):  # of a surrogate: a byte in a path
        # ten times as fast as ``json``, but escapes only what it must
        text = msgspec.json.encode(head)[:-1] + b"," + msgspec.json.encode(contents, enc_hook=str)[1:]
        # ``json`` escapes everything that is not ASCII, msgspec only what JSON requires: with anything else, the slower
        # one decides, so that all documents look alike. A terminal that obeys control characters gets none.
        if text.isascii() and b"\x7f" not in text:
            return (msgspec.json.format(text, indent=indent) if indent else text).decode() + "\n"
    document = {**head, **plain(contents)}
    return json.dumps(document, indent=indent or None, separators=None if indent else (",", ":")) + "\n"


def plain(contents: Struct) -> dict[str, Any]:
    """Return the contents of a document as JSON has them: versions and dates are texts."""
    return msgspec.to_builtins(contents, enc_hook=str, str_keys=True)  # type: ignore[no-any-return]


def read_schema(command: str, version: int = 1) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) that every JSON document of a command satisfies.

    :param command: the command, and for some of its documents a word more: ``check-lock`` and ``diff-lock`` for locks,
        ``matrix-versions`` for ``matrix --versions``, ``ops-api-version`` and ``ops-api-history`` for ``ops
        --api-version`` of a torch and of an extension, ``ops-model`` for ``ops`` of a saved model
    :param version: of the format; ``doctor`` has 1 and 2, and writes 2 by default
    """
    from importlib import resources

    text = resources.files("abiscan.results").joinpath(f"schema/{command}-v{version}.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]
