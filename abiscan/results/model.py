"""What ``abiscan check`` says about a saved model, beside the verdict that every package has."""

from __future__ import annotations

import enum

from msgspec import Struct

from abiscan.models.model import ModelFormat
from abiscan.results.document import give_shape


class OperatorState(enum.Enum):
    """Whether an operator that a model calls is there."""

    OK = "ok"
    MISSING = "missing"
    CHANGED = "changed"
    """It is there, and takes no such arguments."""
    UNKNOWN = "unknown"


@give_shape("name brought_by state")
class ModelOperator(Struct, frozen=True, kw_only=True):
    """An operator that a model calls.

    ``brought_by`` is the package that brings it, None for torch, and for what nobody is known to bring. ``at`` is a
    place of a call.
    """

    name: str
    state: OperatorState
    brought_by: str | None = None
    at: str = ""


@give_shape(
    "kind format saved_by fails_at operators classes devices warnings",
    kind=lambda _: "model",
)
class ModelResult(Struct, frozen=True, kw_only=True):
    """What is known of a model on a torch.

    ``fails_at`` is the call that fails, None if none does. ``warnings`` are what torch says without failing.
    """

    format: ModelFormat
    saved_by: str | None
    fails_at: str | None
    operators: tuple[ModelOperator, ...] = ()
    classes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
