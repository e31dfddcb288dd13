"""What the views of an inventory share: names for the numbers in it, and whole schemas."""

from __future__ import annotations

from packaging.version import Version

from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.emulation import Operator


def key_name(key: int | str | None, keys: DispatchKeys) -> str | None:
    """A dispatch key by its name; None for "no key"."""
    return keys.name(key) if isinstance(key, int) else key


def full_schema(operator: Operator, built_for: Version | None) -> str | None:
    """The schema as torch prints it: with its namespace, whichever way the source spells it.

    A text that torch would refuse is shown as it is.

    :param built_for: the release whose way of printing it is; None for the newest
    """
    if operator.schema is None:
        return None
    _, opening, rest = operator.schema.partition("(")
    text = f"{operator.name}{opening}{rest}"
    try:
        schema = FunctionSchema.parse(text)
    except SchemaError:
        return text
    return schema.printed_by((built_for.major, built_for.minor)) if built_for else str(schema)
