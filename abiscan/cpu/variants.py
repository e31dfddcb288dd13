"""Processors in the properties of variant wheels: the namespaces ``x86_64`` and ``aarch64``.

What the properties mean is defined by their providers, ``provider-variant-x86-64`` and ``provider-variant-aarch64``:
levels and versions, and single features by archspec's names for them, which are those of Linux.
"""

from __future__ import annotations

import itertools
from typing import Final

from abiscan.binary.machines import Machine
from abiscan.cpu.architectures import ARCHITECTURES
from abiscan.cpu.processors import Cpu, cpu, features_with, flag_of_feature
from abiscan.inputs.variants import VariantProperty, WheelVariant

_ON: Final = "on"


def admitted_cpu(variant: WheelVariant, machine: Machine) -> Cpu | None:
    """Return the least processor that a variant admits; None if its properties say nothing of processors like that."""
    stated, features = list[VariantProperty](), set[str]()
    of_machine = (property_ for property_ in variant.properties if property_.namespace == machine.value)
    for _, values in itertools.groupby(of_machine, lambda property_: property_.feature):
        # One value of a feature is enough for a system, so the least of them counts.
        # Values whose meaning is not known are left out: a system that has one of the others takes the wheel as well.
        candidates = [
            (admitted, property_)
            for property_ in values
            if (admitted := _features_of_property(machine, property_)) is not None
        ]
        if candidates:
            least, property_ = min(candidates, key=lambda pair: len(pair[0]))
            features |= least
            stated.append(property_)
    name = " and ".join(map(str, stated))
    return Cpu(name=name, machine=machine, features=frozenset(features)) if stated else None


def unknown_to_cpus(variant: WheelVariant) -> tuple[VariantProperty, ...]:
    """Return the properties in these namespaces whose meaning is not known."""
    return tuple(
        stated
        for machine in Machine
        for stated in variant.properties
        if stated.namespace == machine.value and _features_of_property(machine, stated) is None
    )


def properties_of_needs(machine: Machine, features: frozenset[str]) -> tuple[VariantProperty, ...]:
    """Return the properties of code that needs some features: the lowest level, and what that does not have."""
    levels = [
        (value, processor)
        for value, name in ARCHITECTURES[machine].levels.items()
        if (processor := cpu(name)) is not None
    ]
    # What no level has is stated feature by feature; the level is the lowest with all the others.
    beyond = features - levels[-1][1].features
    level, least = next(pair for pair in levels if features - beyond <= pair[1].features)
    single = (flag_of_feature(machine, feature) for feature in sorted(features - least.features))
    return (
        VariantProperty(machine.value, ARCHITECTURES[machine].level, level),
        *(VariantProperty(machine.value, flag, _ON) for flag in single),
    )


def _features_of_property(machine: Machine, stated: VariantProperty) -> frozenset[str] | None:
    """Return what a processor has that is compatible with a property; None for one that is not known."""
    if stated.feature == ARCHITECTURES[machine].level:
        level = cpu(ARCHITECTURES[machine].levels.get(stated.value, ""))
        return level.features if level else None
    return features_with(machine, stated.feature) if stated.value == _ON else None
