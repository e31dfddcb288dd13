"""Locks of conda packages: explicit files of conda, and ``pixi.lock``, which may have wheels in addition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from abiscan.errors import InputError
from abiscan.inputs.requirement import parse_applying
from abiscan.locks.listed import ListedLock, ListEntry
from abiscan.locks.model import FromWhere, LockedFile, LockedPackage, require_few, stated_hash
from abiscan.locks.toml_file import AGAIN, read_text
from abiscan.regex import regex

EXPLICIT: Final = "@EXPLICIT"
_VERSIONS: Final = (5, 6)
_FILE: Final = regex(r"(?P<name>[^/]+)-(?P<version>[^-/]+)-(?P<build>[^-/]+)\.(?:conda|tar\.bz2)")
_DEFAULT: Final = "default"
_PLATFORMS: Final = {
    "linux-64": "manylinux_2_28_x86_64",
    "linux-aarch64": "manylinux_2_28_aarch64",
    "osx-arm64": "macosx_14_0_arm64",
    "osx-64": "macosx_14_0_x86_64",
    "win-64": "win_amd64",
}


def read_explicit(path: Path) -> ListedLock:
    """Read an explicit file of conda: an address in each line, perhaps with the hash of the file.

    :raises InputError: it cannot be read
    """
    lines = [line.strip() for line in read_text(path).splitlines()]
    addresses = [line for line in lines if line and not line.startswith(("#", "@"))]
    require_few(addresses, str(path))
    entries = tuple(_of_conda(line.partition("#")[0], line.partition("#")[2], path) for line in addresses)
    platforms = tuple(dict.fromkeys(entry.platform for entry in entries if entry.platform))
    return ListedLock(path=path, tool="conda", entries=entries, platforms=platforms, pythons=_pythons_of(entries))


def read_pixi_lock(path: Path) -> ListedLock:
    """Read a ``pixi.lock``; its environments besides the default one are groups.

    :raises InputError: it cannot be read, or is of a version that is not known
    """
    contents, subject = _read_yaml(path), str(path)
    if contents.get("version") not in _VERSIONS:
        known = " and ".join(map(str, _VERSIONS))
        problem = f"is a lock of version {contents.get('version')!r}, and only versions {known} of pixi.lock are known"
        raise InputError(subject, problem, "lock the project with a pixi that writes them, or update abiscan")
    packages, environments = contents.get("packages"), contents.get("environments")
    if not isinstance(packages, list) or not isinstance(environments, dict):
        raise InputError(subject, "has no packages or no environments: it is truncated or edited", AGAIN)
    require_few(packages, subject)
    by_address = {str(item.get("conda") or item.get("pypi")): item for item in packages if isinstance(item, dict)}
    entries = tuple(_pixi_entries(environments, by_address, path))
    return ListedLock(
        path=path,
        tool="pixi",
        entries=entries,
        platforms=tuple(dict.fromkeys(entry.platform for entry in entries if entry.platform)),
        groups=tuple(map(str, environments)),
        defaults=(_DEFAULT,),
        apart=True,
        pythons=_pythons_of(entries),
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise InputError(str(path), "is YAML, which needs PyYAML to be read", "pip install 'abiscan[pixi]'") from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        contents = yaml.load(read_text(path), Loader=loader)  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(str(path), f"is not valid YAML, or is truncated: {reason}", AGAIN) from error
    if not isinstance(contents, dict):
        raise InputError(str(path), "is not a lock: it has no table", AGAIN)
    return contents


def _pixi_entries(
    environments: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], path: Path
) -> Iterator[ListEntry]:
    for group, environment in environments.items():
        by_platform = environment.get("packages") if isinstance(environment, dict) else None
        for platform, items in (by_platform or {}).items():
            for item in items or ():
                kind = "conda" if "conda" in item else "pypi"
                address = str(item.get(kind))
                if address not in known:
                    raise InputError(str(path), f"has no entry for {address}: it is truncated or edited", AGAIN)
                entry = (
                    _of_conda(address, "", path, known[address])
                    if kind == "conda"
                    else _of_index(address, known[address], path)
                )
                yield ListEntry(
                    package=entry.package, groups=frozenset({str(group)}), platform=_PLATFORMS.get(platform, platform)
                )


def _of_conda(address: str, stated: str, path: Path, more: Mapping[str, Any] | None = None) -> ListEntry:
    parts = urlsplit(address)
    file = unquote(parts.path).rpartition("/")[2]
    match = _FILE.fullmatch(file)
    if match is None:
        raise InputError(str(path), f"names no conda package: {address[:200]}", AGAIN)
    subfolder = parts.path.split("/")[-2] if "/" in parts.path else ""
    sha256 = stated_hash((more or {}).get("sha256"), str(path))
    if stated.startswith("sha256:"):  # conda's own are MD5
        sha256 = stated_hash(stated, str(path))
    is_local = parts.scheme in ("", "file")
    locked = LockedFile(
        name=file,
        url=None if is_local else address,
        path=unquote(parts.path) if is_local else None,
        sha256=sha256,
    )
    depends = (more or {}).get("depends")
    return ListEntry(
        package=LockedPackage(
            name=canonicalize_name(match["name"]),
            version=match["version"],
            files=(locked,),
            requires=_conda_names(depends) if isinstance(depends, list) else None,
            origin=FromWhere.CONDA,
        ),
        platform=_PLATFORMS.get(subfolder),
    )


def _conda_names(depends: Sequence[object]) -> tuple[str, ...]:
    return tuple(canonicalize_name(str(line).partition(" ")[0]) for line in depends)


def _of_index(address: str, item: Mapping[str, Any], path: Path) -> ListEntry:
    parts = urlsplit(address)
    name = unquote(parts.path).rpartition("/")[2]
    lines = (parse_applying(str(line)) for line in item.get("requires_dist") or ())
    requires = tuple(canonicalize_name(line.name) for line in lines if line)
    if not name.endswith(".whl"):
        asked = canonicalize_name(str(item.get("name") or name))
        version = str(item["version"]) if item.get("version") else None
        return ListEntry(
            package=LockedPackage(name=asked, version=version, requires=requires, origin=FromWhere.SOURCE_TREE)
        )
    try:
        project, version_of_wheel, _, _ = parse_wheel_filename(name)
    except (InvalidWheelFilename, ValueError) as error:
        raise InputError(str(path), f"names no wheel: {name}", AGAIN) from error
    is_local = parts.scheme in ("", "file")
    file = LockedFile(
        name=name,
        url=None if is_local else address,
        path=str(path.absolute().parent / unquote(parts.path)) if is_local else None,
        sha256=stated_hash(item.get("sha256"), str(path)),
    )
    return ListEntry(
        package=LockedPackage(name=project, version=str(version_of_wheel), files=(file,), requires=requires)
    )


def _pythons_of(entries: Sequence[ListEntry]) -> str:
    """Return the Python that such a lock has itself, as a specifier."""
    versions = [entry.package.version for entry in entries if entry.package.name == "python" and entry.package.version]
    minors = {".".join(version.split(".")[:2]) for version in versions}
    return f"=={minors.pop()}.*" if len(minors) == 1 else ""
