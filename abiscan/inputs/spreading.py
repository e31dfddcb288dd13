"""Where installers put the members of a wheel (binary distribution format, "Spreading the file").

pip and uv differ where the format says nothing: pip takes every ``*.data`` folder for that of the package, and of
several members for one place the last in the archive, that of ``*.data`` after all others; uv takes the one folder of
the package's name, its parts in the order of the file system. What they agree on is modelled; where they would install
different bytes, or refuse, the wheel is refused.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from abiscan.errors import InputError
from abiscan.regex import regex

_UNUSUAL: Final = regex(r"^[^/]+\.data/|//|(?:^|/)\.\.?/")
_DATA: Final = regex(r"(?P<project>[^/]+)\.data/(?P<scheme>[^/]+)(?:/(?P<path>.+))?")
_IN_SITE: Final = regex(r"lib(?:64)?/python\d\.\d+/site-packages/")
_SITE: Final = regex(r"(?P<prefix>.*)/lib/python\d\.\d+/site-packages/?")
_METADATA: Final = regex(r"[^/]+\.dist-info/METADATA")
_IMPORTED: Final = ("platlib", "purelib", "data")
_SCHEMES: Final = (*_IMPORTED, "headers", "scripts")
_FIX: Final = "build the wheel again, with each file in it once"


def installed_path(name: str, site: str) -> str:
    """Return where the installer puts a member of a wheel, if it installs into the folder ``site``."""
    if _is_data(name) and (data := _DATA.fullmatch(posixpath.normpath(name))) and data["path"]:
        name = _place_data(data["scheme"], data["path"], site) or name
    return posixpath.normpath(posixpath.join(site, name))


def _place_data(scheme: str, path: str, site: str) -> str | None:
    if scheme in ("platlib", "purelib"):
        return path
    if scheme != "data":
        return None
    # Relative to ``sys.prefix``: a wheel can put a file into site-packages this way, too.
    environment = _SITE.fullmatch(site)
    if environment:
        return posixpath.join(environment["prefix"], path)
    inside = _IN_SITE.match(path)
    return path[inside.end() :] if inside else None


def find_metadata(members: Iterable[str]) -> str | None:
    """Return the member of a wheel that has its metadata; None if it has none."""
    return next(filter(_METADATA.fullmatch, members), None)


def list_installed(infos: Iterable[zipfile.ZipInfo], path: Path) -> list[str]:
    """Return the members of a wheel that are files once it is installed: not those that others are written over.

    :param path: the wheel, for messages
    :raises InputError: installers refuse it, or do not install the same
    """
    members = {info.filename: info for info in infos if info.filename and not info.is_dir()}
    if not any(map(_UNUSUAL.search, members)):
        return list(members)
    metadata = find_metadata(members)
    project = metadata.removesuffix(".dist-info/METADATA") if metadata else None
    places = dict[str, zipfile.ZipInfo]()
    for info in sorted(members.values(), key=lambda info: _is_data(info.filename)):
        if is_data := _is_data(info.filename):
            _require_agreement(info.filename, project, f"{path}!{info.filename}")
        place = installed_path(info.filename, "")
        before = places.get(place)
        if before and _is_data(before.filename) == is_data and not _is_same(before, info):
            problem = f"overwrites {before.filename} with some installers, and not with others"
            raise InputError(f"{path}!{info.filename}", problem, _FIX)
        places[place] = info
    kept = {info.filename for info in places.values()}
    return [name for name in members if name in kept]


def _is_data(name: str) -> bool:
    return bool(_DATA.match(name))


def _is_same(one: zipfile.ZipInfo, other: zipfile.ZipInfo) -> bool:
    return (one.CRC, one.file_size) == (other.CRC, other.file_size)


def _require_agreement(name: str, project: str | None, subject: str) -> None:
    """Refuse a member of a ``*.data`` folder that only some installers put in its place, or none."""
    data = _DATA.fullmatch(posixpath.normpath(name))
    if data is None or data["scheme"] not in _SCHEMES or data["path"] is None:
        problem = f"cannot be installed: a .data folder may only contain {', '.join(_SCHEMES)}"
        raise InputError(subject, problem, "build the wheel again")
    if project is not None and data["project"] != project and data["scheme"] in _IMPORTED:
        problem = f"is installed elsewhere by pip than by uv, since the package is {project}"
        raise InputError(subject, problem, f"build the wheel again, with the folder {project}.data")
