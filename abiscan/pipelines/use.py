"""What an extension uses of torch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from abiscan.extension.examined import ExaminedTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What an extension touches: the symbols it imports, the operators it registers for or fetches by name."""

    symbols: Collection[str]
    operators: Collection[str]


def use_of(examined: ExaminedTarget) -> Use:
    """What the extensions of a target use, together."""
    registered = [each.inventory.registrations for each in examined.extensions]
    operators = {
        name
        for each in registered
        for name in (
            *(kernel.operator for kernel in each.kernels),
            *(operator.name for operator in each.operators),
            *(lookup.operator for lookup in each.lookups),
        )
    }
    symbols = {name for each in examined.extensions for name in each.facts.imports}
    return Use(symbols=frozenset(symbols), operators=frozenset(operators))
