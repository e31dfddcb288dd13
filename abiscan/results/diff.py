"""The result of ``abiscan diff``: what changed between two torches. Its JSON Schema is ``schema/diff-v1.json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from abiscan.results.document import Document, JsonObject
from abiscan.results.fields import Count, Names, OperatorName, Text
from abiscan.torches.layout_changes import LayoutChange
from abiscan.torches.name_changes import NameChanges

_ApiVersion: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]+$")]
_Operators: TypeAlias = Annotated[Sequence[OperatorName], Meta(extra_json_schema={"uniqueItems": True})]


class SymbolChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The symbols that one library added and removed, sorted.

    :ivar library: its base name
    """

    library: str
    added: Names
    removed: Names


class SchemaChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator with a changed schema.

    :ivar old: the schema as torch prints it
    :ivar difference: the first one that torch cares about, in words; None if none
    """

    operator: OperatorName
    old: str
    new: str
    difference: str | None


class DispatchChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator whose kernels are for different keys than before, sorted.

    :ivar added: the dispatch keys that have kernels now
    """

    operator: OperatorName
    added: Names
    removed: Names


class KeyChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dispatch key with a changed number.

    :ivar old: None if the key does not exist
    """

    key: str
    old: Count | None
    new: Count | None


class Break(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a package uses that the second torch does not have, or that rejects the call.

    :ivar error: what Python says of a call; None for what is missing
    :ivar places: the files of the package that use it; with the line where that is known
    """

    kind: Literal["name", "call", "operator", "symbol"]
    name: Text
    error: str | None = None
    places: Sequence[Text]


class LayoutChangeJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class whose memory layout changed.

    Sizes alone: the fields of both layouts would be thousands of lines, and the differences have what matters.

    :ivar old_size: in bytes
    :ivar differences: field by field, in words
    """

    name: Text = field(name="class")
    old_size: Count | None
    new_size: Count | None
    differences: Names


class ComparisonJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document of ``abiscan diff``."""

    old: str
    new: str
    symbols: Sequence[SymbolChange]
    dispatch_keys: Sequence[KeyChange]
    old_api_version: _ApiVersion
    new_api_version: _ApiVersion
    operators_added: _Operators
    operators_removed: _Operators
    schemas_changed: Sequence[SchemaChange]
    dispatch_changed: Sequence[DispatchChange]
    layouts_changed: Sequence[LayoutChangeJson]
    names: NameChanges | None
    breaks: Sequence[Break]
    cuda_compared: bool
    gaps: Sequence[str]


class Comparison(Document, frozen=True, kw_only=True):
    """Everything that changed.

    :ivar old: the first torch, by its full version
    :ivar new: the second torch
    :ivar symbols: the libraries whose exports changed, sorted by name
    :ivar dispatch_keys: the dispatch keys whose numbers changed
    :ivar old_api_version: of all operators compared, together
    :ivar layouts_changed: the classes whose memory layout changed
    :ivar names: the Python names, None if those of either torch are not known
    :ivar breaks: what of a package breaks, if the comparison is limited to what one uses
    :ivar cuda_compared: false if only one of the two is a CUDA build
    :ivar gaps: what could not be read of the operators
    """

    old: str
    new: str
    old_api: str
    new_api: str
    symbols: tuple[SymbolChange, ...]
    keys: tuple[KeyChange, ...]
    operators_added: tuple[str, ...]
    operators_removed: tuple[str, ...]
    schemas: tuple[SchemaChange, ...]
    dispatch: tuple[DispatchChange, ...]
    cuda_compared: bool
    gaps: tuple[str, ...]
    layouts: tuple[LayoutChange, ...] = ()
    names: NameChanges | None = None
    breaks: tuple[Break, ...] = ()

    def _contents(self) -> ComparisonJson:
        return ComparisonJson.of(
            self,
            dispatch_keys=self.keys,
            old_api_version=self.old_api,
            new_api_version=self.new_api,
            schemas_changed=self.schemas,
            dispatch_changed=self.dispatch,
            layouts_changed=[
                LayoutChangeJson.of(layout, old_size=layout.old.size, new_size=layout.new.size)
                for layout in self.layouts
            ],
        )
