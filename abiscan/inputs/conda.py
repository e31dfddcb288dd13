"""Conda packages: tar archives, compressed, laid out like the environment that they are installed in.

There are two formats. ``NAME-VERSION-BUILD.tar.bz2`` is one archive. ``NAME-VERSION-BUILD.conda`` is a zip archive
with two of them, ``info-….tar.zst`` and ``pkg-….tar.zst`` (conda's documentation, "Package specification").
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import hashlib
import io
import json
import posixpath
import re
import shutil
import sys
import tarfile
import tempfile
import weakref
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from abiscan.binary.elf import ElfFile
from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.files import LARGEST_TEXT, UNPACKING, unreadable_error
from abiscan.regex import regex

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_INDEX: Final = "info/index.json"
_PARTS: Final = regex(r"(?:info|pkg)-[^/]+\.tar\.zst")
_SITE: Final = regex(r"(?:lib/python[0-9.]+/)?site-packages/(.*)", re.DOTALL)
_IN_MEMORY: Final = 64 << 20
_SMALL_MEMBER: Final = 16 << 20
_LARGEST: Final = 8 << 30
"""The size beyond which a package is not unpacked: the largest builds of torch have 4 GB."""

_MOST_MEMBERS: Final = 200_000
_MOST_LINKS: Final = 40  # one after the other, as in Linux
_BLOCK: Final = 1 << 20
_FIX: Final = "download it again"
_DAMAGED: Final = (*UNPACKING, tarfile.TarError, zstd.ZstdError, KeyError)

_SPEC: Final = regex(r"(?P<name>[A-Za-z0-9_.-]+)(?:\s*(?P<version>[^\s].*?))?(?:\s+(?P<build>\S+))?")


class CondaMember:
    """A file in a conda package."""

    def __init__(self, package: CondaPackage, info: tarfile.TarInfo) -> None:
        self._package = package
        self._info = info
        self._sha256: str | None = None
        self._small: ElfFile | None = None

    @property
    def name(self) -> str:
        """``package!member``."""
        return f"{self._package.path}!{self._info.name}"

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self._info.size

    def read_head(self, size: int) -> bytes:
        """Return its first bytes."""
        return self._package.read_member(self._info, size)

    def identify_version(self) -> str:
        """Return the hash of its bytes: a tar archive has no checksums of its members."""
        return self.hash_content()

    def open_elf(self) -> ElfFile:
        """Parse it; through a temporary file if it is large, so that it does not stay in memory."""
        if self._info.size < _SMALL_MEMBER:
            self._small = self._small or ElfFile.from_bytes(self._package.read_member(self._info), self.name)
            return self._small
        with tempfile.NamedTemporaryFile(prefix="abiscan-") as copy, self._package.open_member(self._info) as stream:
            shutil.copyfileobj(stream, copy, _BLOCK)
            copy.flush()
            return ElfFile.open(Path(copy.name), subject=self.name)

    def hash_content(self) -> str:
        """Return the hash of all its bytes, in hexadecimal."""
        if self._sha256 is None:
            with self._package.open_member(self._info) as stream:
                digest = hashlib.sha256()
                while block := stream.read(_BLOCK):
                    digest.update(block)
            self._sha256 = digest.hexdigest()
        return self._sha256


class CondaPackage:
    """A conda package, open for reading. It is unpacked once: in memory, or without a name on disk if it is large.

    :raises InputError: the file is not a conda package, or cannot be read
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        observed_fs.stat_file(path)
        self._infos: dict[str, tuple[tarfile.TarFile, tarfile.TarInfo]] = {}
        self._links: dict[str, str] = {}
        with self._name_errors():
            for archive in self._tar_archives():
                self._enter_members(archive)
        if _INDEX not in self._infos:
            raise InputError(str(path), "is not a conda package: it has no info/index.json", "pass a package")

    @functools.cached_property
    def metadata(self) -> Mapping[str, Any]:
        """What conda knows about the package: ``name``, ``version``, ``depends``, ``subdir``."""
        try:
            metadata = json.loads(self.read_content(_INDEX))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path}!{_INDEX}", "is not readable JSON", _FIX) from error
        return metadata if isinstance(metadata, dict) else {}

    @property
    def requirements(self) -> tuple[str, ...]:
        """What it depends on, in the language of Python's packages, as far as that can express it."""
        depends = self.metadata.get("depends", ())
        lines = depends if isinstance(depends, list) else ()
        return tuple(filter(None, (requirement_of(line) for line in lines if isinstance(line, str))))

    @property
    def version(self) -> str:
        """The version of the package; empty if it states none."""
        version = self.metadata.get("version", "")
        return version if isinstance(version, str) else ""

    def list_members(self) -> Iterator[str]:
        """Return the members that are regular files, by their path in the package, without what conda adds."""
        return (name for name in self._infos if not name.startswith("info/"))

    def find_member(self, name: str) -> CondaMember:
        """Return one member, unread; the same object each time."""
        return self._members[name]

    def read_text(self, name: str) -> str:
        """Return a member as text, undecodable bytes replaced."""
        return self.read_content(name).decode("utf-8", "replace")

    def read_content(self, name: str) -> bytes:
        """Return all bytes of a member that is a text.

        :raises InputError: it is damaged, or too large for a text
        """
        _, info = self._infos[name]
        if info.size > LARGEST_TEXT:
            problem = f"claims to be a text of {info.size >> 20} MiB"
            raise InputError(f"{self.path}!{name}", problem, "the package is damaged or malicious")
        return self.read_member(info)

    def installed_path(self, name: str, site: str) -> str:
        """Return where conda puts a member, if Python's packages are in the folder ``site``."""
        # A package that is for any Python (``noarch: python``) has site-packages at its top, others have it at
        # lib/python3.11/site-packages.
        if inside := _SITE.fullmatch(name):
            return posixpath.normpath(posixpath.join(site, inside[1]))
        # Python's packages are in lib/python3.11/site-packages of the environment.
        return posixpath.normpath(posixpath.join(site, "../..", posixpath.relpath(name, "lib")))

    def list_places(self, site: str) -> Iterator[tuple[str, str]]:
        """Yield where the members lie once installed, each with its name; a link is next to what it points to."""
        for name in self.list_members():
            yield self.installed_path(name, site), name
        for link, name in self._links.items():
            yield self.installed_path(link, site), name

    def read_member(self, info: tarfile.TarInfo, size: int = -1) -> bytes:
        """Return the first ``size`` bytes of a member, or all bytes for -1.

        :raises InputError: the package is damaged
        """
        with self.open_member(info) as stream:
            return stream.read(size)

    @contextlib.contextmanager
    def open_member(self, info: tarfile.TarInfo) -> Iterator[IO[bytes]]:
        """Open a member for reading.

        :raises InputError: the package is damaged
        """
        archive, _ = self._infos[info.name]
        with self._name_errors():
            stream = archive.extractfile(info)
            if stream is None:
                raise InputError(f"{self.path}!{info.name}", "is not a file", _FIX)
            yield stream

    def _tar_archives(self) -> Iterator[tarfile.TarFile]:
        """Unpack the package: return its tar archives."""
        with observed_fs.open_file(self.path) as stream:
            if self.path.suffix != ".conda":
                yield self._unpack_tar(bz2.BZ2File(stream))
                return
            with zipfile.ZipFile(stream) as outer:
                # The parts are compressed already, so the zip stores them, and each can be read as a stream.
                for name in sorted(filter(_PARTS.fullmatch, outer.namelist())):
                    with outer.open(name) as part:
                        yield self._unpack_tar(zstd.ZstdFile(part))

    def _unpack_tar(self, packed: io.BufferedIOBase) -> tarfile.TarFile:
        # Members are read in any order, and neither bz2 nor zstd can seek: so the tar is unpacked as a whole, on disk
        # if it is large. A bomb is noticed by what comes out, since neither format says beforehand how much that is.
        unpacked = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="abiscan-")  # noqa: SIM115
        weakref.finalize(self, unpacked.close)
        while block := packed.read(_BLOCK):
            if unpacked.tell() + len(block) > _LARGEST:
                problem = f"unpacks to more than {_LARGEST >> 30} GiB"
                raise InputError(str(self.path), problem, "the package is damaged or malicious")
            unpacked.write(block)
        unpacked.seek(0)
        return tarfile.open(fileobj=unpacked, mode="r:")

    def _enter_members(self, archive: tarfile.TarFile) -> None:
        """Enter the members of an archive. Those that lie outside of the package do not count."""
        links: dict[str, str] = {}
        for info in archive:
            # Each member is an object that is kept: without a limit, a small file could fill the memory.
            if len(self._infos) + len(links) == _MOST_MEMBERS:
                problem = f"has more than {_MOST_MEMBERS:,} members"
                raise InputError(str(self.path), problem, "the package is damaged or malicious")
            name = posixpath.normpath(info.name)
            if name.startswith(("/", "../")):
                continue
            # The target of a symbolic link is relative to the link, that of a hard link to the archive (POSIX, pax).
            if info.isreg():
                info.name = name
                self._infos[name] = archive, info
            elif info.issym():
                links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), info.linkname))
            elif info.islnk():
                links[name] = posixpath.normpath(info.linkname)
        # Only now are all members known: a link may stand before what it points to.
        for link in links:
            if (target := _end_of(links, link)) in self._infos:
                self._links[link] = target

    @functools.cached_property
    def _members(self) -> Mapping[str, CondaMember]:
        return {name: CondaMember(self, info) for name, (_, info) in self._infos.items()}

    @contextlib.contextmanager
    def _name_errors(self) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except OSError as error:
            # bz2 raises OSError for damaged data, too, but without a number of the system.
            if error.errno is not None:
                raise unreadable_error(self.path, error) from error
            raise InputError(str(self.path), f"cannot be unpacked: {error}", _FIX) from error
        except _DAMAGED as error:
            raise InputError(str(self.path), f"cannot be unpacked: {error}", _FIX) from error
        except MemoryError as error:
            raise InputError(str(self.path), "does not fit in memory", "unpack it and pass the folder") from error


def requirement_of(spec: str) -> str | None:
    """Return the requirement that a dependency of a conda package stands for, as a wheel would state it.

    Of torch's packages, ``pytorch 2.5.* cpu*`` becomes ``torch==2.5.*``; a build that is asked for does not count.

    :return: None if it cannot be expressed so
    """
    from packaging.requirements import InvalidRequirement, Requirement

    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        return None
    # "|" (or) has no counterpart in PEP 440; packaging rejects it below, and the dependency is left out.
    clauses = [clause.strip() for clause in (match["version"] or "").split(",")]
    # conda calls the package pytorch; libtorch is its C++ part on conda-forge.
    name = {"pytorch": "torch", "libtorch": "torch"}.get(match["name"].lower(), match["name"])
    try:
        return str(Requirement(name + ",".join(filter(None, map(_translate_clause, clauses)))))
    except InvalidRequirement:
        return None


def _translate_clause(clause: str) -> str:
    """Return a clause of a version in Python's spelling (conda's documentation, "Package match specifications")."""
    if clause in {"", "*"}:
        return ""
    if clause[0] == "=" and clause[1:2] != "=":  # fuzzy: =2.5 is 2.5 and all that begins with 2.5.
        return f"=={clause[1:].removesuffix('.*')}.*"
    if clause[0].isdigit():
        return f"=={clause.removesuffix('*').removesuffix('.')}.*" if clause.endswith("*") else f"=={clause}"
    return clause.removesuffix(".*") if clause[0] in "<>" else clause


def _end_of(links: Mapping[str, str], link: str) -> str:
    """Return what a link points to in the end, or a link if there are too many."""
    path = link
    for _ in range(_MOST_LINKS):
        path = links.get(path, path)
        if path not in links:
            break
    return path
