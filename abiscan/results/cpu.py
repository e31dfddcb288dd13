"""What a load and operators need of the processor, in JSON documents."""

from __future__ import annotations

from typing import Any

from abiscan.cpu.needs import CpuNeeds, CpuReach
from abiscan.results.document import give_shape

give_shape(
    "needs asks=behind at",
    needs=lambda reach: [use.feature for use in reach.uses],
    at=lambda reach: {use.feature: use.place for use in reach.uses},
)(CpuReach)


def cpu_document(needs: CpuNeeds | None) -> dict[str, Any] | None:
    """Return what a load needs of the processor; None, so ``null``, if that was not read."""
    if needs is None:
        return None
    at = {feature: f"{name}: {use}" for feature, (name, use) in sorted(needs.first_uses().items())}
    # None is "not read", and differs from no operators that need anything.
    operators = None if needs.operators is None else dict(sorted(needs.operators.items()))
    return {"load": needs.features, "level": needs.level, "at": at, "operators": operators}
