"""What a load and operators need of the processor, in JSON documents.

Who has the types in a document imports them from here, so that they have their shapes.
"""

from __future__ import annotations

from abiscan.cpu.needs import CpuNeeds, CpuReach
from abiscan.results.document import give_shape

__all__ = ["CpuNeeds", "CpuReach"]

give_shape(
    "needs asks=behind at",
    needs=lambda reach: [use.feature for use in reach.uses],
    at=lambda reach: {use.feature: use.place for use in reach.uses},
)(CpuReach)

give_shape(
    "load=features level at operators",
    at=lambda needs: {feature: f"{name}: {use}" for feature, (name, use) in sorted(needs.first_uses().items())},
    # None is "not read", and differs from no operators that need anything.
    operators=lambda needs: None if needs.operators is None else dict(sorted(needs.operators.items())),
)(CpuNeeds)
