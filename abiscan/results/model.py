"""What ``abiscan check`` says about a saved model, beside the verdict that every package has."""

from __future__ import annotations

import enum
from typing import Any

from msgspec import Struct

from abiscan.models.model import ModelFormat


class OperatorState(enum.Enum):
    """Whether an operator that a model calls is there."""

    OK = "ok"
    MISSING = "missing"
    CHANGED = "changed"
    """It is there, and takes no such arguments."""
    UNKNOWN = "unknown"


class ModelOperator(Struct, frozen=True, kw_only=True):
    """An operator that a model calls.

    ``brought_by`` is the package that brings it, None for torch, and for what nobody is known to bring. ``at`` is a
    place of a call.
    """

    name: str
    state: OperatorState
    brought_by: str | None = None
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


def model_fields(model: ModelResult) -> dict[str, Any]:
    """The fields that a model adds to the JSON object for a package."""
    return {
        "kind": "model",
        "format": model.format.value,
        "saved_by": model.saved_by,
        "fails_at": model.fails_at,
        "operators": [
            {"name": operator.name, "brought_by": operator.brought_by, "state": operator.state.value}
            for operator in model.operators
        ],
        "classes": list(model.classes),
        "devices": list(model.devices),
        "warnings": list(model.warnings),
    }
