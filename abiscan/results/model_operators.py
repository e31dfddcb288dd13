"""The result of ``abiscan ops MODEL``: what a saved model needs. Its JSON Schema is ``schema/ops-model-v1.json``."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from abiscan.models.model import ModelFormat
from abiscan.results.document import Document, give_shape
from abiscan.results.selection import Selection


class NeededOperator(Struct, frozen=True, kw_only=True):
    """An operator that a model calls.

    ``calls`` are the places of the calls in its file; ``brought_by`` is the package that is known to register it, None
    for torch's own and for what nobody is known to bring.
    """

    name: str
    brought_by: str | None
    calls: tuple[str, ...]


@give_shape(
    "target kind format saved_by versions operators packages classes globals devices instructions libraries gaps",
    kind=lambda _: "model",
)
class ModelOperators(Document, frozen=True, kw_only=True):
    """What a saved model needs.

    ``versions`` are those in its file, by what they are of: ``archive``, ``schema``, ``bytecode``, ``pt2``.
    ``libraries`` are the shared objects in it, with the operators of theirs in the ``operators`` too. ``instructions``
    are those beyond the baseline that AOTInductor says it has compiled for.
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

    def only(self, selection: Selection) -> ModelOperators:
        """Return the operators that are selected."""
        chosen = tuple(operator for operator in self.operators if selection.admits(operator.name))
        return replace(self, operators=chosen) if selection else self

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that bring operators."""
        return tuple(dict.fromkeys(operator.brought_by for operator in self.operators if operator.brought_by))
