"""Locks that are a list of packages, each with what decides whether it is installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from abiscan.errors import InputError
from abiscan.index.system import System
from abiscan.locks.model import (
    LockedPackage,
    ProjectPart,
    applies_in_lock,
    markers_for,
    require_names,
)

_AGAIN: Final = "lock the project again"


class ListEntry(Struct, frozen=True, kw_only=True):
    """A package of a list.

    :ivar marker: when it is installed
    :ivar groups: the groups that it is in; empty for one that is always installed
    :ivar pythons: the Pythons that it is for, as a specifier
    :ivar platform: the platform that it is for, as ``System.of`` takes it; None for any
    :ivar demands: which versions of others it requires, as specifiers, by name
    """

    package: LockedPackage
    marker: str | None = None
    groups: frozenset[str] = frozenset()
    pythons: str = ""
    platform: str | None = None
    demands: Mapping[str, str] = {}


class ListedLock(Struct, frozen=True, kw_only=True):
    """A lock that is a list.

    :ivar tool: the tool that writes such locks
    :ivar pythons: the Pythons that it is for, as a specifier
    :ivar platforms: those that it names
    :ivar markers: the environments that it is for; empty for all
    :ivar extras: those that it has
    :ivar groups: those that it has, besides what is always installed
    :ivar always: the groups that are installed in any case
    :ivar defaults: the groups that are installed if nobody asks
    :ivar apart: whether its groups are environments of their own: those that are asked for replace the default
    :ivar is_complete: whether nothing is installed but what is in it
    """

    path: Path
    entries: tuple[ListEntry, ...]
    tool: str = "pip"
    pythons: str = ""
    platforms: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    apart: bool = False
    is_complete: bool = True

    @property
    def registries(self) -> tuple[str, ...]:
        """The addresses of indexes that its packages come from, the most frequent first."""
        return tuple(url for url, _ in Counter(entry.package.index for entry in self.entries).most_common() if url)

    def admits(self, system: System) -> bool:
        """Whether it is for a system, as far as it says."""
        environment = markers_for(system)
        if self.markers and not any(
            applies_in_lock(marker, environment, str(self.path), (), ()) for marker in self.markers
        ):
            return False
        if self.platforms and not any(_is_like(platform, system) for platform in self.platforms):
            return False
        return self._admits_python(self.pythons, system)

    def select(self, system: System, selection: ProjectPart) -> tuple[LockedPackage, ...]:
        """Return what is installed on a system."""
        subject = str(self.path)
        require_names(selection.extras, self.extras, "extra", subject)
        require_names(selection.groups, self.groups, "group", subject)
        chosen: dict[str, LockedPackage] = {}
        entries = list(self._chosen_packages(system, selection))
        for package in (entry.package for entry in entries):
            there = chosen.setdefault(package.name, package)
            if there.version != package.version:
                # Of poetry, markers may overlap, since its installer solves again with what is in the lock.
                demands = SpecifierSet(",".join(filter(None, (entry.demands.get(package.name) for entry in entries))))
                fitting = [item for item in (there, package) if demands and demands.contains(item.version or "0")]
                if not fitting:
                    raise InputError(subject, f"has both {there} and {package} for {system}", _AGAIN)
                chosen[package.name] = max(fitting, key=lambda item: Version(item.version or "0"))
        return tuple(chosen[name] for name in sorted(chosen))

    def _chosen_packages(self, system: System, selection: ProjectPart) -> Iterator[ListEntry]:
        if self.apart:
            by_default = () if selection.groups else self.defaults
        else:
            by_default = self.defaults if selection.dev else ()
        groups = {*self.always, *selection.groups, *by_default}
        environment = markers_for(system)
        for entry in self.entries:
            if entry.groups and not entry.groups & {*groups, *selection.extras}:
                continue
            if entry.platform is not None and not _is_like(entry.platform, system):
                continue
            if not self._admits_python(entry.pythons, system):
                continue
            if applies_in_lock(entry.marker, environment, str(self.path), selection.extras, sorted(groups)):
                yield entry

    def _admits_python(self, specifier: str, system: System) -> bool:
        try:
            return SpecifierSet(specifier).contains(markers_for(system)["python_full_version"], prereleases=True)
        except InvalidSpecifier as error:
            raise InputError(str(self.path), f"has invalid versions of Python: {error}", _AGAIN) from error


def _is_like(platform: str, system: System) -> bool:
    """Whether a platform is that of a system, but for its age."""
    other = System.of(system.python, platform)
    return (other.images, other.machine) == (system.images, system.machine)
