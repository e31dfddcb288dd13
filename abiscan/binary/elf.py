"""The ELF facts of one shared object, copied out of the file at once.

The file is mapped and decoded in place, so only a few pages of it are touched, even if it is large. Only what ``ld.so``
reads is read: section headers, for example, may be stripped or wrong. The tests compare every fact with lief's; parsing
with lief would read the whole file, and importing it takes longer than most checks.

Terms and layouts are those of the ELF gABI, chapters 4 and 5, and of the LSB for symbol versions.
"""

from __future__ import annotations

import bisect
import contextlib
import enum
import functools
import hashlib
import mmap
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field

from abiscan import regular
from abiscan.binary import by_lief
from abiscan.binary.machines import MACHINES
from abiscan.binary.machines import Machine as Machine  # noqa: PLC0414 - those who read an object name its machine
from abiscan.binary.ownership import may_name_torch
from abiscan.binary.symbols import HIDDEN_VERSION, SYMBOL, UNDEFINED, ElfSymbols, HashTable, Symbols
from abiscan.errors import InputError, NotElfError
from abiscan.regex import regex

MAGIC: Final = b"\x7fELF"

# Other formats of files that are named like shared objects, by their first bytes.
_OTHER_FORMATS: Final = (
    (b"\xcf\xfa\xed\xfe", "a Mach-O file (macOS)"),
    (b"\xce\xfa\xed\xfe", "a Mach-O file (macOS)"),
    (b"\xca\xfe\xba\xbe", "a Mach-O universal file (macOS)"),
    (b"MZ", "a PE file (Windows)"),
    (b"!<arch>\n", "a static archive"),
    (b"PK\x03\x04", "a zip archive"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
    (b"/* GNU ld script", "a linker script"),
)

_EHDR: Final = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_PHDR: Final = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr: type, flags, offset, vaddr, paddr, filesz, memsz, align
_DYN: Final = struct.Struct("<QQ")  # Elf64_Dyn: tag, value
_NOTE: Final = struct.Struct("<III")  # Elf64_Nhdr: name size, descriptor size, type
_VERNEED: Final = struct.Struct("<HHIII")  # Elf64_Verneed: version, count, file, aux, next
_VERNAUX: Final = struct.Struct("<IHHII")  # Elf64_Vernaux: hash, flags, other, name, next
_VERDEF: Final = struct.Struct("<HHHHIII")  # Elf64_Verdef: version, flags, index, count, hash, aux, next
_VERDAUX: Final = struct.Struct("<II")  # Elf64_Verdaux: name, next
_ELFCLASS64: Final = 2
_ELFDATA2LSB: Final = 1
_RELA_SIZE: Final = 24  # Elf64_Rela: offset, info, addend, eight bytes each
_STB_LOCAL, _STB_WEAK = 0, 2
_DF_BIND_NOW: Final = 8
_DF_1_NOW, _DF_1_NODEFLIB, _DF_1_PIE = 1, 0x800, 0x0800_0000
_ET_EXEC, _ET_DYN = 2, 3
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE, _PT_GNU_EH_FRAME = 1, 2, 4, 0x6474E550
_PF_X, _PF_W = 1, 2
_NT_GNU_BUILD_ID: Final = 3
_MOST_SEGMENTS: Final = 1_000
_TABLE_ENCODING: Final = 0x3B  # DW_EH_PE_datarel | DW_EH_PE_sdata4
_MUCH: Final = 1 << 22  # bytes of a file that are worth giving back
_VER_FLG_BASE: Final = 1
_VER_FLG_WEAK: Final = 2

# c10/util/Exception.h, TORCH_INTERNAL_ASSERT, from torch 1.5 on.
_ASSERTION: Final = b" INTERNAL ASSERT FAILED at "
_ASSERTED_AT: Final = regex(rb"\"?([^\"\0\n]{1,4096}?)\"?:([0-9]{1,7}),")

_PYBIND11_INTERNALS_PREFIX: Final = b"__pybind11_internals_v"
_PYBIND11_INTERNALS: Final = regex(rb"__pybind11_internals_v[0-9A-Za-z_]+__")
_PYBIND11_VERSION_CHECK: Final = b"Python version mismatch: module was compiled for Python %s, "
_PYTHON_VERSION: Final = regex(rb"(?<![0-9.])(3\.[0-9]{1,2})\0")


class Tag(enum.IntEnum):
    """The entries of the dynamic section that matter here (``DT_…``)."""

    NEEDED = 1
    PLTRELSZ = 2
    HASH = 4
    STRTAB = 5
    SYMTAB = 6
    RELA = 7
    RELASZ = 8
    STRSZ = 10
    INIT = 12
    SONAME = 14
    RPATH = 15
    JMPREL = 23
    BIND_NOW = 24
    INIT_ARRAY = 25
    INIT_ARRAYSZ = 27
    RUNPATH = 29
    FLAGS = 30
    RELRSZ = 35
    RELR = 36
    GNU_HASH = 0x6FFF_FEF5
    VERSYM = 0x6FFF_FFF0
    RELACOUNT = 0x6FFF_FFF9
    FLAGS_1 = 0x6FFF_FFFB
    VERDEF = 0x6FFF_FFFC
    VERNEED = 0x6FFF_FFFE
    AUXILIARY = 0x7FFF_FFFD
    FILTER = 0x7FFF_FFFF


class SymbolVersion(NamedTuple):
    """A version that a reference requires: ``GLIBC_2.14`` of the file ``libc.so.6`` (one Elf64_Vernaux)."""

    file: str
    name: str
    weak: bool = False


class Reference(NamedTuple):
    """An undefined symbol that a relocation needs."""

    name: str
    version: SymbolVersion | None
    weak: bool

    def __str__(self) -> str:
        return f"{self.name}@{self.version.name}" if self.version else self.name


class Filtee(NamedTuple):
    """A library whose symbols come before those of the object itself (DT_FILTER, DT_AUXILIARY).

    :ivar position: how many DT_NEEDED entries come before it
    :ivar optional: whether the object loads without it
    """

    name: str
    position: int
    optional: bool


class SourceLine(NamedTuple):
    """A line of a source file; the path is that on the machine where it was compiled."""

    file: str
    line: int


class Segment(Struct, frozen=True, kw_only=True):
    """A PT_LOAD segment.

    :ivar address: where it lies in memory
    :ivar size: the bytes that it has there: those of the file, then zeros
    :ivar offset: where it begins in the file
    :ivar file_size: the bytes that it has there
    """

    address: int
    size: int
    offset: int
    file_size: int
    flags: int


class SharedObject(Struct, frozen=True, kw_only=True):
    """What the loader, and abiscan, need to know about one ELF object.

    :ivar executable: whether it is a program, position-independent or not, and no library
    :ivar rpath, runpath: the folders, with ``$ORIGIN`` as it is; an entry without a text is one empty folder
    :ivar filtees: libraries that are loaded along, in front of it
    :ivar skips_default_folders: whether the libraries that it needs are not looked for in the system's (NODEFLIB)
    :ivar version_definitions: None if the object has no DT_VERDEF, which differs from an empty one for ``ld.so``
    :ivar references: in the order in which ``ld.so`` processes them: ``.rela.dyn``, then ``.rela.plt``; each once
    :ivar imports: all undefined names of the dynamic symbol table, even if no relocation uses them
    :ivar has_relr: whether relative relocations are packed (DT_RELR)
    :ivar eager: how many of the references, the first ones, a program binds at its start; None for all of them
        (BIND_NOW)
    :ivar copies: the data of libraries that a program copies into itself as it starts, by name, with the size that they
        had when it was linked; the program defines them, too
    """

    machine: Machine
    executable: bool
    soname: str | None
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    build_id: str | None
    version_needs: tuple[SymbolVersion, ...]
    version_definitions: frozenset[str] | None
    symbols: Symbols
    references: tuple[Reference, ...]
    imports: frozenset[str]
    pybind11_internals: str | None
    pybind11_python: tuple[str, ...]
    has_relr: bool = False
    eager: int | None = None
    copies: Mapping[str, int] = field(default_factory=dict)
    filtees: tuple[Filtee, ...] = ()
    skips_default_folders: bool = False

    @property
    def python_modules(self) -> tuple[str, ...]:
        """The names ``X`` for which the object exports ``PyInit_X``."""
        return tuple(sorted(name.removeprefix("PyInit_") for name in self.symbols.starting_with("PyInit_")))


def describe_other_format(head: bytes) -> str:
    """Return a description of a file that is not an ELF file, from its first bytes (64 are enough)."""
    if not head:
        return "an empty file"
    for magic, description in _OTHER_FORMATS:
        if head.startswith(magic):
            return description
    if all(byte in b"\t\n\r\f" or 0x20 <= byte < 0x7F for byte in head):
        return "a text file"
    return "not an ELF file"


def check_header(head: bytes, subject: str) -> None:
    """Reject a file that is not a 64-bit little-endian ELF file, before any parser reads it.

    :param head: the first 64 bytes (fewer if the file is shorter)
    :raises NotElfError: says what the file is instead
    """
    if not head.startswith(MAGIC):
        raise NotElfError(
            subject, f"{describe_other_format(head)}, not a Linux shared object", "pass the .so or the wheel"
        )
    if len(head) < _EHDR.size:
        raise NotElfError(subject, "truncated inside the ELF header", "download it again")
    if head[4] != _ELFCLASS64:
        raise NotElfError(subject, "a 32-bit ELF file; torch is 64-bit only", "pass the 64-bit build")
    if head[5] != _ELFDATA2LSB:
        raise NotElfError(subject, "a big-endian ELF file", "only x86_64 and aarch64 are supported")


class ElfFile:
    """The bytes of one object and their layout in memory.

    ``segments`` are its PT_LOAD segments; ``entries`` is its dynamic section, in order, and ``dynamic`` the same by tag
    (the last entry of a tag wins, as for ``ld.so``).
    """

    def __init__(self, content: bytes | mmap.mmap | memoryview, subject: str, unread: range = range(0)) -> None:
        self.subject = subject
        self._unread = unread
        self._bytes = content
        self.data = memoryview(content)
        header = _EHDR.unpack_from(self.data)
        file_type, machine, program_headers, count = header[1], header[2], header[5], header[10]
        if file_type not in (_ET_DYN, _ET_EXEC):
            raise NotElfError(subject, "an object file or core dump, not a shared object", "pass the linked .so")
        if machine not in MACHINES:
            raise NotElfError(
                subject, f"built for {by_lief.machine_name(machine)}", "only x86_64 and aarch64 are supported"
            )
        self.machine = MACHINES[machine]
        self.is_fixed = file_type == _ET_EXEC
        if count > _MOST_SEGMENTS or program_headers + count * _PHDR.size > len(self.data):
            raise NotElfError(subject, "truncated inside the program headers", "download it again")
        # Only what ld.so looks at: segments. Section headers may be stripped, or lie.
        headers = list(_PHDR.iter_unpack(self.data[program_headers : program_headers + count * _PHDR.size]))
        self.segments = tuple(
            Segment(address=address, size=size, offset=offset, file_size=file_size, flags=flags)
            for kind, flags, offset, address, _, file_size, size, _ in headers
            if kind == _PT_LOAD
        )
        if any(segment.offset + segment.file_size > len(self.data) for segment in self.segments):
            raise NotElfError(subject, "truncated: a segment extends past the end of the file", "download it again")
        # Linkers may split the notes into several segments, one for each alignment.
        self.notes = tuple(self.data[h[2] : h[2] + h[5]] for h in headers if h[0] == _PT_NOTE)
        self._exceptions = next(
            ((h[3], self.data[h[2] : h[2] + h[5]]) for h in headers if h[0] == _PT_GNU_EH_FRAME), None
        )
        section = next((self.data[h[2] : h[2] + h[5]] for h in headers if h[0] == _PT_DYNAMIC), None)
        if section is None:
            raise NotElfError(subject, "not a shared object: it has no dynamic section", "pass the linked .so")
        self.entries = tuple(_dynamic_entries(section))
        self.dynamic = dict(self.entries)

    @property
    def is_program(self) -> bool:
        """Whether it is a program, position-independent or not."""
        return self.is_fixed or bool(self.dynamic.get(Tag.FLAGS_1, 0) & _DF_1_PIE)

    @property
    def binds_now(self) -> bool:
        """Whether all its symbols are bound as it is loaded, whoever loads it."""
        flags = self.dynamic.get(Tag.FLAGS, 0) & _DF_BIND_NOW or self.dynamic.get(Tag.FLAGS_1, 0) & _DF_1_NOW
        return bool(flags) or Tag.BIND_NOW in self.dynamic

    @classmethod
    def open(cls, path: Path, subject: str | None = None, *, unread: range = range(0)) -> ElfFile:
        """Map the file at ``path``.

        :param subject: its name in messages, by default its path
        :param unread: a part that was not read: there are zeros instead
        :raises NotElfError: it is not an ELF file, or damaged
        :raises InputError: it cannot be read
        """
        subject = subject or str(path)
        try:
            with regular.open_regular(path) as stream:
                check_header(stream.read(_EHDR.size), subject)
                content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise InputError(subject, f"cannot be read: {error.strerror or error}") from error
        with _damage_reported(subject):
            return cls(content, subject, unread)

    @classmethod
    def from_bytes(cls, content: bytes | memoryview, subject: str, *, unread: range = range(0)) -> ElfFile:
        """Read a file that is in memory, such as a member of a wheel.

        :param unread: a part that is not to be read
        """
        check_header(bytes(content[: _EHDR.size]), subject)
        with _damage_reported(subject):
            return cls(content, subject, unread)

    def bytes_at(self, address: int, size: int) -> memoryview:
        """Return ``size`` bytes at a virtual address, from the file.

        :raises NotElfError: no segment contains them
        """
        for segment in self.segments:
            start = address - segment.address
            # The part of a segment behind its bytes in the file is zero in memory: no table of the file can be there.
            if start >= 0 and start + size <= segment.file_size:
                return self.data[segment.offset + start : segment.offset + start + size]
        raise NotElfError(
            self.subject, f"damaged: no segment contains {size} bytes at {address:#x}", "download it again"
        )

    def tail_at(self, address: int) -> memoryview:
        """Return everything from a virtual address to the end of its segment, from the file."""
        for segment in self.segments:
            if 0 <= address - segment.address < segment.file_size:
                start = segment.offset + address - segment.address
                return self.data[start : segment.offset + segment.file_size]
        raise NotElfError(self.subject, f"damaged: no segment contains the address {address:#x}", "download it again")

    def find_in_data(self, text: bytes) -> Iterator[int]:
        """Yield the file offsets of ``text`` in the data."""
        if isinstance(self._bytes, memoryview):
            yield from (match.start() for match in self.search_data(re.compile(re.escape(text))))
            return
        # An mmap is searched by itself, without a copy; what was searched is given back, for a CUDA library has
        # gigabytes.
        for start, end in self._data_parts():
            position = self._bytes.find(text, start, end)
            self.let_go(start, end)
            while position >= 0:
                yield position
                position = self._bytes.find(text, position + len(text), end)

    def search_data(self, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
        """Yield the matches of ``pattern`` in the data."""
        for start, end in self._data_parts():
            yield from pattern.finditer(self._bytes, start, end)
            self.let_go(start, end)

    def _data_parts(self) -> Iterator[tuple[int, int]]:
        """Yield the parts of the file that may hold constants: where each starts and ends.

        Linkers put constants into segments of their own, or, if there are none, before and behind the code.
        """
        segments = [segment for segment in self.segments if not segment.flags & _PF_X]
        if any(not segment.flags & _PF_W for segment in segments):
            for segment in segments:
                yield from self._read_parts(segment.offset, segment.offset + segment.file_size)
            return
        # Without a segment for constants (ld before 2.31, or -z noseparate-code), they share one with the code: what
        # lies in front of the first function and behind the start of the last one.
        starts = self.function_starts
        for segment in self.segments:
            start, end = segment.offset, segment.offset + segment.file_size
            within = slice(
                bisect.bisect_left(starts, segment.address),
                bisect.bisect_left(starts, segment.address + segment.file_size),
            )
            if functions := starts[within]:
                yield from self._read_parts(start, start + functions[0] - segment.address)
                start += functions[-1] - segment.address
            yield from self._read_parts(start, end)

    def let_go(self, start: int, end: int) -> None:
        """Give back the memory that a part of the file takes; it is read again when it is needed."""
        if isinstance(self._bytes, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
            if end - first >= _MUCH:
                self._bytes.madvise(mmap.MADV_DONTNEED, first, end - first)

    @functools.cached_property
    def function_starts(self) -> list[int]:
        """Where the functions start, in order; empty if the file has no usable table of them."""
        return [] if self._exceptions is None else functions_in(*self._exceptions)

    def _read_parts(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what was read of a part of the file."""
        unread = self._unread
        if unread and start <= unread.start < unread.stop <= end:
            yield start, unread.start
            start = unread.stop
        yield start, end

    def assertions(self) -> frozenset[SourceLine]:
        """Return the source lines of torch's assertions that were compiled into the file: their texts contain them."""
        texts = (
            _ASSERTED_AT.match(self._bytes, position + len(_ASSERTION)) for position in self.find_in_data(_ASSERTION)
        )
        return frozenset(
            SourceLine(text.group(1).decode("utf-8", "backslashreplace"), int(text.group(2))) for text in texts if text
        )

    def table(self, address_tag: Tag, size_tag: Tag) -> memoryview:
        """Return a table, given by two entries of the dynamic section; empty if the object has none."""
        address, size = self.dynamic.get(address_tag), self.dynamic.get(size_tag, 0)
        return self.bytes_at(address, size) if address and size else memoryview(b"")

    def may_need_torch(self) -> bool:
        """Return whether the object may be linked with torch or reference it: a quick look at its string table.

        :raises NotElfError: the string table is not in the file
        """
        return may_name_torch(bytes(self.table(Tag.STRTAB, Tag.STRSZ)))

    def sha256(self) -> str:
        """Return the hash of the whole file, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    def facts(self) -> SharedObject:
        """Copy out what the analysis needs.

        :raises NotElfError: a table is damaged
        """
        with _damage_reported(self.subject):
            return _Reader(self).read()


def functions_in(address: int, table: memoryview) -> list[int]:
    """Return where functions start, in order, by the table for exceptions that lies at ``address``; empty if it is
    none.

    That is ``.eh_frame_hdr`` (LSB 5.0, 10.6.2), which stripping leaves alone.
    """
    if len(table) < 12:
        return []
    version, pointer, count_encoding, table_encoding = table[:4]
    # Entries of other forms have no fixed size, and no linker writes them. Count: udata4; pointer: four bytes as well.
    if version != 1 or table_encoding != _TABLE_ENCODING or pointer & 0xF not in (0xB, 0x3) or count_encoding != 3:
        return []
    count = min(int.from_bytes(table[8:12], "little"), (len(table) - 12) // 8)
    offsets = table[12 : 12 + 8 * count].cast("i")[::2].tolist()
    return sorted([address + offset for offset in offsets])


@contextlib.contextmanager
def _damage_reported(subject: str) -> Iterator[None]:
    """Turn the errors that a damaged file causes into an error that names the file."""
    try:
        yield
    except (ValueError, OverflowError, MemoryError, struct.error) as error:
        raise NotElfError(subject, f"damaged: {error}", "download it again") from error


def _dynamic_entries(section: memoryview) -> Iterator[tuple[int, int]]:
    for tag, value in _DYN.iter_unpack(section[: len(section) // _DYN.size * _DYN.size]):
        if tag == 0:  # DT_NULL ends the section
            return
        yield tag, value


class _Reader:
    """Decodes the tables of one file. Lives as long as ``ElfFile.facts`` runs."""

    def __init__(self, file: ElfFile) -> None:
        self.file = file
        # The order matters: versions and symbols have names, and the number of symbols may depend on the relocations.
        self.strings = bytes(file.table(Tag.STRTAB, Tag.STRSZ))
        self.version_definitions = self._version_definitions()
        self.version_needs = self._version_needs()
        self.hash_table = self._hash_table()
        self.relocated, self.outside_table = self._relocated_symbols()
        self.copied = self._copied_symbols() if file.is_program else frozenset[int]()

    def read(self) -> SharedObject:
        table = self._symbol_table()
        # The first of the six words of each symbol is the offset of its name.
        names = memoryview(table).cast("I")[::6]
        if names:
            self._read_name(max(names))  # after this every name is known to have an end
        versions = self._symbol_versions(len(names))
        imports = frozenset(self._undefined_names(table))
        # The searches below read all data of the file.
        uses_python = any(name.startswith(("Py", "_Py")) for name in imports)
        references, at_start = self._read_references(table, versions)
        copied = {name: size for index in self.copied for name, size in [self._name_and_size(table, index)]}
        return SharedObject(
            machine=self.file.machine,
            executable=self.file.is_program,
            soname=self._read_name(self.file.dynamic[Tag.SONAME]) if Tag.SONAME in self.file.dynamic else None,
            needed=tuple(self._read_name(value) for tag, value in self.file.entries if tag == Tag.NEEDED),
            rpath=self._search_path(Tag.RPATH),
            runpath=self._search_path(Tag.RUNPATH),
            build_id=self._build_id(),
            version_needs=tuple(self.version_needs.values()),
            version_definitions=(
                frozenset(self.version_definitions.values()) if Tag.VERDEF in self.file.dynamic else None
            ),
            symbols=ElfSymbols(table, versions, self.version_definitions, self.strings, self.hash_table),
            references=references,
            imports=imports,
            # A pybind11 module imports Python symbols, so a CUDA library of a gigabyte need not be searched.
            pybind11_internals=self._pybind11_internals() if uses_python else None,
            pybind11_python=self._pybind11_python() if uses_python else (),
            has_relr=Tag.RELR in self.file.dynamic,
            eager=None if self.file.binds_now else at_start,
            copies=copied,
            filtees=tuple(self._list_filtees()),
            skips_default_folders=bool(self.file.dynamic.get(Tag.FLAGS_1, 0) & _DF_1_NODEFLIB),
        )

    def _read_name(self, offset: int) -> str:
        end = self.strings.find(b"\0", offset)
        if end < 0:
            raise NotElfError(self.file.subject, "damaged: a name is outside the string table", "download it again")
        return self.strings[offset:end].decode("utf-8", "backslashreplace")

    def _search_path(self, tag: Tag) -> tuple[str, ...]:
        # An empty part is the current folder, and an empty RUNPATH still switches RPATH off.
        return tuple(self._read_name(self.file.dynamic[tag]).split(":")) if tag in self.file.dynamic else ()

    def _list_filtees(self) -> Iterator[Filtee]:
        if Tag.FILTER not in self.file.dynamic and Tag.AUXILIARY not in self.file.dynamic:
            return
        needed = 0
        for tag, value in self.file.entries:
            if tag == Tag.NEEDED:
                needed += 1
            elif tag in (Tag.FILTER, Tag.AUXILIARY):
                yield Filtee(name=self._read_name(value), position=needed, optional=tag == Tag.AUXILIARY)

    def _build_id(self) -> str | None:
        for notes in self.file.notes:
            position = 0
            while position + _NOTE.size <= len(notes):
                name_size, size, kind = _NOTE.unpack_from(notes, position)
                start = position + _NOTE.size + (name_size + 3 & ~3)
                if (
                    kind == _NT_GNU_BUILD_ID
                    and bytes(notes[position + _NOTE.size : position + _NOTE.size + 4]) == b"GNU\0"
                ):
                    return notes[start : start + size].hex()
                position = start + (size + 3 & ~3)
        return None

    def _symbol_table(self) -> bytes:
        address = self.file.dynamic.get(Tag.SYMTAB)
        return bytes(self.file.bytes_at(address, self._symbol_count() * SYMBOL.size)) if address else b""

    def _hash_table(self) -> HashTable | None:
        address = self.file.dynamic.get(Tag.GNU_HASH)
        return HashTable(self.file.tail_at(address)) if address else None

    def _symbol_count(self) -> int:
        """Return the number of symbols, which the dynamic section does not have."""
        # DT_HASH says it ("nchain", gABI chapter 5). DT_GNU_HASH only covers the symbols that can be looked up, which
        # are the last ones; without any, only relocations tell how many there are.
        if address := self.file.dynamic.get(Tag.HASH):
            return struct.unpack("<4xI", self.file.bytes_at(address, 8))[0]  # type: ignore[no-any-return]
        first, end = (self.hash_table.first, self.hash_table.end) if self.hash_table else (0, None)
        return max((first, *(index + 1 for index in self.relocated))) if end is None else end

    def _relocated_symbols(self) -> tuple[list[int], int]:
        """Return symbol indexes in the order of their relocations, each once, without 0 (no symbol).

        The number is that of the first ones, which have relocations outside the linkage table.
        """
        # The order decides which missing symbol ld.so reports; a library has hundreds of thousands of relocations, so
        # the column of symbols is taken out at once: the upper half of ``r_info``.
        relative = self.file.dynamic.get(Tag.RELACOUNT, 0)  # so many at the beginning have no symbol
        indexes: dict[int, None] = {0: None}
        counts: list[int] = []
        for table in (
            self.file.table(Tag.RELA, Tag.RELASZ)[relative * _RELA_SIZE :],
            self.file.table(Tag.JMPREL, Tag.PLTRELSZ),
        ):
            words = table[: len(table) // _RELA_SIZE * _RELA_SIZE].cast("I")
            indexes.update(dict.fromkeys(words[3::6].tolist()))
            counts.append(len(indexes))
        return list(indexes)[1:], counts[0] - 1

    def _copied_symbols(self) -> frozenset[int]:
        """Return the indexes of the symbols whose data a program copies into itself."""
        table = self.file.table(Tag.RELA, Tag.RELASZ)
        words = table[: len(table) // _RELA_SIZE * _RELA_SIZE].cast("I")
        kinds = zip(words[2::6].tolist(), words[3::6].tolist(), strict=True)
        return frozenset(index for kind, index in kinds if kind == self.file.machine.traits.copy)

    def _name_and_size(self, table: bytes, index: int) -> tuple[str, int]:
        name, _, _, _, _, size = SYMBOL.unpack_from(table, index * SYMBOL.size)
        return self._read_name(name), size

    def _undefined_names(self, table: bytes) -> Iterator[str]:
        """Yield the undefined names, which linkers put in front of those that can be looked up."""
        end = None
        if self.hash_table and self.hash_table.end is not None:  # a table of no symbols begins at 1, whatever there is
            end = self.hash_table.first * SYMBOL.size
        for name, _, _, section, _, _ in SYMBOL.iter_unpack(memoryview(table)[SYMBOL.size : end]):
            if section == UNDEFINED:
                yield self._read_name(name)

    def _version_definitions(self) -> dict[int, str]:
        return {
            index: self._read_name(_VERDAUX.unpack_from(table, position + aux)[0])
            # The base definition is the name of the file, and no version of a symbol (VER_FLG_BASE).
            for table, position, (_, flags, index, count, _, aux, _) in self._follow_chain(Tag.VERDEF, _VERDEF)
            if count and not flags & _VER_FLG_BASE
        }

    def _version_needs(self) -> dict[int, SymbolVersion]:
        needs: dict[int, SymbolVersion] = {}
        left: int | None = None
        for table, start, (_, count, file, first, _) in self._follow_chain(Tag.VERNEED, _VERNEED):
            position = start + first
            left = len(table) // _VERNAUX.size if left is None else left
            for _ in range(count):
                left -= 1
                if left < 0:  # they are not in each other's place, or reading them would take for ever
                    raise NotElfError(self.file.subject, "damaged: version needs overlap", "download it again")
                _, flags, version_index, name, following = _VERNAUX.unpack_from(table, position)
                version = SymbolVersion(self._read_name(file), self._read_name(name), bool(flags & _VER_FLG_WEAK))
                # The index is that in DT_VERSYM, whose highest bit says that the version is hidden (LSB 5.0, 10.7).
                needs[version_index & ~HIDDEN_VERSION] = version
                if not following:
                    break
                position += following
        return needs

    def _follow_chain(self, tag: Tag, entry: struct.Struct) -> Iterator[tuple[memoryview, int, tuple[int, ...]]]:
        """Yield the entries of a version table, with the table and the offset of each; the last field links to the
        next.
        """
        address = self.file.dynamic.get(tag)
        if not address:
            return
        table, position = self.file.tail_at(address), 0
        while True:
            fields = entry.unpack_from(table, position)
            yield table, position, fields
            if not fields[-1]:
                return
            position += fields[-1]

    def _symbol_versions(self, count: int) -> Sequence[int]:
        # An object without versions reads like one in which every symbol has index 0.
        address = self.file.dynamic.get(Tag.VERSYM)
        return memoryview(bytes(self.file.bytes_at(address, 2 * count)) if address else bytes(2 * count)).cast("H")

    def _read_references(self, table: bytes, versions: Sequence[int]) -> tuple[tuple[Reference, ...], int]:
        """Return the references, and how many of them are outside the linkage table: the first ones."""
        at_start = 0
        references: dict[tuple[str, SymbolVersion | None], Reference] = {}
        sections = memoryview(table).cast("H")[3::12]
        if max(self.relocated, default=0) >= len(sections):
            raise NotElfError(self.file.subject, "damaged: a relocation refers to no symbol", "download it again")
        for number, index in enumerate(self.relocated):
            # What the object defines itself need not be found elsewhere, except for the data that a program copies.
            if sections[index] != UNDEFINED and index not in self.copied:
                continue
            name_at, info, _, _, _, _ = SYMBOL.unpack_from(table, index * SYMBOL.size)
            binding = info >> 4
            if binding == _STB_LOCAL:
                continue
            name = self._read_name(name_at)
            version = self.version_needs.get(versions[index] & ~HIDDEN_VERSION)
            # Each once, at the place of its first relocation: that is where a load fails.
            references.setdefault((name, version), Reference(name, version, binding == _STB_WEAK))
            if number < self.outside_table:
                at_start = len(references)
        return tuple(references.values()), at_start

    def _pybind11_internals(self) -> str | None:
        position = next(self.file.find_in_data(_PYBIND11_INTERNALS_PREFIX), None)
        match = _PYBIND11_INTERNALS.match(self.file.data, position) if position is not None else None
        return match.group().decode() if match else None

    def _pybind11_python(self) -> tuple[str, ...]:
        """Return the Python versions that the version check of a pybind11 module may compare with, as it spells
        them.
        """
        position = next(self.file.find_in_data(_PYBIND11_VERSION_CHECK), -1)
        for segment in self.file.segments:
            if segment.offset <= position < segment.offset + segment.file_size:
                content = self.file.data[segment.offset : segment.offset + segment.file_size]
                return tuple(sorted({match.group(1).decode() for match in _PYTHON_VERSION.finditer(content)}))
        return ()
