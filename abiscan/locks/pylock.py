"""``pylock.toml`` (PEP 751), as packaging reads it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from abiscan.errors import InputError
from abiscan.locks.listed import ListedLock, ListEntry
from abiscan.locks.model import FromWhere, LockedFile, LockedPackage, require_few, stated_hash
from abiscan.locks.toml_file import AGAIN, read_toml, tables


def read_pylock(path: Path) -> ListedLock:
    """Read it.

    :raises InputError: it cannot be read, or is of a version that is not known
    """
    try:
        from packaging import pylock
    except ImportError as error:  # packaging 25 and older
        problem = "cannot be read: the installed version of packaging does not support pylock.toml"
        raise InputError(str(path), problem, "pip install --upgrade packaging") from error
    contents = read_toml(path)
    require_few(tables(contents.get("packages"), str(path), "packages"), str(path))
    try:
        lock = pylock.Pylock.from_dict(contents)
    except (pylock.PylockValidationError, RecursionError) as error:
        raise InputError(str(path), f"is not a lock of PEP 751: {error}", AGAIN) from error
    return ListedLock(
        path=path,
        entries=tuple(_entry_of(path, package) for package in lock.packages),
        pythons=str(lock.requires_python or ""),
        markers=tuple(map(str, lock.environments or ())),
        extras=tuple(lock.extras or ()),
        groups=tuple(dict.fromkeys((*(lock.dependency_groups or ()), *(lock.default_groups or ())))),
        defaults=tuple(lock.default_groups or ()),
    )


def _entry_of(path: Path, package: object) -> ListEntry:
    from packaging.pylock import Package

    assert isinstance(package, Package)
    wheels = tuple(
        _file_of(path, item.name, item.url, item.path, item.hashes, item.size) for item in package.wheels or ()
    )
    sdist, archive = package.sdist, package.archive
    sources = (_file_of(path, sdist.name, sdist.url, sdist.path, sdist.hashes, sdist.size),) if sdist else ()
    origin = FromWhere.INDEX
    if archive is not None:
        file = _file_of(path, None, archive.url, archive.path, archive.hashes, archive.size)
        wheels, sources = ((file,), ()) if file.name.endswith(".whl") else ((), (file,))
        origin = FromWhere.DIRECT
    elif package.vcs is not None or package.directory is not None:
        origin = FromWhere.SOURCE_TREE
    requires = None
    if package.dependencies is not None:
        requires = tuple(canonicalize_name(str(item.get("name"))) for item in package.dependencies)
    return ListEntry(
        package=LockedPackage(
            name=canonicalize_name(package.name),
            version=str(package.version) if package.version else None,
            files=wheels,
            sources=sources,
            index=package.index,
            requires=requires,
            origin=origin,
        ),
        marker=str(package.marker) if package.marker else None,
        pythons=str(package.requires_python or ""),
    )


def _file_of(
    lock: Path, name: str | None, url: str | None, path: str | None, hashes: object, size: int | None
) -> LockedFile:
    sha256 = stated_hash(hashes.get("sha256"), str(lock)) if isinstance(hashes, dict) else None
    if url is not None and url.startswith("file:"):
        url, path = None, unquote(urlsplit(url).path)
    if path is not None:
        path = str(lock.absolute().parent / path)
    name = name or unquote(urlsplit(url or path or "").path).rpartition("/")[2]
    return LockedFile(name=name, url=url, path=path, sha256=sha256, size=size)
