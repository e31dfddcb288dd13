"""The pipeline behind ``abiscan ops``: what the extensions of a target register, and for which torch they were built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.emulation import Gap, Registrations, recover
from abiscan.files import Files
from abiscan.linkage.names import is_torch_symbol
from abiscan.releases import embedded
from abiscan.releases.store import Store
from abiscan.sources import Extension, Target, read_target


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What one extension registers.

    ``built_for`` are the releases it can have been built for, oldest first; ``keys`` names the numbers of dispatch keys as
    they do.
    """

    path: str
    built_for: tuple[Version, ...]
    keys: DispatchKeys
    registrations: Registrations
    gaps: tuple[Gap, ...]


def inventory(path: Path, store: Store) -> tuple[Target, tuple[Inventory, ...]]:
    """Recover the registrations of every extension in a target.

    :raises InputError: it cannot be read, or holds nothing that uses torch
    """
    files = Files(store.facts_of)
    target = read_target(path, files, embedded.SITE, torch_package=f"{embedded.SITE}/torch")
    built_for = _built_for(target)
    return target, tuple(_recover(extension, built_for) for extension in target.extensions)


def _built_for(target: Target) -> tuple[Version, ...]:
    """The releases that export what all extensions of the target import; those that its metadata admits, if any is."""
    imports = {name for extension in target.extensions for name in extension.facts.imports if is_torch_symbol(name)}
    machine = target.extensions[0].facts.machine if target.extensions else None
    candidates = embedded.releases_exporting(imports, machine) if machine else ()
    return tuple(filter(target.admits_torch, candidates)) or candidates


def _recover(extension: Extension, built_for: tuple[Version, ...]) -> Inventory:
    file = extension.source.open()
    registrations = recover(file, extension.facts)
    keys, doubts = _keys(registrations, built_for)
    return Inventory(
        path=extension.path,
        built_for=built_for,
        keys=keys,
        registrations=registrations,
        gaps=(*registrations.gaps, *doubts),
    )


def _keys(registrations: Registrations, built_for: Sequence[Version]) -> tuple[DispatchKeys, list[Gap]]:
    """The key table to read the numbers with, and a gap if the choice is not certain."""
    used = {
        entry.dispatch_key
        for entry in (*registrations.libraries, *registrations.kernels, *registrations.fallbacks)
        if isinstance(entry.dispatch_key, int)
    }
    newest = keys_of((built_for or embedded.versions())[-1])
    if not used:
        return newest, []
    if not built_for:
        reason = f"built for no torch known here: dispatch keys are named as torch {newest.minor} names them"
        return newest, [Gap(stage="keys", reason=reason, address=None, symbol=None)]
    names = {tuple(keys_of(version).name(number) for number in sorted(used)) for version in built_for}
    if len(names) == 1:
        return newest, []
    reason = (
        f"built for torch {built_for[0]} to {built_for[-1]}, which number dispatch keys differently: they are named as "
        f"torch {newest.minor} names them"
    )
    return newest, [Gap(stage="keys", reason=reason, address=None, symbol=None)]
