"""What the views of an inventory share: names for the numbers in it, and whole schemas."""

from __future__ import annotations

from abiscan.dispatch.keys import DispatchKeys
from abiscan.emulation import Operator


def key_name(key: int | str | None, keys: DispatchKeys) -> str | None:
    """A dispatch key by its name; None for "no key"."""
    return keys.name(key) if isinstance(key, int) else key


def full_schema(operator: Operator) -> str | None:
    """The schema with its namespace, where the source leaves it to the library."""
    if operator.schema is None:
        return None
    _, opening, rest = operator.schema.partition("(")
    return f"{operator.name}{opening}{rest}"
