"""The pipeline behind ``abiscan ops``: what the extensions of a target register, and for which torch they were made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from abiscan.built_for import BuiltFor, built_for
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.tags import Tags, tags_of
from abiscan.emulation import Gap, Registrations, recover
from abiscan.files import Files
from abiscan.releases import embedded
from abiscan.releases.store import Store
from abiscan.sources import Extension, Target, read_target


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


def inventory(path: Path, store: Store) -> tuple[Target, tuple[Inventory, ...]]:
    """Recover the registrations of every extension in a target.

    :raises InputError: it cannot be read, or holds nothing that uses torch
    """
    files = Files(store.facts_of)
    target = read_target(path, files, embedded.SITE, torch_package=f"{embedded.SITE}/torch")
    registered = [recover(extension.source.open(), extension.facts) for extension in target.extensions]
    used = {each.path: _used_keys(found) for each, found in zip(target.extensions, registered, strict=True)}
    known = built_for(target, used)
    return target, tuple(
        _inventory(extension, found, known[extension.path])
        for extension, found in zip(target.extensions, registered, strict=True)
    )


def _inventory(extension: Extension, registrations: Registrations, built: BuiltFor) -> Inventory:
    used = _used_keys(registrations)
    assumed = (built.releases or embedded.versions())[-1]
    return Inventory(
        path=extension.path,
        built_for=built.releases,
        keys=keys_of(assumed),
        tags=tags_of(assumed),
        registrations=registrations,
        gaps=(*registrations.gaps, *_doubts(used, built.releases, assumed)),
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
