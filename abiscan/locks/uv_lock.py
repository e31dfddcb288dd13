"""``uv.lock``, version 1: a graph of packages, whose edges have markers.

Its markers may name extras and groups that exclude each other, as ``extra == 'extra-7-project-cpu'``: the number is the
length of the name of the package (uv's ``universal_marker.rs``).
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from abiscan.errors import InputError
from abiscan.index.system import System
from abiscan.locks.model import (
    FromWhere,
    LockedFile,
    LockedPackage,
    ProjectPart,
    applies,
    markers_for,
    require_few,
    require_names,
    sound_name,
    sound_version,
    stated_hash,
)
from abiscan.locks.toml_file import AGAIN, read_project, read_toml, table, tables
from abiscan.regex import regex

_VERSION: Final = 1
_PROJECT_SOURCES: Final = ("virtual", "editable")
_DEFAULT_GROUPS: Final = ("dev",)
_CONFLICT: Final = regex(r"extra (?P<is>==|!=) '(?P<name>(?:extra|group|project)-\d+-[^']*)'")
_TRUE, _FALSE = "python_version >= '0'", "python_version < '0'"


class UvLock(Struct, frozen=True, kw_only=True, dict=True):
    """A ``uv.lock``."""

    path: Path
    contents: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> UvLock:
        """Read it.

        :raises InputError: it cannot be read, or is of a version that is not known
        """
        contents = read_toml(path)
        if contents.get("version") != _VERSION:
            problem = (
                f"is a lock of version {contents.get('version')!r}, and only version {_VERSION} of uv.lock is known"
            )
            raise InputError(str(path), problem, "lock the project with a uv that writes it, or update abiscan")
        require_few(tables(contents.get("package"), str(path), "package"), str(path))
        return cls(path=path, contents=contents)

    @property
    def platforms(self) -> tuple[str, ...]:
        """None are named: it is for all of them."""
        return ()

    @property
    def tool(self) -> str:
        """The tool that writes it: uv."""
        return "uv"

    @property
    def is_complete(self) -> bool:
        """Whether nothing is installed but what is in it."""
        return True

    def admits(self, system: System) -> bool:
        """Whether its Pythons and its environments are those of a system."""
        try:
            specifier = SpecifierSet(str(self.contents.get("requires-python") or ""))
        except InvalidSpecifier as error:
            raise InputError(str(self.path), f"has an invalid requires-python: {error}", AGAIN) from error
        environment = markers_for(system)
        supported = self.contents.get("supported-markers") or ()
        is_supported = not supported or any(applies(marker, environment, str(self.path)) for marker in supported)
        return is_supported and specifier.contains(environment["python_full_version"], prereleases=True)

    @functools.cached_property
    def _by_name(self) -> dict[str, list[dict[str, Any]]]:
        by_name: dict[str, list[dict[str, Any]]] = {}
        for entry in tables(self.contents.get("package"), str(self.path), "package"):
            by_name.setdefault(sound_name(entry.get("name"), str(self.path)), []).append(entry)
        return by_name

    @functools.cached_property
    def roots(self) -> list[dict[str, Any]]:
        """The packages of the project: the members of its workspace, or what is in its own folder."""
        manifest = table(self.contents.get("manifest"), str(self.path), "manifest")
        members = {canonicalize_name(str(name)) for name in manifest.get("members") or ()}
        entries = [entry for entries in self._by_name.values() for entry in entries]
        if members:
            return [entry for entry in entries if canonicalize_name(str(entry.get("name"))) in members]
        return [
            entry
            for entry in entries
            if self._source(entry).keys() & {*_PROJECT_SOURCES} and "." in self._source(entry).values()
        ]

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras of the project."""
        return tuple(sorted({name for root in self.roots for name in self._extras_of(root)}))

    @property
    def registries(self) -> tuple[str, ...]:
        """The addresses of indexes and the folders that its packages come from, the most frequent first."""
        entries = (entry for entries in self._by_name.values() for entry in entries)
        places = Counter(str(self._source(entry).get("registry")) for entry in entries)
        return tuple(place for place, _ in places.most_common() if place != "None")

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the project."""
        manifest = table(self.contents.get("manifest"), str(self.path), "manifest")
        of_roots = (name for root in self.roots for name in self._groups_of(root))
        more = table(manifest.get("dependency-groups"), str(self.path), "dependency-groups")
        return tuple(sorted({*of_roots, *more}))

    @property
    def defaults(self) -> tuple[str, ...]:
        """The groups that are installed if nobody asks."""
        by_default = self._default_groups()
        return self.groups if by_default is None else tuple(name for name in self.groups if name in by_default)

    def _source(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        return table(entry.get("source"), str(self.path), "source")

    def _default_groups(self) -> tuple[str, ...] | None:
        """Return the groups that uv installs by default, as ``pyproject.toml`` says; None for all of them."""
        settings = read_project(self.path).get("tool", {}).get("uv", {})
        groups = settings.get("default-groups", _DEFAULT_GROUPS) if isinstance(settings, dict) else _DEFAULT_GROUPS
        return None if groups == "all" else tuple(map(str, groups))

    def select(self, system: System, selection: ProjectPart) -> tuple[LockedPackage, ...]:
        """Return what ``uv sync`` installs on a system, the project itself left out."""
        subject, groups = str(self.path), self._active_groups(selection)
        extras = {canonicalize_name(name) for name in selection.extras}
        require_names(selection.extras, self.extras, "extra", subject)
        walk = _Walk(self, system, extras, groups)
        manifest = table(self.contents.get("manifest"), subject, "manifest")
        for root in self.roots:
            walk.follow(root, tables(root.get("dependencies"), subject, "dependencies"))
            for name, edges in table(root.get("optional-dependencies"), subject, "optional-dependencies").items():
                if canonicalize_name(name) in extras:
                    walk.follow(root, tables(edges, subject, name))
            for name, edges in self._groups_of(root).items():
                if canonicalize_name(name) in groups:
                    walk.follow(root, tables(edges, subject, name))
        # What a script, or a workspace that is no project, asks for.
        walk.follow({}, tables(manifest.get("requirements"), subject, "requirements"))
        for name, edges in table(manifest.get("dependency-groups"), subject, "dependency-groups").items():
            if canonicalize_name(name) in groups:
                walk.follow({}, tables(edges, subject, name))
        return walk.packages()

    def _extras_of(self, root: Mapping[str, Any]) -> Iterator[str]:
        metadata = table(root.get("metadata"), str(self.path), "metadata")
        yield from table(root.get("optional-dependencies"), str(self.path), "optional-dependencies")
        yield from map(str, metadata.get("provides-extras") or ())

    def _groups_of(self, root: Mapping[str, Any]) -> dict[str, Any]:
        return table(root.get("dev-dependencies"), str(self.path), "dev-dependencies")

    def _active_groups(self, selection: ProjectPart) -> set[str]:
        known = self.groups
        require_names(selection.groups, known, "group", str(self.path))
        default = self._default_groups() if selection.dev else ()
        chosen = {*selection.groups, *(known if default is None else default)}
        return {canonicalize_name(name) for name in chosen}

    def find(self, edge: Mapping[str, Any], is_for: Callable[[Iterable[Any]], bool]) -> dict[str, Any]:
        """Return the entry that an edge leads to.

        :param is_for: whether one of some markers is true
        :raises InputError: there is none
        """
        name = sound_name(edge.get("name"), str(self.path))
        entries = self._by_name.get(name, [])
        for key in ("version", "source"):
            if key in edge:
                entries = [entry for entry in entries if entry.get(key) == edge[key]]
        if len(entries) > 1:
            entries = [entry for entry in entries if is_for(entry.get("resolution-markers") or ())] or entries
        if not entries:
            raise InputError(
                str(self.path), f"requires {name}, and has no entry for it: it is truncated or edited", AGAIN
            )
        return entries[0]

    def file_of(self, item: Mapping[str, Any], source: Mapping[str, Any]) -> LockedFile | None:
        """Return a wheel or an archive of source code."""
        url, path = item.get("url"), item.get("path")
        sha256 = stated_hash(item.get("hash"), str(self.path))
        size = item.get("size") if isinstance(item.get("size"), int) else None
        if isinstance(url, str) and not url.startswith("file:"):
            return LockedFile(name=unquote(urlsplit(url).path).rpartition("/")[2], url=url, sha256=sha256, size=size)
        if isinstance(url, str):
            path = unquote(urlsplit(url).path)
        if not isinstance(path, str):
            path = item.get("filename") if isinstance(item.get("filename"), str) else None
        if path is None:
            return None
        # The wheels of a folder are named from there, and the folder from the lock.
        registry = source.get("registry")
        folder = registry if isinstance(registry, str) and "://" not in registry else "."
        place = self.path.absolute().parent / folder / path
        return LockedFile(name=place.name, path=str(place), sha256=sha256, size=size)

    def package_of(self, entry: Mapping[str, Any], requires: Iterable[str]) -> LockedPackage:
        """Return a package as one environment has it."""
        subject, source = str(self.path), self._source(entry)
        files = [self.file_of(item, source) for item in tables(entry.get("wheels"), subject, "wheels")]
        archive = self.file_of(table(entry["sdist"], subject, "sdist"), source) if "sdist" in entry else None
        if not files and (single := source.get("url") or source.get("path")) and str(single).endswith(".whl"):
            key = "url" if "url" in source else "path"
            files = [self.file_of({key: single}, {})]
        if source.keys() & {*_PROJECT_SOURCES, "directory", "git"}:
            origin = FromWhere.SOURCE_TREE
        else:
            origin = FromWhere.INDEX if "registry" in source else FromWhere.DIRECT
        registry = source.get("registry")
        return LockedPackage(
            name=sound_name(entry.get("name"), subject),
            version=sound_version(entry.get("version"), subject),
            files=tuple(filter(None, files)),
            sources=(archive,) if archive else (),
            index=registry if isinstance(registry, str) and "://" in registry else None,
            requires=tuple(requires),
            origin=origin,
        )


class _Walk:
    """The packages that the edges lead to whose markers are true."""

    def __init__(self, lock: UvLock, system: System, extras: Iterable[str], groups: Iterable[str]) -> None:
        self._lock = lock
        self._environment = markers_for(system)
        self._active = {("extra", name) for name in extras} | {("group", name) for name in groups}
        self._requires: dict[int, dict[str, None]] = {}
        self._entries: dict[int, dict[str, Any]] = {}
        self._seen: set[tuple[int, str]] = set()

    def follow(self, root: Mapping[str, Any], edges: Iterable[Mapping[str, Any]]) -> None:
        """Follow edges, and what they lead to, without the root that has them."""
        waiting = [(root, edge) for edge in edges]
        while waiting:
            origin, edge = waiting.pop()
            if not self._applies(edge.get("marker")):
                continue
            entry = self._lock.find(edge, self._is_for)
            self._requires.setdefault(id(origin), {})[sound_name(entry.get("name"), str(self._lock.path))] = None
            key = id(entry)
            self._entries[key] = entry
            optional = table(entry.get("optional-dependencies"), str(self._lock.path), "optional-dependencies")
            parts = {"": entry.get("dependencies"), **{extra: optional.get(extra) for extra in edge.get("extra") or ()}}
            for part, part_table in parts.items():
                if (key, part) not in self._seen:
                    self._seen.add((key, part))
                    waiting += [(entry, item) for item in tables(part_table, str(self._lock.path), "dependencies")]

    def packages(self) -> tuple[LockedPackage, ...]:
        """Return the packages, without the project."""
        packages = (
            self._lock.package_of(entry, self._requires.get(key, ()))
            for key, entry in self._entries.items()
            if entry not in self._lock.roots
        )
        return tuple(sorted(packages, key=lambda item: item.name))

    def _is_for(self, markers: Iterable[Any]) -> bool:
        return any(map(self._applies, markers))

    def _applies(self, marker: object) -> bool:
        if isinstance(marker, str):
            marker = _CONFLICT.sub(self._answer, marker)
        return applies(marker, self._environment, str(self._lock.path))

    def _answer(self, match: re.Match[str]) -> str:
        """Return a marker that is true if an extra or a group of the project is asked for."""
        kind, length, rest = match["name"].split("-", 2)
        active = kind == "project" or (kind, canonicalize_name(rest[int(length) + 1 :])) in self._active
        return _TRUE if active is (match["is"] == "==") else _FALSE
