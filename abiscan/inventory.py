"""The pipeline behind ``abiscan ops``: what the extensions of a target register, and for which torch they were made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import Version

from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.tags import Tags, tags_of
from abiscan.emulation import Gap, Registrations, recover
from abiscan.files import Files
from abiscan.ownership import is_torch_symbol
from abiscan.releases import embedded
from abiscan.releases.store import Store
from abiscan.sources import Extension, Source, Target, read_target


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What one extension registers.

    ``built_for`` are the releases it can have been built for, oldest first; ``keys`` and ``tags`` name the numbers of
    dispatch keys and tags as the newest of them does.
    """

    path: str
    built_for: tuple[Version, ...]
    keys: DispatchKeys
    tags: Tags
    registrations: Registrations
    gaps: tuple[Gap, ...]


def inventory(source: Source, store: Store) -> tuple[Target, tuple[Inventory, ...]]:
    """Recover the registrations of every extension in a target.

    :raises InputError: it cannot be read, or holds nothing that uses torch
    """
    files = Files(store.facts_of)
    target = read_target(source, files, embedded.SITE, torch_package=f"{embedded.SITE}/torch")
    built_for = candidates(target)
    return target, tuple(recovered(extension, built_for) for extension in target.extensions)


def candidates(target: Target) -> tuple[Version, ...]:
    """The releases that export what all extensions of the target import; those that its metadata admits, if any is."""
    imports = {name for extension in target.extensions for name in extension.facts.imports if is_torch_symbol(name)}
    machine = target.extensions[0].facts.machine if target.extensions else None
    candidates = embedded.releases_exporting(imports, machine) if machine else ()
    return tuple(filter(target.admits_torch, candidates)) or candidates


def recovered(extension: Extension, built_for: tuple[Version, ...]) -> Inventory:
    """What one extension registers.

    :param built_for: the releases that its target can have been built for
    """
    registrations = recover(extension.source.open(), extension.facts)
    used = _used_keys(registrations)
    # A release in which a kernel would be registered for what is no key there is none that it was built for.
    fitting = tuple(version for version in built_for if all(map(keys_of(version).can_register, used))) or built_for
    assumed = (fitting or embedded.versions())[-1]
    return Inventory(
        path=extension.path,
        built_for=fitting,
        keys=keys_of(assumed),
        tags=tags_of(assumed),
        registrations=registrations,
        gaps=(*registrations.gaps, *_doubts(used, fitting, assumed)),
    )


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
            why = f"built for torch {built_for[0]} to {built_for[-1]}, which number dispatch keys differently"
        else:
            why = "built for no torch known here"
        reason = f"{why}: they are named as torch {assumed} names them"
        yield Gap(stage="keys", reason=reason, address=None, symbol=None)
