"""What one extension registers, with the names that the torch it was built for gives to the numbers in it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from abiscan.binary.elf import Machine, SharedObject
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.dispatch.tags import Tags, tags_of
from abiscan.emulation import EmulationGap, Registrations, recover
from abiscan.extension.built_for import BuiltFor, with_keys
from abiscan.inputs.files import ElfSource
from abiscan.inputs.sources import Extension
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded
from abiscan.torches.layouts import layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What one extension registers.

    ``origin`` is what it was built for; ``keys`` and ``tags`` name the numbers of dispatch keys and tags as the newest
    of those releases does. ``doubts`` are the gap that this leaves where those releases read the numbers differently.
    """

    path: str
    origin: BuiltFor
    keys: DispatchKeys
    tags: Tags
    registrations: Registrations
    doubts: tuple[EmulationGap, ...]

    @property
    def gaps(self) -> tuple[EmulationGap, ...]:
        """What could not be read, or not for certain."""
        return (*self.registrations.gaps, *self.doubts)

    @property
    def built_for(self) -> tuple[TorchVersion, ...]:
        """The releases it can have been built for, oldest first."""
        return self.origin.releases


def recover_inventory(extension: Extension, known: BuiltFor) -> Inventory:
    """Recover what an extension registers.

    :param known: what it was built for, as far as can be told without emulating it
    """
    facts = extension.facts
    found = registrations(extension.source, facts, known.releases)
    used = _used_keys(found)
    origin = with_keys(known, used, facts.machine)
    assumed = (origin.releases or embedded.versions())[-1]
    return Inventory(
        path=extension.path,
        origin=origin,
        keys=keys_of(assumed),
        tags=tags_of(assumed),
        registrations=found,
        doubts=tuple(_doubts(used, origin.releases, assumed)),
    )


def registrations(source: ElfSource, facts: SharedObject, built_for: Sequence[TorchVersion]) -> Registrations:
    """What an object registers. A schema that the model of the dispatcher cannot read is a gap, and left out."""
    found = recover(source.open(), facts, _argument_tail(built_for, facts.machine))
    unread = {
        each.operator: each.inferred_schema
        for each in found.kernels
        if each.inferred_schema is not None and not _is_readable(each.inferred_schema)
    }
    if not unread:
        return found
    kernels = (replace(each, inferred_schema=None) if each.operator in unread else each for each in found.kernels)
    gaps = (
        EmulationGap(
            stage="dispatch",
            reason=f"the schema inferred for {operator} cannot be parsed: {schema}",
            address=None,
            symbol=None,
        )
        for operator, schema in unread.items()
    )
    return replace(found, kernels=tuple(kernels), gaps=(*found.gaps, *gaps))


@functools.lru_cache(maxsize=16_384)
def _is_readable(inferred: str) -> bool:
    try:
        FunctionSchema.parse(f"_{inferred}")
    except SchemaError:
        return False
    return True


def _argument_tail(built_for: Sequence[TorchVersion], machine: Machine) -> int | None:
    """``sizeof(c10::Argument)`` without its name, a string of either ABI; None unless it is one for all releases."""
    found = {layout("c10::Argument", str(version), machine) for version in built_for}
    tails = {known.size - known.fields[1].offset if known else None for known in found}
    return tails.pop() if len(tails) == 1 else None


def _used_keys(registrations: Registrations) -> list[int]:
    keys = [
        *(library.dispatch_key for library in registrations.libraries),
        *(kernel.dispatch_key for kernel in registrations.kernels),
        *(fallback.dispatch_key for fallback in registrations.fallbacks),
    ]
    return sorted({key for key in keys if isinstance(key, int)})


def _doubts(used: list[int], built_for: tuple[TorchVersion, ...], assumed: TorchVersion) -> Iterator[EmulationGap]:
    """A gap if the releases in question name the keys that are used differently."""
    readings = {tuple(map(keys_of(version).name, used)) for version in built_for}
    if used and len(readings) != 1:
        if built_for:
            why = f"may be built for torch {built_for[0]}-{built_for[-1]}, which number dispatch keys differently"
        else:
            why = "built for an unknown torch"
        reason = f"{why}; dispatch keys are named as in torch {assumed}"
        yield EmulationGap(stage="keys", reason=reason, address=None, symbol=None)
