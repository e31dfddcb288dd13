"""Whether a call in a saved model fits an operator's schema, as torch matches them when it loads the model."""

from __future__ import annotations

from typing import Final

from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.models.model import OperatorCall

UPGRADED: Final = frozenset(
    f"aten::{name}"
    for name in (*("div", "div_", "full", "gelu", "linspace", "logspace", "_test_serialization_subcmul"),)
)
"""The operators that torch replaces in older archives (``torch/csrc/jit/operator_upgraders/version_map.h``)."""


def fits_schema(call: OperatorCall, text: str | None) -> bool:
    """Whether a schema takes a call: its arguments by position and by name, and all others have defaults.

    What is not known counts as fitting.
    """
    # A false alarm is worse here than silence: torch itself matches the call as it loads the model.
    if text is None or call.positional is None:
        return True
    try:
        schema = FunctionSchema.parse(text)
    except SchemaError:
        return True
    if schema.is_vararg:
        return True
    by_place = [argument for argument in schema.arguments if not argument.kwarg_only]
    # Keyword-only arguments cannot be given by position.
    if call.positional > len(by_place):
        return False
    passed = {argument.name for argument in by_place[: call.positional]} | set(call.names)
    return set(call.names) <= {argument.name for argument in schema.arguments} and all(
        argument.name in passed or argument.has_default for argument in schema.arguments
    )
