"""What documents have of the processor that a file needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from abiscan.cpu.needs import CpuNeeds, CpuReach
from abiscan.results.document import JsonObject


class ReachJson(JsonObject, frozen=True, kw_only=True):
    """What an operator may use of the processor.

    :ivar needs: features used without asking for them
    :ivar asks: features used only behind a question to the processor
    :ivar at: where each needed feature is used
    """

    needs: Sequence[str]
    asks: Sequence[str]
    at: Mapping[str, str]


class CpuJson(JsonObject, frozen=True, kw_only=True):
    """What a load needs of the processor.

    :ivar load: features used at load without asking for them
    :ivar level: of the x86-64 psABI; null for other architectures
    :ivar at: where each feature is used first
    :ivar operators: what operators may use when they are called, as far as that was read; null if it was not asked
    """

    load: Sequence[str]
    level: str | None
    at: Mapping[str, str]
    operators: Mapping[str, ReachJson] | None


def _reach_json(reach: CpuReach) -> ReachJson:
    """Return what documents have of what code may use of the processor."""
    return ReachJson(
        needs=[use.feature for use in reach.uses],
        asks=reach.behind,
        at={use.feature: use.place for use in reach.uses},
    )


def cpu_json(needs: CpuNeeds) -> CpuJson:
    """Return what documents have of what a load needs of the processor."""
    operators = needs.operators
    return CpuJson(
        load=needs.features,
        level=needs.level,
        at={feature: f"{name}: {use}" for feature, (name, use) in sorted(needs.first_uses().items())},
        # None is "not read", and differs from no operators that need anything.
        operators=None if operators is None else {name: _reach_json(operators[name]) for name in sorted(operators)},
    )
