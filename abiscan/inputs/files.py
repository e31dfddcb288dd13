"""Where ELF objects come from: the disk, overlaid with the contents of wheels as if they were installed.

A wheel is read in place. When it is mounted at a folder, its members are found at the paths that they would have after
installation, so ``$ORIGIN/../torch/lib`` means the same before the installation as after it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import lzma
import os
import posixpath
import shutil
import stat
import struct
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, Protocol

from msgspec import Struct

from abiscan import regular
from abiscan.binary.elf import ElfFile, RefusedFileError, SharedObject, refused_object
from abiscan.binary.machines import MACHINES
from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.inflation import NotAsPromisedError, inflate_blocks, inflate_deflated
from abiscan.inputs.spreading import installed_path, list_installed
from abiscan.inputs.trimmed import WORTHWHILE, Trimmed, trim_library

# Limits of what a hostile wheel can cost. Sizes in the directory are claims: what is read is bounded by them.
# No library of a wheel is larger: the largest libtorch_cuda.so has 1.6 GB. A member that claims more is a zip bomb.
_LARGEST_MEMBER: Final = 4 << 30
UNPACKING: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, OSError, ValueError),
)
"""What zipfile may raise for an archive that is damaged or encrypted."""

LARGEST_TEXT: Final = 32 << 20
"""The size beyond which a source file or a file of metadata is not read: ten times that of the largest known."""

_ELFCLASS64: Final = 2
_SMALL_MEMBER: Final = 16 << 20
_BLOCK: Final = 1 << 20
_ZEROS: Final = bytes(_BLOCK)
_KEPT_INFLATED: Final = 1 << 30
_MOST_KEPT_INFLATED: Final = 8 << 30  # while as much is still free
# Bytes that are inflated at a time if only the beginning of a member is wanted: a page.
_STEP: Final = 4096
_LOCAL_HEADER: Final = 30
_LENGTHS: Final = struct.Struct("<26xHH")  # in that header: of the name and of the extra field, which follow it


class ElfSource(Protocol):
    """A file that may be an ELF object, unread."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    def read_head(self, size: int) -> bytes:
        """Return its first ``size`` bytes; fewer if it is shorter."""

    def identify_version(self) -> str:
        """Return a text that identifies this version of the file, without reading it."""

    def open_elf(self) -> ElfFile:
        """Read it as ELF."""

    def hash_content(self) -> str:
        """Return the hash of all its bytes, in hexadecimal."""


class DiskFile:
    """A file on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sha256: str | None = None

    @property
    def name(self) -> str:
        """Its path, as given."""
        return str(self.path)

    @property
    def size(self) -> int:
        """Its size in bytes.

        :raises InputError: it is not there any more
        """
        return self._find_status().st_size

    def read_head(self, size: int) -> bytes:
        """Return its first bytes.

        :raises InputError: it cannot be read
        """
        try:
            with observed_fs.open_file(self.path) as stream:
                return stream.read(size)
        except OSError as error:
            raise unreadable_error(self.path, error) from error

    def identify_version(self) -> str:
        """Return its path, size and modification time.

        :raises InputError: it is not there any more
        """
        status = self._find_status()
        return f"{observed_fs.resolve_links(self.path)} {status.st_size} {status.st_mtime_ns} {status.st_ino}"

    def _find_status(self) -> os.stat_result:
        observed_fs.stat_file(self.path)
        try:
            return self.path.stat()
        except OSError as error:
            raise unreadable_error(self.path, error) from error

    def open_elf(self) -> ElfFile:
        """Map it."""
        observed_fs.stat_file(self.path)
        return ElfFile.open(self.path)

    def hash_content(self) -> str:
        """Return the hash of all its bytes, in hexadecimal.

        :raises InputError: it cannot be read
        """
        if self._sha256 is None:
            try:
                self._sha256 = observed_fs.hash_file(self.path)
            except OSError as error:
                raise unreadable_error(self.path, error) from error
        return self._sha256


def identify_content(source: ElfSource) -> str:
    """Return what no file with other bytes has: see ``observed_fs.identify_content``.

    :raises InputError: it cannot be read
    """
    if not isinstance(source, DiskFile):
        return source.hash_content()
    try:
        return observed_fs.identify_content(source.path)
    except OSError as error:
        raise unreadable_error(source.path, error) from error


_INFLATED: Final[dict[tuple[str, int, int], tuple[ElfFile, str]]] = {}
"""The large members that were inflated last, with their hashes: they are on disk, in files without a name."""


def _keep_inflated(key: tuple[str, int, int], inflated: tuple[ElfFile, str]) -> None:
    """Keep an inflated member as long as there is space for it; the oldest make room."""
    # A library is opened for each of several questions: to inflate a gigabyte again takes longer than the answers.
    free = shutil.disk_usage(tempfile.gettempdir()).free
    most = max(_KEPT_INFLATED, min(free, _MOST_KEPT_INFLATED))
    # A dict keeps the order of insertion, so the first key is the oldest. A file that is in use stays open through its
    # mapping, even if it is dropped here.
    _INFLATED[key] = inflated
    while sum(size for _, _, size in _INFLATED) > most:
        del _INFLATED[next(iter(_INFLATED))]


def _write_sparse(parts: Trimmed, size: int, name: str) -> tuple[ElfFile, str]:
    """Return a file with a hole, and a hash of the rest."""
    with tempfile.NamedTemporaryFile(prefix="abiscan-") as copy:
        # Everything stays at its offset, so the ELF headers hold. The hole reads as zeros, takes no space, and a
        # search for text finds nothing there: only code for GPUs is left out.
        unread = range(len(parts.beginning), size - len(parts.end))
        copy.write(parts.beginning)
        copy.seek(unread.stop)
        copy.write(parts.end)
        copy.flush()
        digest = hashlib.sha256(f"{unread} of {size}".encode())  # no whole file is what is before it and after it
        digest.update(parts.beginning)
        digest.update(parts.end)
        return ElfFile.open(Path(copy.name), subject=name, unread=unread), digest.hexdigest()


class WheelMember:
    """A file inside a wheel. Unless it is small, or was opened just before, it is inflated each time it is opened."""

    def __init__(self, wheel: Wheel, info: zipfile.ZipInfo) -> None:
        self._wheel = wheel
        self._info = info
        self._kept: ElfFile | None = None
        self._is_whole = False
        self._sha256: str | None = None  # needed for each torch that the file is checked on

    @property
    def name(self) -> str:
        """``wheel!member``."""
        return f"{self._wheel.path}!{self._info.filename}"

    @property
    def size(self) -> int:
        """Its size in bytes, inflated."""
        return self._info.file_size

    def read_head(self, size: int) -> bytes:
        """Return its first bytes, without inflating the rest."""
        return self._wheel.read_member(self._info, size)

    def identify_version(self) -> str:
        """Return its size and checksum, from the wheel's directory."""
        return f"{self._info.file_size} {self._info.CRC:08x}"

    def open_elf(self) -> ElfFile:
        """Inflate and parse it; through a temporary file if it is large, so that it does not stay in memory.

        What is large and read in place is inflated without its code for GPUs: see ``trim_library``.
        """
        # Not only by name: a wheel at the same path may be another one by now.
        key = self.name, self._info.CRC, self._info.file_size
        kept = _INFLATED.get(key)
        if kept is None and not self._is_whole:
            parts = self._wheel.without_gpu_code(self._info)
            self._is_whole = parts is None
            if parts is not None:
                kept = _write_sparse(parts, self._info.file_size, self.name)
                _keep_inflated(key, kept)
        if kept is not None:
            file, self._sha256 = kept
            return file
        # A small one is kept in memory with the member itself, since a file for each would be dearer.
        if self._info.file_size < _SMALL_MEMBER:
            self._kept = self._kept or ElfFile.from_bytes(self._wheel.read_member(self._info), self.name)
            return self._kept
        with tempfile.NamedTemporaryFile(prefix="abiscan-") as copy:
            self._sha256 = self._wheel.copy_member(self._info, copy.file)
            copy.flush()
            file = ElfFile.open(Path(copy.name), subject=self.name)
        _keep_inflated(key, (file, self._sha256))
        return file

    def hash_content(self) -> str:
        """Return the hash of all its bytes, inflated, in hexadecimal."""
        self._sha256 = self._sha256 or self.open_elf().sha256()
        return self._sha256


@contextlib.contextmanager
def random_access(source: ElfSource) -> Iterator[Callable[[int, int], bytes]]:
    """Provide a function that reads some bytes at an offset: of a large file, only what is asked for is read.

    :raises InputError: the file cannot be read
    """
    if not isinstance(source, DiskFile):
        # A member of an archive has no file of its own that could be read in parts: it is inflated, once.
        content = source.open_elf().data
        yield lambda offset, size: bytes(content[offset : offset + size])
        return
    try:
        stream = observed_fs.open_file(source.path, buffering=0)
    except OSError as error:
        raise unreadable_error(source.path, error) from error

    with stream:
        end = os.fstat(stream.fileno()).st_size  # the numbers are those of the file, and may be any

        def read(offset: int, size: int) -> bytes:
            if offset >= end:
                return b""
            stream.seek(offset)
            return stream.read(min(size, end)) or b""

        if hasattr(os, "posix_fadvise"):  # otherwise the system reads ahead, 128 KB for each few bytes
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        yield read


class Mountable(Protocol):
    """What has members that can be laid over the disk."""

    def find_member(self, name: str) -> ElfSource:
        """Return one member, unread; the same object each time."""

    def list_places(self, site: str) -> Iterator[tuple[str, str]]:
        """Return where all members lie once installed, with their names; a member with several names has several
        places.
        """


class Archive(Mountable, Protocol):
    """A package in a file: a wheel, or one that other tools install."""

    @property
    def path(self) -> Path:
        """The file."""

    def list_members(self) -> Iterator[str]:
        """Return the members that are files, by their path in the package."""

    def read_text(self, name: str) -> str:
        """Return a member as text, undecodable bytes replaced."""

    def read_content(self, name: str) -> bytes:
        """Return all bytes of a member that is a text."""

    def installed_path(self, name: str, site: str) -> str:
        """Return where a member lies once installed, if Python's packages are in the folder ``site``."""


class Wheel:
    """A wheel, open for reading.

    :param stream: its bytes, if they are not on disk; ``path`` is then only its name. If it has a method ``prefetch``,
        that is told which bytes will be read, by their starts and ends
    :raises InputError: the file is not a zip archive, or cannot be read
    """

    def __init__(self, path: Path, stream: IO[bytes] | None = None) -> None:
        self.path = path
        self._stream = stream
        self._announce: Callable[[Iterable[tuple[int, int]]], None] | None = getattr(stream, "prefetch", None)
        self._members: dict[str, WheelMember] = {}
        try:
            if stream is None:
                stream = observed_fs.open_file(path)
                weakref.finalize(self, stream.close)
            # zipfile reads the central directory only, at the end; of a wheel on a server, that is all that is
            # downloaded here.
            self._archive = zipfile.ZipFile(stream)
        except OSError as error:
            raise unreadable_error(path, error) from error
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise InputError(str(path), "not a readable wheel", "pass a .whl file, or download it again") from error

    def list_members(self) -> Iterator[str]:
        """Return the members that are files once it is installed, by their path inside the wheel.

        :raises InputError: installers refuse it, or do not install the same
        """
        return iter(self._installed)

    @functools.cached_property
    def _installed(self) -> list[str]:
        return list_installed(self._archive.infolist(), self.path)

    def find_member(self, name: str) -> WheelMember:
        """Return one member, unread; the same object each time."""
        if name not in self._members:
            self._members[name] = WheelMember(self, self._archive.getinfo(name))
        return self._members[name]

    def installed_path(self, name: str, site: str) -> str:
        """Return where the installer puts a member, if it installs into the folder ``site``."""
        return installed_path(name, site)

    def list_places(self, site: str) -> Iterator[tuple[str, str]]:
        """Return where the installer puts all members, with their names."""
        return ((installed_path(name, site), name) for name in self.list_members())

    def read_text(self, name: str) -> str:
        """Return a member as text, undecodable bytes replaced."""
        return self.read_content(name).decode("utf-8", "replace")

    def read_content(self, name: str, largest: int = LARGEST_TEXT) -> bytes:
        """Return all bytes of a member that is a text, by its path inside the wheel.

        :param largest: the size beyond which it is no such text
        :raises InputError: as for ``read_member``, and if it is too large for a text
        """
        info = self._archive.getinfo(name)
        if info.file_size > largest:
            problem = f"claims to be a text of {info.file_size >> 20} MiB"
            raise InputError(f"{self.path}!{name}", problem, "the wheel is damaged or malicious")
        return self.read_member(info)

    def read_member(self, info: zipfile.ZipInfo, size: int = -1) -> bytes:
        """Return the first ``size`` bytes of a member, or all bytes for -1.

        :raises InputError: the member is damaged, encrypted, or claims an absurd size
        """
        with self._member_errors(info):
            if size < 0:
                self.announce_reads([info.filename])
                with self._archive.open(info) as stream:
                    content = self._inflate_member(info)
                    return stream.read() if content is None else content
            with self._archive.open(info) as stream:
                # zipfile reads as many compressed bytes as it is asked for inflated ones, which are many more.
                step = max(_STEP, size >> 6)
                return b"".join(stream.read(min(step, size - done)) for done in range(0, size, step))

    def _inflate_member(self, info: zipfile.ZipInfo) -> bytes | None:
        """Return all bytes of a member on disk whose header zipfile has accepted; None if zipfile is to inflate it."""
        stream = self._archive.fp
        if stream is None or not self._is_plain(info):
            return None
        return inflate_deflated(_read_packed_end(stream, info, info.compress_size), info.file_size, info.CRC)

    def _is_plain(self, info: zipfile.ZipInfo) -> bool:
        """Whether a member on disk is deflated, and of a size that can be true."""
        # Only a file on disk: bytes that come from a server are announced and read in steps, see ``announce_reads``.
        is_deflated = info.compress_type == zipfile.ZIP_DEFLATED and 0 < info.compress_size <= info.file_size
        return self._stream is None and is_deflated

    def announce_reads(self, names: Iterable[str]) -> None:
        """Say that all of these members will be read: together, they take few requests."""
        if self._announce is not None:
            self._announce(map(_find_extent, map(self._archive.getinfo, names)))

    def without_gpu_code(self, info: zipfile.ZipInfo) -> Trimmed | None:
        """Return a large library without its code for GPUs; None if that is not worthwhile, or the wheel is on disk.

        :raises InputError: as for ``read_member``
        """
        packed = info.compress_size
        if (
            self._stream is None
            or self._announce is None
            or info.compress_type != zipfile.ZIP_DEFLATED
            or packed < WORTHWHILE
        ):
            return None

        with self._member_errors(info):
            tail = functools.partial(_read_packed_end, self._stream, info)
            return trim_library(info.file_size, packed, functools.partial(self.read_member, info), tail)

    def extract_member(self, name: str, path: str) -> None:
        """Write a member to a file that does not exist yet, in a folder that does.

        :raises InputError: as for ``copy_member``
        """
        with open(path, "xb") as stream:  # noqa: PTH123 - thousands of them
            self.copy_member(self._archive.getinfo(name), stream, hashed=False)

    def copy_member(self, info: zipfile.ZipInfo, to: IO[bytes], *, hashed: bool = True) -> str:
        """Write all bytes of a member to an empty file; blocks of zeros become holes, which take no space.

        :return: their SHA-256, in hexadecimal; empty if it is not asked for, since it takes longer than all else
        :raises InputError: as for ``read_member``, and if the disk is full
        """
        self.announce_reads([info.filename])
        with self._member_errors(info), self._archive.open(info) as stream:
            if self._is_plain(info) and self._archive.fp is not None:
                packed = self._archive.fp
                _seek_packed(packed, info)
                blocks = inflate_blocks(packed, info.compress_size, info.file_size, info.CRC, len(_ZEROS))
                with contextlib.suppress(NotAsPromisedError):
                    return _copy_blocks(blocks, to, hashed=hashed)
                to.seek(0)
                to.truncate()
            return _copy_blocks(iter(functools.partial(stream.read, len(_ZEROS)), b""), to, hashed=hashed)

    @contextlib.contextmanager
    def _member_errors(self, info: zipfile.ZipInfo) -> Iterator[None]:
        subject = f"{self.path}!{info.filename}"
        if info.file_size > _LARGEST_MEMBER:
            problem = f"claims to be {info.file_size >> 30} GiB in size"
            raise InputError(subject, problem, "the wheel is damaged or malicious")
        try:
            yield
        except UNPACKING as error:
            raise InputError(subject, f"cannot be unpacked: {error}", "download the wheel again") from error
        except MemoryError as error:
            raise InputError(subject, "does not fit in memory", "unpack the wheel and pass the folder") from error


def _seek_packed(stream: IO[bytes], info: zipfile.ZipInfo) -> None:
    """Go to the first byte of the contents of a member, as they are in the archive."""
    stream.seek(info.header_offset)
    # APPNOTE.TXT 4.3.7: the local header has lengths of its own, and its extra field need not be that of the directory.
    name, extra = _LENGTHS.unpack(stream.read(_LOCAL_HEADER))
    stream.seek(info.header_offset + _LOCAL_HEADER + name + extra)


def _read_packed_end(stream: IO[bytes], info: zipfile.ZipInfo, size: int) -> bytes:
    """Return the last bytes of the contents of a member, as they are in the archive."""
    _seek_packed(stream, info)
    stream.seek(info.compress_size - size, os.SEEK_CUR)
    return stream.read(size)


def _copy_blocks(blocks: Iterable[bytes], to: IO[bytes], *, hashed: bool) -> str:
    """Write blocks to a file, and return their SHA-256 if it is asked for."""
    digest = hashlib.sha256()
    for block in blocks:
        if hashed:
            digest.update(block)
        # lseek(2): what is skipped at the end of a file becomes a hole. ``truncate`` makes one at the very end, too.
        if block == _ZEROS:
            to.seek(len(block), os.SEEK_CUR)
        else:
            to.write(block)
    to.truncate()
    return digest.hexdigest() if hashed else ""


def _find_extent(info: zipfile.ZipInfo) -> tuple[int, int]:
    """Return where a member begins and ends: the header, whose extra field may be longer than in the directory, and
    all.
    """
    header = _LOCAL_HEADER + len(info.orig_filename.encode()) + len(info.extra)
    return info.header_offset, info.header_offset + header + info.compress_size


class OpenedFile(Struct, frozen=True, kw_only=True):
    """What ``ld.so`` gets when it opens a file as a library.

    :ivar identity: the same for all paths that lead to the file
    :ivar facts: None if it is no library for any machine of torch, or could not be read here
    :ivar refusal: the words with which ``ld.so`` refuses it and ends the search; None if it goes on
    :ivar is_other_class: whether it is a library of 32 bits, which ``ld.so`` passes over
    """

    identity: str
    facts: SharedObject | None = None
    refusal: str | None = None
    is_other_class: bool = False


class Files:
    """ELF objects by path: members of the mounted wheels first, then the disk.

    :param below: the files behind these, used for everything that is not mounted or put here
    """

    def __init__(self, below: Files | None = None) -> None:
        self._below = below
        self._mounted: dict[str, ElfSource] = {}
        # None is an answer as well: there is no file, or one that ``ld.so`` could not map. It is not looked for again.
        self._objects: dict[str, SharedObject | None] = {}
        self._damaged: dict[str, InputError] = {}
        self._unread: dict[str, InputError] = {}
        self._identities: dict[str, str] = {}
        self._put: set[str] = set()
        self._laid: dict[bool, set[str]] = {}
        self._folders: dict[str, bool] = {}
        self._searched: dict[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]] | None] = {}

    def add_layer(self) -> Files:
        """Return a view of everything here; files mounted or put there do not appear here.

        Several torches can thus have the same path, each in its own layer, while everything else is read only once.
        """
        return Files(below=self)

    def merge_layer(self, layer: Files) -> None:
        """Let what is in a layer of this replace what is here."""
        # Objects that were read here at such a path are hidden now; those that the layer has read follow below.
        for path in layer._mounted:
            self._objects.pop(path, None)
            self._damaged.pop(path, None)
        self._mounted.update(layer._mounted)
        self._objects.update(layer._objects)
        self._put |= layer._put
        self._forget_folders()

    def take_unread(self) -> tuple[InputError, ...]:
        """Return the errors of all files that ``object_at`` could not read since the last call, and was to remember."""
        unread, self._unread = self._unread, {}
        return (*unread.values(), *(self._below.take_unread() if self._below else ()))

    def mount_archive(self, archive: Mountable, site: str, *, over: bool = True, without: Collection[str] = ()) -> None:
        """Lay the members of a package over the disk, as if it were installed in the folder ``site``.

        :param over: whether over other packages, too; else below them
        :param without: members that are left out
        """
        for path, name in archive.list_places(site):
            if name not in without and (over or path not in self._mounted):
                self._mounted[path] = archive.find_member(name)
        self._forget_folders()

    def find_source(self, path: str) -> ElfSource | None:
        """Return the file at ``path``, None if there is none."""
        path = posixpath.normpath(path)
        if member := self._mounted.get(path):
            return member
        if self._below:
            return self._below.find_source(path)
        status = observed_fs.stat_file(path)
        if status is None:
            return None
        self._identities[path] = f"{status.st_dev}:{status.st_ino}"
        if stat.S_ISDIR(status.st_mode):
            self._folders[path] = True
        return DiskFile(Path(path)) if stat.S_ISREG(status.st_mode) else None

    def object_at(self, path: str, *, remember: bool = True) -> SharedObject | None:
        """Return the facts of the ELF object at ``path``; None if there is no file, or ``ld.so`` could not map it.

        :param remember: whether what cannot be read leaves something open, and ``take_unread`` returns it
        """
        # The stored paths are normalised, and most lookups are for one of them.
        if path not in self._objects:
            path = posixpath.normpath(path)
        # Files that no layer changes are read and kept by the lowest one: all torches that are compared share them.
        if self._below and path not in self._objects and path not in self._mounted:
            return self._below.object_at(path, remember=remember)
        if path not in self._objects:
            source = self.find_source(path)
            try:
                self._objects[path] = read_facts(source) if source else None
            except InputError as error:
                self._damaged[path] = error
                self._objects[path] = None
        # Said once for each call of ``take_unread``: several targets may meet the same damaged file.
        if remember and path in self._damaged:
            self._unread[path] = self._damaged[path]
        return self._objects[path]

    def open_library(self, path: str) -> OpenedFile | None:
        """Return what ``ld.so`` gets when it opens a path, in which no ``..`` follows a link; None for nothing."""
        facts = self.object_at(path, remember=False)
        if facts is None:
            return self._examine_failure(posixpath.normpath(path))
        return OpenedFile(identity=self._identify(path), facts=facts)

    def _identify(self, path: str) -> str:
        if self._below and path not in self._mounted:
            return self._below._identify(path)
        return self._identities.get(path, path)

    def _examine_failure(self, path: str) -> OpenedFile | None:
        """Return what ``ld.so`` makes of a file whose facts could not be read; None if there is none."""
        if self._below and path not in self._mounted:
            return self._below._examine_failure(path)
        identity = self._identities.get(path, path)
        if self._folders.get(path):
            return OpenedFile(identity=identity, refusal="cannot read file data: Is a directory")
        if path not in self._damaged or (source := self.find_source(path)) is None:
            return None
        from abiscan.binary.loadable import EHDR, refuse_header  # few runs get here

        try:
            head = source.read_head(EHDR.size)
        except InputError:
            return None  # without the right to read it, ld.so goes on
        if refusal := refuse_header(head):
            return OpenedFile(identity=identity, refusal=refusal)
        if head[4] != _ELFCLASS64:
            return OpenedFile(identity=identity, is_other_class=True)
        if int.from_bytes(head[18:20], "little") not in MACHINES:
            return None
        error = self._damaged[path]
        if isinstance(error, RefusedFileError) and error.refusal:
            machine = MACHINES[int.from_bytes(head[18:20], "little")]
            return OpenedFile(identity=identity, facts=refused_object(machine, error.refusal))
        self._unread[path] = error
        return OpenedFile(identity=identity)

    def find_folder(self, folder: str, subfolders: tuple[str, ...] = ()) -> tuple[str, tuple[str, ...]] | None:
        """Return a folder without ``..`` in its path, and which of some subfolders it has; None if it is not there.

        The way is the kernel's: where ``..`` follows a link, it goes up from where the link leads, and each folder on
        the way must be there.
        """
        key = folder, subfolders
        if key not in self._searched:
            path = self._walk(folder)
            there = path is not None and self._has_folder(path)
            self._searched[key] = (
                (path, tuple(name for name in subfolders if self._has_folder(posixpath.join(path, name))))
                if path is not None and there
                else None
            )
        return self._searched[key]

    def _walk(self, folder: str) -> str | None:
        if ".." not in folder:
            return posixpath.normpath(folder) if folder else ""
        path, is_real = "/" if folder.startswith("/") else "", False
        for part in folder.split("/"):
            if part == "..":
                real = path if is_real else self._resolve_links(path)
                if real is None:
                    return None
                path, is_real = posixpath.dirname(real), True
            elif part not in ("", "."):
                path, is_real = posixpath.join(path, part), False
        return path

    def _resolve_links(self, path: str) -> str | None:
        """Return the real path of a folder; None if there is none."""
        if path in self._folders_above(self._mounted):
            return path
        real = self._below._resolve_links(path) if self._below else None
        if real is None and self._is_on_disk(path):
            real = observed_fs.resolve_links(path)
        return real or (path if path in self._folders_above(self._put) else None)

    def _has_folder(self, path: str) -> bool:
        if path in self._folders_above(self._mounted) or path in self._folders_above(self._put):
            return True
        return self._below._has_folder(path) if self._below else self._is_on_disk(path)

    def _is_on_disk(self, path: str) -> bool:
        if self._below:
            return False  # that one looks there
        if path not in self._folders:
            self._folders[path] = observed_fs.is_dir(path or ".")
        return self._folders[path]

    def _folders_above(self, paths: Collection[str]) -> set[str]:
        """Return all folders above what was mounted, or put here."""
        key = paths is self._put
        if key not in self._laid:
            folders = self._laid[key] = set[str]()
            for path in paths:
                folder = path.rpartition("/")[0]
                while folder not in folders:
                    folders.add(folder)
                    folder = folder.rpartition("/")[0]
        return self._laid[key]

    def _forget_folders(self) -> None:
        self._laid.clear()
        self._searched.clear()

    def put_facts(self, path: str, facts: SharedObject) -> None:
        """Remember facts that were already read."""
        path = posixpath.normpath(path)
        self._objects[path] = facts
        self._put.add(path)
        self._forget_folders()

    def list_folder(self, folder: str) -> list[str]:
        """Return the paths of the files directly in ``folder``, mounted ones included, sorted."""
        folder = posixpath.normpath(folder)
        mounted = {path for path in self._mounted if posixpath.dirname(path) == folder}
        if self._below:
            return sorted(mounted | set(self._below.list_folder(folder)))
        paths = (posixpath.join(folder, name) for name in observed_fs.list_names(folder))
        on_disk = {path for path in paths if observed_fs.is_file(path)}
        return sorted(mounted | on_disk)

    def list_below(self, folder: str) -> Sequence[str]:
        """Return the paths of the files in ``folder`` and all folders in it, mounted ones included, sorted."""
        folder = posixpath.normpath(folder)
        mounted = {path for path in self._mounted if path.startswith(f"{folder}/")}
        if self._below:
            return sorted(mounted | set(self._below.list_below(folder)))
        on_disk = {
            posixpath.join(parent, name) for parent, _, names in observed_fs.walk_folder(folder) for name in names
        }
        return sorted(mounted | on_disk)


def read_facts(source: ElfSource) -> SharedObject:
    """Read the facts of a source directly from its bytes."""
    return source.open_elf().facts()


def check_existence(path: Path) -> bool:
    """Whether there is a file or a folder.

    :raises InputError: the system does not let us look, or takes no such name
    """
    observed_fs.stat_file(path)
    try:
        return path.exists()
    except OSError as error:
        raise unreadable_error(path, error) from error


def require_regular(path: Path) -> None:
    """Refuse a pipe or a device by its name, before anything else is said of it.

    :raises InputError: it is one
    """
    status = observed_fs.stat_file(path)
    if status is not None:
        try:
            regular.require_regular(status)
        except OSError as error:
            raise unreadable_error(path, error) from error


def unreadable_error(path: Path, error: OSError) -> InputError:
    """Return the error for a file that the system cannot read."""
    return InputError(str(path), f"cannot be read: {error.strerror or error}")
