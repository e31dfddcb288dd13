"""The files of a package, at the paths that they have once it is installed."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import InvalidVersion

from abiscan.inputs import observed_fs
from abiscan.inputs.files import LARGEST_TEXT, Archive
from abiscan.inputs.packages import Distribution, files_of, find_headers, find_installed, is_library
from abiscan.regex import regex

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_INFO: Final = regex(r"(?P<name>[^/-]+)-(?P<version>[^/]+)\.dist-info/METADATA")
_REQUIRES: Final = regex(r"^Requires-Dist:[ \t]*(.+)$", re.MULTILINE)
_NAME: Final = regex(r"^Name:[ \t]*(\S+)", re.MULTILINE)


class Package:
    """A package, installed in a folder or to be installed there.

    :param version: None if nothing states it
    :param root: the folder that it is installed in
    :param members: returns the paths of all of its files, relative to ``root``
    :param read: returns the bytes of one of them
    :param installed: whether it is installed; None if it is where its folder is one that Python looks for modules in
    :param built_by: the file in its source code that compiles an extension of torch, which is not there yet
    :param among_others: whether ``root`` is the folder of a project, where also lies what it does not install
    """

    def __init__(
        self,
        *,
        name: str,
        version: str | None,
        root: str,
        members: Callable[[], Iterable[str]],
        read: Callable[[str], bytes],
        installed: bool | None,
        built_by: str | None = None,
        among_others: bool = False,
    ) -> None:
        self.built_by = built_by
        self.among_others = among_others
        self.name = name
        self.version = version
        self.root = root
        self.read = read
        self.installed = installed
        self._list = members

    @functools.cached_property
    def members(self) -> tuple[str, ...]:
        """The paths of all of its files, relative to ``root``, sorted."""
        return tuple(sorted(self._list()))

    def missing_requirements(self, site: str) -> tuple[str, ...]:
        """Return the packages that it requires, and that are not installed in the folder ``site``."""
        names = dict.fromkeys(requirement.name for requirement in self._requirements_for())
        return tuple(name for name in names if find_installed(name, [site]) is None)

    def changes(self, search_path: Sequence[str], python: tuple[int, int] | None = None) -> frozenset[str] | None:
        """Return the distributions, by their normalized names, that installing it may bring or replace; None if its
        metadata state nothing.

        An installer keeps what is there and fits. It also brings what that lacks, and it may change everything that a
        distribution requires which it replaces. The torch stays: it is the one that is asked about.

        :param python: the version of the Python that it is installed for; None if that is the one that runs this
        """
        key = tuple(search_path), python
        if key not in self._changes:
            self._changes[key] = None if self._metadata is None else self._find_changes(search_path, python)
        return self._changes[key]

    @functools.cached_property
    def _changes(self) -> dict[tuple[tuple[str, ...], tuple[int, int] | None], frozenset[str] | None]:
        """What ``changes`` has answered: each extension module of a package asks."""
        return {}

    def _find_changes(self, search_path: Sequence[str], python: tuple[int, int] | None) -> frozenset[str]:
        from packaging.utils import canonicalize_name

        changes: set[str] = set()
        waiting = [(requirement, "", False) for requirement in self._requirements_for(python)]
        seen: set[tuple[str, str, bool]] = set()
        while waiting:
            requirement, owner, is_open = waiting.pop()
            name = canonicalize_name(requirement.name)
            if (owner, str(requirement), is_open) in seen or (name == "torch" and not owner):
                continue
            seen.add((owner, str(requirement), is_open))
            there = find_headers(requirement.name, search_path)
            fits = there is not None and _admits_version(requirement, there["Version"] or "unknown")
            if name == "torch":
                changes.update([owner] if there and not fits else [])
                continue
            is_open |= there is not None and not fits
            changes.update([name] if is_open or not fits else [])
            for extra in ("", *requirement.extras):
                lines = there.get_all("Requires-Dist") or () if there else ()
                below = filter(None, (_parse_requirement(line, python, extra) for line in lines))
                waiting += [(item, name, is_open) for item in below]
        return frozenset(changes)

    @functools.cached_property
    def _metadata(self) -> str | None:
        info = next(filter(None, map(_INFO.fullmatch, self.members)), None)
        # A wheel that was made on Windows may have its lines ended by CR LF.
        return self.read(info.group()).decode("utf-8", "replace").replace("\r\n", "\n") if info else None

    def _requirements_for(self, python: tuple[int, int] | None = None) -> tuple[Requirement, ...]:
        """Return what its metadata require here, or for another version of Python."""
        # The headers end at the first empty line; the description behind it may quote a ``Requires-Dist``.
        lines = _REQUIRES.findall((self._metadata or "").partition("\n\n")[0])
        return tuple(filter(None, (_parse_requirement(line, python) for line in lines)))

    def __str__(self) -> str:
        return f"{self.name} {self.version}" if self.version else self.name


def of_archive(archive: Archive, site: str) -> Package | None:
    """Return the package in an archive, to be installed in the folder ``site``; None if it has no metadata of
    Python.
    """
    members = {posixpath.relpath(path, site): name for path, name in archive.list_places(site)}
    info = next(filter(None, map(_INFO.fullmatch, members)), None)
    if info is None:
        return None

    return _make_package(info, site, members.keys, lambda path: archive.read_content(members[path]), installed=False)


def of_distribution(distribution: Distribution) -> Package:
    """Return an installed package; an editable one is installed in its source folder.

    scikit-build-core installs the libraries of an editable one: the rest is taken from the source folder.
    """
    root, among_others = distribution.site, False
    members, read = functools.partial(files_of, distribution), functools.partial(_read_bytes, root)
    if distribution.source is not None:
        source = Path(distribution.source)
        # The two layouts of a project: packages in src/, or next to pyproject.toml.
        is_flat = not observed_fs.is_dir(source / "src")
        folder = str(source if is_flat else source / "src")
        in_source, read_source = functools.partial(_walk_files, folder), functools.partial(_read_bytes, folder)
        recorded = frozenset(path for path in files_of(distribution, installed=True) if not path.startswith(".."))
        if any(is_library(path) and "/" in path for path in recorded):
            return Package(
                name=distribution.name,
                version=distribution.version,
                root=root,
                members=lambda: {*recorded, *(path for path in in_source() if not is_library(path))},
                read=lambda path: read(path) if path in recorded else read_source(path),
                installed=True,
                among_others=is_flat,
            )
        root, members, read, among_others = folder, in_source, read_source, is_flat
    return Package(
        name=distribution.name,
        version=distribution.version,
        root=root,
        members=members,
        read=read,
        installed=True,
        among_others=among_others,
    )


def of_folder(path: Path) -> Package | None:
    """Return the package that a folder is: one with an ``__init__.py``, or an unpacked wheel; None if it is neither."""
    folder = str(path.absolute())
    if observed_fs.is_file(path / "__init__.py"):
        root, name = posixpath.split(folder)
        return Package(
            name=name,
            version=None,
            root=root,
            members=lambda: (posixpath.join(name, file) for file in _walk_files(folder)),
            read=functools.partial(_read_bytes, root),
            installed=None,
        )
    # An unpacked wheel has exactly one .dist-info at its top; a folder with several is a site-packages.
    match = (_INFO.fullmatch(f"{name}/METADATA") for name in observed_fs.list_names(path))
    infos = [info for info in match if info and observed_fs.is_file(path / info.group())]
    if len(infos) != 1:
        return None
    return _make_package(
        infos[0], folder, functools.partial(_walk_files, folder), functools.partial(_read_bytes, folder), installed=None
    )


def of_module(folder: str, name: str) -> Package:
    """Return what is installed in a folder as a top-level module, without anything else of its distribution."""
    files = [file for file in observed_fs.list_names(folder) if file.startswith(f"{name}.")]
    inside = functools.partial(_walk_files, posixpath.join(folder, name))
    return Package(
        name=name,
        version=None,
        root=folder,
        members=lambda: (*files, *(posixpath.join(name, file) for file in inside())),
        read=functools.partial(_read_bytes, folder),
        installed=True,
    )


def _make_package(
    info: re.Match[str],
    root: str,
    members: Callable[[], Iterable[str]],
    read: Callable[[str], bytes],
    *,
    installed: bool | None,
) -> Package:
    """Return the package that a ``METADATA`` file describes."""
    stated = _NAME.search(read(info.group()).decode("utf-8", "replace"))
    name = stated[1] if stated else info["name"]
    return Package(name=name, version=info["version"], root=root, members=members, read=read, installed=installed)


def _parse_requirement(line: str, python: tuple[int, int] | None = None, extra: str = "") -> Requirement | None:
    """Return what a line of the metadata requires; None if it does not apply here, or for that Python."""
    from abiscan.inputs.requirement import parse_applying

    version = "" if python is None else f"{python[0]}.{python[1]}"
    on_python = {"python_version": version, "python_full_version": f"{version}.0"} if version else {}
    return parse_applying(line, {**on_python, "extra": extra})


def _admits_version(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _walk_files(folder: str) -> Iterator[str]:
    for place, subfolders, names in observed_fs.walk_folder(folder):
        subfolders[:] = [name for name in subfolders if name != "__pycache__" and not name.startswith(".")]
        yield from (posixpath.relpath(posixpath.join(place, name), folder) for name in names)


def _read_bytes(root: str, path: str) -> bytes:
    """Return the bytes of a file; none for one that is listed and is not there, is no file, or is too large for a
    text. Of source code that is too large, it returns as much as is read of any.
    """
    file = Path(root, path)
    try:
        status = observed_fs.stat_file(file)
        if status is None or not observed_fs.is_file(file):
            return b""
        if status.st_size <= LARGEST_TEXT:
            return observed_fs.read_file(file)
        with observed_fs.open_file(file) as stream:
            return stream.read(LARGEST_TEXT if path.endswith(".py") else 0)
    except OSError:
        return b""
