"""``pdm.lock``, version 4: a list of packages with their groups."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from abiscan.inputs.requirement import parse_applying
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

_VERSION: Final = "4"
_NEWER: Final = "lock the project with pdm 2.8 or newer, or update abiscan"
_DEFAULT, _DEV = "default", "dev"


def read_pdm_lock(path: Path) -> ListedLock:
    """Read it.

    :raises InputError: it cannot be read, or is of a version that is not known
    """
    subject = str(path)
    contents, metadata = read_versioned(path, "pdm.lock", "lock_version", _VERSION, _NEWER)
    packages = tables(contents.get("package"), subject, "package")
    require_few(packages, subject)
    names = tuple(str(name) for name in metadata.get("groups") or () if name != _DEFAULT)
    return ListedLock(
        path=path,
        tool="pdm",
        entries=tuple(_entry_of(path, item) for item in packages),
        extras=names,
        groups=names,
        always=(_DEFAULT,),
        defaults=tuple(name for name in names if name in _development_groups(path)),
    )


def _development_groups(path: Path) -> frozenset[str]:
    """Return the groups that pdm installs if nobody asks: all that are no extras, which the lock does not say."""
    project = read_project(path)
    of_tool = table(project.get("tool"), str(path), "tool").get("pdm", {})
    old = of_tool.get("dev-dependencies", {}) if isinstance(of_tool, dict) else {}
    return frozenset({_DEV, *table(project.get("dependency-groups"), str(path), "dependency-groups"), *old})


def _entry_of(path: Path, item: Mapping[str, Any]) -> ListEntry:
    subject = str(path)
    files = tuple(_file_of(file, subject) for file in tables(item.get("files"), subject, "files"))
    wheels = tuple(file for file in files if file.name.endswith(".whl"))
    origin = FromWhere.INDEX
    if item.keys() & {"git", "path"}:
        origin = FromWhere.SOURCE_TREE
    elif isinstance(url := item.get("url"), str):
        origin = FromWhere.DIRECT
        wheels = tuple(LockedFile(name=file.name, url=url, sha256=file.sha256) for file in wheels)
    has_addresses = bool(wheels) and all(file.url for file in wheels)
    lines = (parse_applying(str(line)) for line in item.get("dependencies") or ())
    return ListEntry(
        package=LockedPackage(
            name=sound_name(item.get("name"), subject),
            version=sound_version(item.get("version"), subject),
            files=wheels if has_addresses else (),
            sources=() if wheels else tuple(file for file in files if file not in wheels),
            hashes=frozenset(file.sha256 for file in files if file.sha256),
            requires=tuple(line.name for line in lines if line),
            origin=origin,
        ),
        marker=str(item["marker"]) if item.get("marker") else None,
        groups=frozenset(map(str, item.get("groups") or ())),
        pythons="" if item.get("requires_python") in (None, "*") else str(item["requires_python"]),
    )


def _file_of(file: Mapping[str, Any], subject: str) -> LockedFile:
    url = str(file["url"]) if isinstance(file.get("url"), str) else None
    name = unquote(urlsplit(url).path).rpartition("/")[2] if url else str(file.get("file"))
    return LockedFile(name=name, url=url, sha256=stated_hash(file.get("hash"), subject))
