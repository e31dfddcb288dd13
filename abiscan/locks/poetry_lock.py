"""``poetry.lock``, version 2: a list of packages, with the hashes of their files but not their addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from packaging.utils import canonicalize_name

from abiscan.locks.listed import ListedLock, ListEntry
from abiscan.locks.model import (
    FromWhere,
    LockedFile,
    LockedPackage,
    require_few,
    sound_name,
    sound_version,
    stated_hash,
)
from abiscan.locks.toml_file import read_project, read_versioned, table, tables

_VERSION: Final = "2"
_NEWER: Final = "lock the project with poetry 1.5 or newer, or update abiscan"
_MAIN: Final = "main"
_ORIGINS: Final = {"git": FromWhere.SOURCE_TREE, "directory": FromWhere.SOURCE_TREE, "file": FromWhere.DIRECT}


def read_poetry_lock(path: Path) -> ListedLock:
    """Read it.

    :raises InputError: it cannot be read, or is of a version that is not known
    """
    subject = str(path)
    contents, metadata = read_versioned(path, "poetry.lock", "lock-version", _VERSION, _NEWER)
    packages = tables(contents.get("package"), subject, "package")
    require_few(packages, subject)
    groups = {str(group) for item in packages for group in item.get("groups") or ()} - {_MAIN}
    return ListedLock(
        path=path,
        tool="poetry",
        entries=tuple(entry for item in packages for entry in _entries_of(path, item)),
        pythons=_as_specifier(str(metadata.get("python-versions") or "*")),
        extras=tuple(table(contents.get("extras"), subject, "extras")),
        groups=tuple(sorted(groups)),
        always=(_MAIN,),
        defaults=tuple(sorted(groups - _optional_groups(path))),
    )


def _optional_groups(path: Path) -> frozenset[str]:
    """Return the groups that poetry installs only if they are asked for, which the lock does not say."""
    settings = read_project(path).get("tool", {}).get("poetry", {})
    groups = table(settings.get("group") if isinstance(settings, dict) else None, str(path), "tool.poetry.group")
    return frozenset(name for name, group in groups.items() if isinstance(group, dict) and group.get("optional"))


def _entries_of(path: Path, item: Mapping[str, Any]) -> Iterator[ListEntry]:
    subject, source = str(path), table(item.get("source"), str(path), "source")
    files = [
        LockedFile(name=str(file.get("file")), sha256=stated_hash(file.get("hash"), subject))
        for file in tables(item.get("files"), subject, "files")
    ]
    url = str(source.get("url") or "")
    kind = str(source.get("type") or "")
    wheels: tuple[LockedFile, ...] = ()
    if kind in ("url", "file") and url.endswith(".whl"):
        is_remote = kind == "url"
        name = (unquote(url) if is_remote else url).rpartition("/")[2]
        sha256 = next((file.sha256 for file in files if file.name == name), None)
        place = None if is_remote else str(path.absolute().parent / url)
        wheels = (LockedFile(name=name, url=url if is_remote else None, path=place, sha256=sha256),)
    package = LockedPackage(
        name=sound_name(item.get("name"), subject),
        version=sound_version(item.get("version"), subject),
        files=wheels,
        sources=tuple(file for file in files if not file.name.endswith(".whl")) if not _has_wheel(files) else (),
        hashes=frozenset(file.sha256 for file in files if file.sha256),
        index=f"{url.rstrip('/')}" if kind == "legacy" else None,
        requires=tuple(_required(table(item.get("dependencies"), subject, "dependencies"))),
        origin=_ORIGINS.get(kind, FromWhere.DIRECT if kind == "url" else FromWhere.INDEX),
    )
    demands = dict(_demanded_versions(table(item.get("dependencies"), subject, "dependencies")))
    markers, groups = item.get("markers"), frozenset(map(str, item.get("groups") or ()))
    pythons = _as_specifier(str(item.get("python-versions") or "*"))
    if isinstance(markers, dict):  # one for each group
        for group in groups:
            marker = markers.get(group)
            yield ListEntry(
                package=package,
                marker=None if marker is None else str(marker),
                groups=frozenset({group}),
                pythons=pythons,
                demands=demands,
            )
        return
    # Before groups were written, what is optional is for an extra, and it is not said for which.
    if item.get("optional") and not markers:
        return
    marker = None if markers is None else str(markers)
    yield ListEntry(package=package, marker=marker, groups=groups, pythons=pythons, demands=demands)


def _has_wheel(files: list[LockedFile]) -> bool:
    return any(file.name.endswith(".whl") for file in files)


def _required(dependencies: Mapping[str, Any]) -> Iterator[str]:
    for name, value in dependencies.items():
        several = value if isinstance(value, list) else [value]
        if any(not isinstance(item, dict) or not item.get("optional") for item in several):
            yield canonicalize_name(name)


def _demanded_versions(dependencies: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield which versions a package requires of others, where it is one for all markers."""
    for name, value in dependencies.items():
        version = value.get("version") if isinstance(value, dict) else value
        if isinstance(version, str):
            yield canonicalize_name(name), _as_specifier(f"=={version}" if version[:1].isdigit() else version)


def _end_of_caret(version: str) -> str:
    """Return where poetry's ``^`` ends: where the first number that is not 0 grows, or the last one if all are 0."""
    numbers = version.split(".")
    place = next((place for place, number in enumerate(numbers) if number.strip("0")), len(numbers) - 1)
    stays, number = numbers[:place], numbers[place]
    return f"<{'.'.join((*stays, str(int(number) + 1)))}" if number.isdecimal() else ""


def _as_specifier(text: str) -> str:
    """Return Pythons in poetry's words as a specifier; one that admits all where they are not those of PEP 440."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if text == "*":
        return ""
    parts = []
    for part in text.split(","):
        word = part.strip()
        if word.startswith("^"):
            parts += [f">={word[1:]}", _end_of_caret(word[1:])]
        else:
            parts.append(word)
    specifier = ",".join(filter(None, parts))
    try:
        SpecifierSet(specifier)
    except InvalidSpecifier:  # such as 2.7 || >=3.5
        return ""
    return specifier
