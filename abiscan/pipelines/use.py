"""What an extension uses of torch."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from abiscan.extension.examined import ExaminedTarget
from abiscan.python.torch_uses import torch_uses


class Use(Struct, frozen=True, kw_only=True):
    """What an extension uses: the symbols it imports, the operators it registers for or looks up by name.

    ``names`` are the Python names of torch that the code of its package mentions.
    """

    symbols: Collection[str]
    operators: Collection[str]
    names: Collection[str] = ()


def use_of(examined: ExaminedTarget) -> Use:
    """Return what the extensions of a target use, together."""
    registered = [extension.inventory.registrations for extension in examined.extensions]
    # Kernels for operators of others, operators of its own, and those that it looks up: all that depend on a schema.
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
    package = examined.target.package
    sources = (path for path in package.members if path.endswith(".py")) if package else ()
    names = frozenset[str]().union(*(torch_uses(package.read(path)) for path in sources if package))
    return Use(symbols=frozenset(symbols), operators=frozenset(operators), names=names)
