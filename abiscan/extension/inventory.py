"""The pipeline behind ``abiscan ops``: what the extensions of a target register, and the torch they were built for."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from abiscan.binary.elf import Machine, SharedObject
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.dispatch.tags import Tags, tags_of
from abiscan.emulation import Gap, Registrations, recover
from abiscan.extension.built_for import BuiltFor, Origins, with_keys
from abiscan.inputs.files import ElfSource, Files
from abiscan.inputs.sources import Extension, Source, Target, read_target
from abiscan.inputs.store import Store
from abiscan.releases import embedded
from abiscan.releases.layouts import layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What one extension registers.

    ``origin`` is what it was built for; ``keys`` and ``tags`` name the numbers of dispatch keys and tags as the newest
    of those releases does.
    """

    path: str
    origin: BuiltFor
    keys: DispatchKeys
    tags: Tags
    registrations: Registrations
    gaps: tuple[Gap, ...]

    @property
    def built_for(self) -> tuple[Version, ...]:
        """The releases it can have been built for, oldest first."""
        return self.origin.releases


def inventory(source: Source, store: Store) -> tuple[Target, tuple[Inventory, ...]]:
    """Recover the registrations of every extension in a target.

    :raises InputError: it cannot be read, or holds nothing that uses torch
    """
    files = Files(store.facts_of)
    target = read_target(source, files, embedded.SITE, torch_package=f"{embedded.SITE}/torch")
    inventories = Inventories(Origins())
    return target, tuple(inventories.of(target, extension) for extension in target.extensions)


class Inventories:
    """What extensions, and libraries that they bring along, register, recovered once, on first use.

    :param origins: what the extensions were built for
    """

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        self._found: dict[tuple[str, str], Inventory] = {}
        self._libraries: dict[object, Registrations] = {}

    def of(self, target: Target, extension: Extension) -> Inventory:
        """What one extension of a target registers."""
        key = target.name, extension.path
        if key not in self._found:
            self._found[key] = _recover(extension, self._origins.of(target, extension))
        return self._found[key]

    def origin(self, target: Target, extension: Extension) -> BuiltFor | None:
        """What an extension was built for, as far as it is known: None if it was not asked what it registers."""
        found = self._found.get((target.name, extension.path))
        return found.origin if found else None

    def of_library(
        self, identity: object, source: ElfSource, facts: SharedObject, built_for: Sequence[Version]
    ) -> Registrations:
        """What a library registers.

        :param identity: what tells it from other files
        :param built_for: the releases that the extension which brings it can have been built for
        """
        if identity not in self._libraries:
            self._libraries[identity] = _registrations(source, facts, built_for)
        return self._libraries[identity]


def _recover(extension: Extension, known: BuiltFor) -> Inventory:
    facts = extension.facts
    registrations = _registrations(extension.source, facts, known.releases)
    used = _used_keys(registrations)
    origin = with_keys(known, used, facts.machine)
    assumed = (origin.releases or embedded.versions())[-1]
    return Inventory(
        path=extension.path,
        origin=origin,
        keys=keys_of(assumed),
        tags=tags_of(assumed),
        registrations=registrations,
        gaps=(*registrations.gaps, *_doubts(used, origin.releases, assumed)),
    )


def _registrations(source: ElfSource, facts: SharedObject, built_for: Sequence[Version]) -> Registrations:
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
        Gap(
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


def _argument_tail(built_for: Sequence[Version], machine: Machine) -> int | None:
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


def _doubts(used: list[int], built_for: tuple[Version, ...], assumed: Version) -> Iterator[Gap]:
    """A gap if the releases in question name the keys that are used differently."""
    readings = {tuple(map(keys_of(version).name, used)) for version in built_for}
    if used and len(readings) != 1:
        if built_for:
            why = f"may be built for torch {built_for[0]}-{built_for[-1]}, which number dispatch keys differently"
        else:
            why = "built for an unknown torch"
        reason = f"{why}; dispatch keys are named as in torch {assumed}"
        yield Gap(stage="keys", reason=reason, address=None, symbol=None)
