"""The result of ``abiscan ops MODEL``: what a saved model needs. Its JSON Schema is ``schema/ops-model-v1.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from abiscan.models.model import ModelFormat
from abiscan.results.document import Document, JsonObject
from abiscan.results.selection import Selection


class NeededOperator(Struct, frozen=True, kw_only=True):
    """An operator that a model calls.

    :ivar name: the operator, with the overload if the file names one
    :ivar brought_by: the package that registers it, None for torch, and if none is known
    :ivar calls: the places of the calls in the file
    """

    name: str
    brought_by: str | None
    calls: tuple[str, ...]


class ModelOperatorsJson(JsonObject, frozen=True, kw_only=True):
    """The document of ``abiscan ops MODEL``."""

    target: str
    kind: Literal["model"]
    format: ModelFormat
    saved_by: str | None
    versions: Mapping[str, str]
    operators: Sequence[NeededOperator]
    packages: Sequence[str]
    classes: Sequence[str]
    globals: Sequence[str]
    devices: Sequence[str]
    instructions: Sequence[str]
    libraries: Sequence[str]
    gaps: Sequence[str]


class ModelOperators(Document, frozen=True, kw_only=True):
    """What a saved model needs.

    :ivar target: what the user named
    :ivar format: how the model was saved
    :ivar saved_by: the torch that saved the model, if the file names it
    :ivar versions: the versions in the file: of the archive, the schema of the program, the bytecode, the pt2 archive
    :ivar packages: the packages that bring operators
    :ivar classes: the custom classes
    :ivar globals: the Python names in its pickles
    :ivar devices: the devices that the file names
    :ivar instructions: the instruction sets that it was compiled for, as torch calls them
    :ivar libraries: the shared objects in it
    :ivar gaps: what could not be read
    """

    target: str
    format: ModelFormat
    saved_by: str | None
    versions: Mapping[str, str]
    operators: tuple[NeededOperator, ...]
    classes: tuple[str, ...]
    globals: tuple[str, ...]
    devices: tuple[str, ...]
    instructions: tuple[str, ...]
    libraries: tuple[str, ...]
    gaps: tuple[str, ...]

    def _contents(self) -> ModelOperatorsJson:
        return ModelOperatorsJson.of(self, kind="model")

    def only(self, selection: Selection) -> ModelOperators:
        """Return the operators that are selected."""
        chosen = tuple(operator for operator in self.operators if selection.admits(operator.name))
        return replace(self, operators=chosen) if selection else self

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that bring operators."""
        return tuple(dict.fromkeys(operator.brought_by for operator in self.operators if operator.brought_by))
