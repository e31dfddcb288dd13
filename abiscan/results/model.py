"""What ``abiscan check`` says about a saved model, besides the verdict that every package has."""

from __future__ import annotations

import enum

from msgspec import Struct

from abiscan.models.model import ModelFormat
from abiscan.results.document import JsonObject


class OperatorState(enum.Enum):
    """Whether an operator that a model calls is there."""

    OK = "ok"
    MISSING = "missing"
    CHANGED = "changed"
    """It is there, and takes no such arguments."""
    UNKNOWN = "unknown"


class ModelOperatorJson(JsonObject, frozen=True, kw_only=True, omit_defaults=False):
    """An operator that a model calls.

    :ivar name: the operator, with the overload if the file names one
    :ivar brought_by: the package that registers it, None for torch, and if none is known
    """

    name: str
    brought_by: str | None = None
    state: OperatorState


class ModelOperator(ModelOperatorJson, frozen=True, kw_only=True):
    """An operator that a model calls, and a place of a call."""

    at: str = ""


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
