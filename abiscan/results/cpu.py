"""What a load needs of the processor, in JSON documents."""

from __future__ import annotations

from typing import Any

from abiscan.cpu.needs import CpuNeeds


def cpu_document(needs: CpuNeeds | None) -> dict[str, Any] | None:
    """What a load needs of the processor; None, so ``null``, if that was not read."""
    if needs is None:
        return None
    at = {feature: f"{name}: {use}" for feature, (name, use) in sorted(needs.first().items())}
    return {"load": list(needs.features), "level": needs.level, "at": at}
