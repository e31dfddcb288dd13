"""What an extension uses of torch."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from abiscan.extension.examined import ExaminedTarget


class Use(Struct, frozen=True, kw_only=True):
    """What an extension uses: the symbols it imports, the operators it registers for or looks up by name."""

    symbols: Collection[str]
    operators: Collection[str]


def use_of(examined: ExaminedTarget) -> Use:
    """What the extensions of a target use, together."""
    registered = [extension.inventory.registrations for extension in examined.extensions]
    operators = {
        name
        for registrations in registered
        for name in (
            *(kernel.operator for kernel in registrations.kernels),
            *(operator.name for operator in registrations.operators),
            *(lookup.operator for lookup in registrations.lookups),
        )
    }
    symbols = {name for extension in examined.extensions for name in extension.facts.imports}
    return Use(symbols=frozenset(symbols), operators=frozenset(operators))
