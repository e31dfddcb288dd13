"""The result of ``abiscan diff``: what changed between two torches. Its JSON Schema is ``schema/diff-v1.json``."""

from __future__ import annotations

from msgspec import Struct

from abiscan.results.document import Document, give_shape
from abiscan.torches.layout_changes import LayoutChange
from abiscan.torches.name_changes import NameChanges


class SymbolChange(Struct, frozen=True, kw_only=True):
    """The symbols that one library added and removed, sorted."""

    library: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


class SchemaChange(Struct, frozen=True, kw_only=True):
    """An operator with a changed schema; ``difference`` describes the first difference that matters to torch."""

    operator: str
    old: str
    new: str
    difference: str | None


class DispatchChange(Struct, frozen=True, kw_only=True):
    """An operator whose kernels are for different keys than before; ``added`` and ``removed`` are sorted."""

    operator: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


class KeyChange(Struct, frozen=True, kw_only=True):
    """A dispatch key with a changed number; None if it does not exist."""

    key: str
    old: int | None
    new: int | None


# Sizes alone: the fields of both layouts would be thousands of lines, and ``differences`` has what matters.
give_shape("class=name old_size=old.size new_size=new.size differences")(LayoutChange)


@give_shape(
    "old new symbols dispatch_keys=keys old_api_version=old_api new_api_version=new_api operators_added"
    " operators_removed schemas_changed=schemas dispatch_changed=dispatch layouts_changed=layouts names"
    " cuda_compared gaps"
)
class Comparison(Document, frozen=True, kw_only=True):
    """Everything that changed.

    ``old_api`` and ``new_api`` are the interface versions of all compared operators together. ``cuda_compared`` is
    False if only one of the two builds has CUDA: CUDA kernels are left out then. ``names`` are those of Python, None if
    they are not known of both. ``gaps`` says which operators of
    either could not be read.
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
