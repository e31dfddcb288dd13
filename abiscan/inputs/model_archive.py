"""The archive that a model is saved in: a zip file whose directory is read, and of its members the small ones.

What PyTorch writes stores its members uncompressed, so a library in it is mapped where it lies, and weights are never
read: their sizes are in the directory.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import posixpath
import stat
import struct
import weakref
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from abiscan.binary.elf import ElfFile
from abiscan.binary.loadable import MAGIC
from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.files import UNPACKING, unreadable_error

_MAX_MEMBERS: Final = 200_000
_MAX_NAME: Final = 4096
_MAX_READ: Final = 256 << 20  # of all members together: code and graphs of the largest models have a tenth
_MAX_LIBRARY: Final = 1 << 30  # of a library that is compressed: those that torch writes are not
_HASHED: Final = 64 << 20
_LOCAL_HEADER: Final = 30
_LOCAL_MAGIC: Final = b"PK\x03\x04"
_EMPTY_MAGIC: Final = b"PK\x05\x06"
_LENGTHS: Final = struct.Struct("<4s22xHH")
_ENCRYPTED: Final = 1
_SECTIONS: Final = struct.Struct("<Q")  # in the header of an ELF object: where the table of sections is
_SECTIONS_AT: Final = 0x28
_COUNTS: Final = struct.Struct("<HHH")  # the size of a row, the number of rows, and that of the row of the names
_COUNTS_AT: Final = 0x3A
_SECTION: Final = struct.Struct("<II16xQQ")
_LONGEST_NAME: Final = 16
_LARGE_DATA_SECTIONS: Final = (b".lrodata", b".ldata")
_DAMAGED: Final = "save the model again, or copy it again: it is damaged or malicious"

PICKLE_MAGIC: Final = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""How a file of ``torch.save`` begins that is no archive, as torch before 1.6 writes it."""


def begins_like_model(head: bytes) -> bool:
    """Whether a file begins like a saved model: like a zip archive, or like what ``torch.save`` wrote before 1.6.

    :param head: its first bytes, as many as ``PICKLE_MAGIC`` has
    """
    return head == PICKLE_MAGIC or head.startswith((_LOCAL_MAGIC, _EMPTY_MAGIC))


class ModelMember:
    """A library inside of a model."""

    def __init__(self, archive: ModelArchive, info: zipfile.ZipInfo) -> None:
        self._archive = archive
        self._info = info
        self._file: ElfFile | None = None

    @property
    def name(self) -> str:
        """``model!member``."""
        return f"{self._archive.path}!{self._info.filename}"

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self._info.file_size

    def read_head(self, size: int) -> bytes:
        """Return its first bytes."""
        return self._archive.read_head(self._info.filename, size)

    def identify_version(self) -> str:
        """Return its size and checksum, from the archive's directory."""
        return f"{self._info.file_size} {self._info.CRC:08x}"

    def open_elf(self) -> ElfFile:
        """Map it where it lies if it is stored, else inflate it.

        :raises InputError: it cannot be read
        """
        self._file = self._file or self._archive.open_library(self._info.filename)
        return self._file

    def hash_content(self) -> str:
        """Return the hash of its bytes; of a large one, whose weights are not read, that of its beginning and its
        checksum.
        """
        content = self.open_elf().data
        digest = hashlib.sha256(content[:_HASHED])
        if len(content) > _HASHED:
            digest.update(self.identify_version().encode())
        return digest.hexdigest()


class ModelArchive:
    """A model's archive, open for reading. ``sizes`` has all members, with their sizes.

    :raises InputError: it cannot be read, or is not what any torch writes
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stream: BinaryIO = observed_fs.open_file(path)
            weakref.finalize(self, self._stream.close)
            self._size = os.fstat(self._stream.fileno()).st_size
            self._archive = zipfile.ZipFile(self._stream)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            problem = f"is a zip archive that ends early or is damaged: {error}"
            raise InputError(str(path), problem, _DAMAGED) from error
        except OSError as error:
            raise unreadable_error(path, error) from error
        self._left = _MAX_READ
        self._libraries: dict[str, ModelMember] = {}
        self._mapped: mmap.mmap | None = None
        self._members = _check_members(path, self._archive.infolist(), self._size)
        self.sizes: Mapping[str, int] = {name: info.file_size for name, info in self._members.items()}

    def find_member(self, name: str) -> ModelMember:
        """Return one member, as a library; the same object each time."""
        if name not in self._libraries:
            self._libraries[name] = ModelMember(self, self._members[name])
        return self._libraries[name]

    def read_content(self, name: str) -> bytes:
        """Return all bytes of a member.

        :raises InputError: it cannot be unpacked, or all that was read of the archive is too much
        """
        info = self._members[name]
        # The limit is for all members together: many of moderate size would take as much memory as a large one.
        if info.file_size > self._left:
            raise InputError(f"{self.path}!{name}", _too_much(info.file_size), _DAMAGED)
        data = self._read_member(info, info.file_size + 1)  # the size in the directory may be wrong
        self._left -= len(data)
        if self._left < 0:
            raise InputError(f"{self.path}!{name}", _too_much(len(data)), _DAMAGED)
        return data

    def read_head(self, name: str, size: int) -> bytes:
        """Return the first bytes of a member.

        :raises InputError: as for ``read_content``
        """
        return self._read_member(self._members[name], size)

    def _read_member(self, info: zipfile.ZipInfo, size: int) -> bytes:
        try:
            with self._archive.open(info) as stream:
                return stream.read(size)
        except UNPACKING as error:
            raise InputError(f"{self.path}!{info.filename}", f"cannot be read: {error}", _DAMAGED) from error

    def open_library(self, name: str) -> ElfFile:
        """Return a member as ELF: mapped where it lies if it is stored.

        :raises InputError: as for ``read_content``, or it is no ELF object
        """
        info, subject = self._members[name], f"{self.path}!{name}"
        if info.compress_type != zipfile.ZIP_STORED:
            if info.file_size > _MAX_LIBRARY:
                raise InputError(subject, _too_much(info.file_size), _DAMAGED)
            return ElfFile.from_bytes(self._read_member(info, info.file_size), subject)
        # The whole file is mapped once: pages are read when something looks at them, and weights never are.
        if self._mapped is None:
            self._mapped = mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_READ)
        start = self._find_start(info)
        content = memoryview(self._mapped)[start : start + info.file_size]
        return ElfFile.from_bytes(content, subject, unread=_find_weights(content))

    def list_libraries(self) -> Iterator[str]:
        """Return the members that are shared objects, by their names and how they begin."""
        named = (name for name in self._members if name.endswith(".so"))
        return (name for name in named if self.read_head(name, len(MAGIC)) == MAGIC)

    def list_places(self, site: str) -> Iterator[tuple[str, str]]:
        """Return where the shared objects would lie if the archive were the folder ``site``, with their names."""
        return ((posixpath.join(site, name), name) for name in self.list_libraries())

    def _find_start(self, info: zipfile.ZipInfo) -> int:
        """Return where the bytes of a stored member begin."""
        self._stream.seek(info.header_offset)
        header = self._stream.read(_LOCAL_HEADER)
        if len(header) == _LOCAL_HEADER and header.startswith(_LOCAL_MAGIC):
            _, name, extra = _LENGTHS.unpack(header)
            start: int = info.header_offset + _LOCAL_HEADER + name + extra
            if start + info.file_size <= self._size:
                return start
        raise InputError(f"{self.path}!{info.filename}", "is outside the file, which is truncated", _DAMAGED)


def _find_weights(content: memoryview) -> range:
    """Return where the weights are that AOTInductor has linked into a library: in the largest section that is for
    large data.

    The rest of a library has no such sections.
    """
    largest = range(0)
    try:
        # Elf64_Ehdr: e_shoff at 0x28; e_shentsize, e_shnum and e_shstrndx from 0x3A on. Each of the numbers is a claim:
        # what leads out of the file ends in the except clause.
        (offset,) = _SECTIONS.unpack_from(content, _SECTIONS_AT)
        size, count, strings = _COUNTS.unpack_from(content, _COUNTS_AT)
        rows = [_SECTION.unpack_from(content, offset + number * size) for number in range(count)]
        names = rows[strings][2]
        for name, _, begin, length in rows:
            word = bytes(content[names + name : names + name + _LONGEST_NAME]).partition(b"\0")[0]
            if word in _LARGE_DATA_SECTIONS and length > len(largest):
                largest = range(begin, begin + length)
    # OverflowError: of an offset that no memory has.
    except (struct.error, IndexError, ValueError, OverflowError):
        return range(0)  # reading it as ELF reports what is wrong with it
    return largest if largest.stop <= len(content) else range(0)


def _too_much(size: int) -> str:
    return f"claims {size} bytes, which is more than in any model"


def _check_members(path: Path, infos: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members that are files, by name.

    :raises InputError: no torch writes such an archive
    """
    if len(infos) > _MAX_MEMBERS:
        raise InputError(str(path), f"has {len(infos)} members, too many for a model", _DAMAGED)
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename
        subject = f"{path}!{name[:_MAX_NAME]}"
        # Harmless when members are read; but a tool that unpacks the archive would write to such a path.
        if len(name) > _MAX_NAME or posixpath.isabs(name) or ".." in name.split("/") or "\\" in name:
            raise InputError(subject, "is a member with a name that leads out of the archive", _DAMAGED)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise InputError(subject, "is a symbolic link", _DAMAGED)
        if info.flag_bits & _ENCRYPTED:
            raise InputError(subject, "is encrypted, which torch does not read", "save the model without a password")
        # torch and zipfile need not choose the same of the two, so what abiscan reads might not be what runs.
        if name in members:
            raise InputError(subject, "occurs twice, so readers may disagree about its content", _DAMAGED)
        if info.header_offset + _LOCAL_HEADER + info.compress_size > size:
            raise InputError(subject, "is outside the file, which is truncated", _DAMAGED)
        if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
            raise InputError(subject, f"claims {info.file_size} bytes and has {info.compress_size}", _DAMAGED)
        if not info.is_dir():
            members[name] = info
    return members
