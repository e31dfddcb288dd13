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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field

from abiscan import regular
from abiscan.binary import by_lief
from abiscan.binary.loadable import (
    CRASH,
    EHDR,
    ET_DYN,
    ET_EXEC,
    MAGIC,
    PAGE,
    PF_W,
    PF_X,
    PHDR,
    PT_DYNAMIC,
    PT_GNU_EH_FRAME,
    PT_GNU_RELRO,
    PT_GNU_STACK,
    PT_LOAD,
    PT_NOTE,
    PT_PHDR,
    PT_TLS,
    LoaderRefusal,
    Segment,
    failed_assertion,
    overlay_segments,
    read_isa_needed,
    refuse_dynamic,
    refuse_header,
    refuse_mapping,
    refuse_relocating,
)
from abiscan.binary.machines import MACHINES
from abiscan.binary.machines import Machine as Machine  # noqa: PLC0414 - those who read an object name its machine
from abiscan.binary.ownership import may_name_torch
from abiscan.binary.section_headers import find_gpu_code
from abiscan.binary.start_code import initialises
from abiscan.binary.symbols import (
    HIDDEN_VERSION,
    SYMBOL,
    UNDEFINED,
    ElfSymbols,
    HashTable,
    NoHashTable,
    OwnReferences,
    Symbols,
    SymbolTable,
    SysvHashTable,
    version_key,
)
from abiscan.errors import InputError, NotElfError
from abiscan.regex import regex

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

_DYN: Final = struct.Struct("<QQ")  # Elf64_Dyn: tag, value
_NOTE: Final = struct.Struct("<III")  # Elf64_Nhdr: name size, descriptor size, type
_VERNEED: Final = struct.Struct("<HHIII")  # Elf64_Verneed: version, count, file, aux, next
_VERNAUX: Final = struct.Struct("<IHHII")  # Elf64_Vernaux: hash, flags, other, name, next
_VERDEF: Final = struct.Struct("<HHHHIII")  # Elf64_Verdef: version, flags, index, count, hash, aux, next
_VERDAUX: Final = struct.Struct("<II")  # Elf64_Verdaux: name, next
_ELFCLASS64: Final = 2
_ELFDATA2LSB: Final = 1
_RELA_SIZE: Final = 24  # Elf64_Rela: offset, info, addend, eight bytes each
_PF_ANY: Final = 7
_TYPE: Final = 0xFFFF_FFFF  # of ``r_info``; the upper half is the symbol
_ORDINARY: Final = {
    machine: frozenset(machine.traits.lookups) - {machine.traits.static_tls} for machine in MACHINES.values()
}
_MOST_CHECKED: Final = 100_000  # relocations, in words of eight bytes: nobody crafts larger tables
_STB_LOCAL, _STB_WEAK = 0, 2
_STV_INTERNAL, _STV_HIDDEN = 1, 2
_DF_TEXTREL, _DF_BIND_NOW = 4, 8
_DF_1_NOW, _DF_1_NODEFLIB, _DF_1_PIE = 1, 0x800, 0x0800_0000
_NT_GNU_BUILD_ID: Final = 3
_MOST_SEGMENTS: Final = 1_000
_TABLE_ENCODING: Final = 0x3B  # DW_EH_PE_datarel | DW_EH_PE_sdata4
_MUCH: Final = 1 << 22  # bytes of a mapped file from which on its pages are released
_WINDOW: Final = 1 << 20  # bytes that are copied to be searched
_PIECE: Final = 1 << 25  # bytes that are searched before their pages are released
_RECORD_VERSION: Final = 1  # VER_NEED_CURRENT, VER_DEF_CURRENT
_VER_FLG_BASE: Final = 1
_VER_FLG_WEAK: Final = 2

# c10/util/Exception.h, TORCH_INTERNAL_ASSERT, from torch 1.5 on.
_ASSERTION: Final = b" INTERNAL ASSERT FAILED at "
_ASSERTED_AT: Final = regex(rb"\"?([^\"\0\n]{1,4096}?)\"?:([0-9]{1,7}),")

_PYBIND11_INTERNALS_PREFIX: Final = b"__pybind11_internals_v"
_PYBIND11_INTERNALS: Final = regex(rb"__pybind11_internals_v[0-9A-Za-z_]+__")
_PYBIND11_VERSION_CHECK: Final = b"Python version mismatch: module was compiled for Python %s, "
_LONGEST_VERSION: Final = len("3.10\0")
# The lookbehind comes last: a pattern that begins with a literal is searched for 40 times as fast.
_PYTHON_VERSION: Final = regex(rb"(3\.(?<![0-9.]3\.)[0-9]{1,2})\0")


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
    PLTREL = 20
    TEXTREL = 22
    JMPREL = 23
    BIND_NOW = 24
    INIT_ARRAY = 25
    INIT_ARRAYSZ = 27
    RUNPATH = 29
    FLAGS = 30
    PREINIT_ARRAY = 32
    PREINIT_ARRAYSZ = 33
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
    """A version that a reference requires: ``GLIBC_2.14`` of the file ``libc.so.6`` (one Elf64_Vernaux).

    :ivar file: empty if the object itself defines the version
    :ivar hidden: whether no definition of the base version will do
    :ivar hash: the stored hash, None if it is that of the name
    """

    file: str
    name: str
    weak: bool = False
    hidden: bool = False
    hash: int | None = None

    @property
    def key(self) -> str:
        """What it is compared by: see ``version_key``."""
        return self.name if self.hash is None else version_key(self.name, self.hash)


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


class ThreadVariables(Struct, frozen=True, kw_only=True):
    """The block of thread-local variables of an object (PT_TLS).

    :ivar size: in bytes
    :ivar lead: how far behind an aligned address it begins
    """

    size: int
    alignment: int
    lead: int


class SharedObject(Struct, frozen=True, kw_only=True):
    """What the loader, and abiscan, need to know about one ELF object.

    :ivar executable: whether it is a program, position-independent or not, and no library
    :ivar rpath, runpath: the folders, with ``$ORIGIN`` as it is; an entry without a text is one empty folder
    :ivar filtees: libraries that are loaded along, in front of it
    :ivar skips_default_folders: whether the libraries that it needs are not looked for in the system's (NODEFLIB)
    :ivar version_definitions: their ``version_key``; None if the object has no DT_VERDEF, which differs from an empty
        one for ``ld.so``
    :ivar references: in the order in which ``ld.so`` processes them: ``.rela.dyn``, then ``.rela.plt``; each once. For
        what the object defines itself, see ``Symbols.find_lost``
    :ivar imports: all undefined names of the dynamic symbol table, even if no relocation uses them
    :ivar has_relr: whether relative relocations are packed (DT_RELR)
    :ivar eager: how many of the references, the first ones, a program binds at its start; None for all of them
        (BIND_NOW)
    :ivar copies: the data of libraries that a program copies into itself as it starts, by name, with the size that they
        had when it was linked; the program defines them, too
    :ivar refusal: how ``ld.so`` gives up when it maps the file, None if it maps it
    :ivar needs_record, definitions_record: the versions of the records of version needs, and the first one of version
        definitions, that ``ld.so`` does not know; None if it knows them
    :ivar is_versioned: whether ``ld.so`` reads the versions of its symbols
    :ivar isa_needed: the levels of x86-64 that it requires, as bits of GNU_PROPERTY_X86_ISA_1_NEEDED
    :ivar executable_stack: whether it requires one
    :ivar thread_variables: None if it has none
    :ivar static_tls: the references, None for one to the object itself, whose thread-local variables must lie in the
        static block, each with the number of references before it
    :ivar stop: where relocating it ends, whatever else is loaded: how many references come before, and how it ends
    :ivar initialises: whether code of it runs while it is loaded, other than what every compiler adds
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
    refusal: LoaderRefusal | None = None
    needs_record: int | None = None
    definitions_record: int | None = None
    is_versioned: bool = True
    isa_needed: int = 0
    executable_stack: bool = False
    thread_variables: ThreadVariables | None = None
    static_tls: tuple[tuple[int, Reference | None], ...] = ()
    stop: tuple[int, LoaderRefusal] | None = None
    initialises: bool = False

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
    if len(head) < EHDR.size:
        raise NotElfError(subject, "truncated inside the ELF header", "download it again")
    if head[4] != _ELFCLASS64:
        raise NotElfError(subject, "a 32-bit ELF file; torch is 64-bit only", "pass the 64-bit build")
    if head[5] != _ELFDATA2LSB:
        raise NotElfError(subject, "a big-endian ELF file", "only x86_64 and aarch64 are supported")


class RefusedFileError(NotElfError):
    """A file whose tables cannot be read, and at which ``ld.so`` gives up.

    :param refusal: how it does; None if the error comes from another process
    """

    def __init__(self, subject: str, problem: str, fix: str, refusal: LoaderRefusal | None = None) -> None:
        super().__init__(subject, problem, fix)
        self.refusal = refusal


_BEHIND_END: Final = LoaderRefusal(message="Bus error", aborts=True, signal=7)


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
        header = EHDR.unpack_from(self.data)
        file_type, machine, program_headers, count = header[1], header[2], header[5], header[10]
        if file_type not in (ET_DYN, ET_EXEC):
            raise NotElfError(subject, "an object file or core dump, not a shared object", "pass the linked .so")
        if machine not in MACHINES:
            raise NotElfError(
                subject, f"built for {by_lief.machine_name(machine)}", "only x86_64 and aarch64 are supported"
            )
        self.machine = MACHINES[machine]
        self.is_fixed = file_type == ET_EXEC
        if count > _MOST_SEGMENTS or program_headers + count * PHDR.size > len(self.data):
            refusal = LoaderRefusal(message="cannot read file data")
            raise RefusedFileError(subject, "truncated inside the program headers", "download it again", refusal)
        # Only what ld.so looks at: segments. Section headers may be stripped, or lie.
        headers = list(PHDR.iter_unpack(self.data[program_headers : program_headers + count * PHDR.size]))
        self.segments = tuple(
            Segment(address=address, size=size, offset=offset, file_size=file_size, flags=flags)
            for kind, flags, offset, address, _, file_size, size, _ in headers
            if kind == PT_LOAD
        )
        # The last one counts, by its address. Files with debug information alone have one without bytes.
        sections = [header for header in headers if header[0] == PT_DYNAMIC]
        words = refuse_header(bytes(self.data[: EHDR.size])) or refuse_mapping(headers, is_fixed=self.is_fixed)
        if any(segment.offset + segment.file_size > len(self.data) for segment in self.segments):
            problem = "truncated: a segment extends past the end of the file"
            # Linux maps the page in which a file ends, and nothing behind it.
            if words is None and sections and sections[-1][2] & -PAGE >= len(self.data):
                raise RefusedFileError(subject, problem, "download it again", _BEHIND_END)
            raise NotElfError(subject, problem, "download it again")
        self.segments = overlay_segments(self.segments)
        # Linkers may split the notes into several segments, one for each alignment.
        self.notes = tuple(self.data[h[2] : h[2] + h[5]] for h in headers if h[0] == PT_NOTE)
        self._exceptions = next(
            ((h[3], self.data[h[2] : h[2] + h[5]]) for h in headers if h[0] == PT_GNU_EH_FRAME), None
        )
        if not sections or not all(header[5] for header in sections):
            problem = "not a shared object: it has no dynamic section"
            refusal = LoaderRefusal(message=words or "object file has no dynamic section")
            raise RefusedFileError(subject, problem, "pass the linked .so", refusal)
        self.headers = headers
        self.refusal = LoaderRefusal(message=words) if words else None
        address = sections[-1][3]
        is_lost = not self.is_in_file(address, _DYN.size)
        if is_lost and self.refusal is None:
            self.refusal = CRASH
        self.entries = () if is_lost else tuple(_dynamic_entries(self.tail_at(address)))
        self.dynamic = dict(self.entries)
        if self.refusal is None:
            self.refusal = refuse_dynamic(self.dynamic, self._bloom_words)
        if self.refusal is None and self._has_unreadable(headers):
            self.refusal = CRASH

    def _bloom_words(self) -> int:
        return int.from_bytes(self.bytes_at(self.dynamic[Tag.GNU_HASH] + 8, 4), "little")

    def _has_unreadable(self, headers: Iterable[tuple[int, ...]]) -> bool:
        """Whether ``ld.so`` cannot read what it reads of every object."""
        tables = [self.dynamic[tag] for tag in (Tag.SYMTAB, Tag.STRTAB) if tag in self.dynamic]
        forbidden = [segment for segment in self.segments if not segment.flags & _PF_ANY]
        return any(h[0] == PT_PHDR and not self._is_mapped(h[3]) for h in headers) or any(
            0 <= table - segment.address < segment.size for table in tables for segment in forbidden
        )

    def is_in_file(self, address: int, size: int) -> bool:
        """Whether bytes in memory are those of the file."""
        return any(0 <= address - s.address <= s.file_size - size for s in self.segments)

    def _is_mapped(self, address: int) -> bool:
        """Whether anything of the object lies there in memory: whole pages are mapped."""
        return any(s.address & -PAGE <= address < s.address + s.size + PAGE - 1 & -PAGE for s in self.segments)

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
                check_header(stream.read(EHDR.size), subject)
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
        check_header(bytes(content[: EHDR.size]), subject)
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
                found = segment.offset + start
                return self.data[found : self._read_until(found, found + size, whole=True)]
        raise NotElfError(
            self.subject, f"damaged: no segment contains {size} bytes at {address:#x}", "download it again"
        )

    def tail_at(self, address: int) -> memoryview:
        """Return everything from a virtual address to the end of its segment, or of what was read, from the file."""
        for segment in self.segments:
            if 0 <= address - segment.address < segment.file_size:
                start = segment.offset + address - segment.address
                return self.data[start : self._read_until(start, segment.offset + segment.file_size)]
        raise NotElfError(self.subject, f"damaged: no segment contains the address {address:#x}", "download it again")

    def _read_until(self, start: int, stop: int, *, whole: bool = False) -> int:
        """Return where the bytes end that were read of a part of the file, from its start on.

        :raises NotElfError: none were, or not the ``whole`` part: a table goes on in what is to be code for GPUs
        """
        unread = self._unread
        if not unread or stop <= unread.start or unread.stop <= start:
            return stop
        if whole or unread.start <= start:
            problem = "damaged: a table of it is in its code for GPUs"
            raise NotElfError(self.subject, problem, "download the wheel and pass the file")
        return unread.start

    def find_in_data(self, text: bytes) -> Iterator[int]:
        """Yield the file offsets of ``text`` in the data."""
        if isinstance(self._bytes, memoryview):
            yield from (match.start() for match in self.search_data(re.compile(re.escape(text))))
            return
        # An mmap is searched by itself, without a copy, and piece by piece; pages that were searched are released, for
        # a CUDA library has gigabytes.
        for start, end in self._data_parts():
            begin = start
            for piece in range(start, end, _PIECE):
                # A text may begin in one piece and end in the next.
                stop = min(piece + _PIECE + len(text) - 1, end)
                while (position := self._bytes.find(text, begin, stop)) >= 0:
                    yield position
                    begin = position + len(text)
                begin = max(begin, piece + _PIECE)
                self.let_go(piece, min(piece + _PIECE, end))

    def search_data(self, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
        """Yield the matches of ``pattern`` in the data."""
        for start, end in self._data_parts():
            yield from pattern.finditer(self._bytes, start, end)
            self.let_go(start, end)

    def data_windows(self, overlap: int) -> Iterator[bytes]:
        """Yield the data in pieces, each with so many bytes of the next one."""
        for start, end in self._data_parts():
            for piece in range(start, end, _WINDOW):
                yield bytes(self._bytes[piece : min(piece + _WINDOW + overlap, end)])
            self.let_go(start, end)

    def search_segment(self, pattern: re.Pattern[bytes], segment: Segment, longest: int) -> Iterator[re.Match[bytes]]:
        """Yield the matches of ``pattern`` in a segment, some of them twice.

        :param longest: the length of a match
        """
        for start, end in self._read_parts(segment.offset, segment.offset + segment.file_size):
            for piece in range(start, end, _PIECE):
                stop = min(piece + _PIECE + longest, end)
                yield from pattern.finditer(self._bytes, piece, stop)
                self.let_go(piece, stop)

    def _data_parts(self) -> Iterator[tuple[int, int]]:
        """Yield the parts of the file that may hold constants: where each starts and ends.

        Linkers put constants into segments of their own, or, if there are none, before and behind the code.
        """
        segments = [segment for segment in self.segments if not segment.flags & PF_X]
        if any(not segment.flags & PF_W for segment in segments):
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

    @functools.cached_property
    def _gpu_code(self) -> range:
        """Code for GPUs, which is most of some libraries of gigabytes: the texts of the host's code are not in it."""
        return find_gpu_code(self.data)

    def _read_parts(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what was read of a part of the file, without code for GPUs."""
        unread = self._unread or self._gpu_code
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

    def table(self, address_tag: int, size_tag: int) -> memoryview:
        """Return a table, given by two entries of the dynamic section; empty if the object has none."""
        address, size = self.dynamic.get(address_tag), self.dynamic.get(size_tag, 0)
        return self.bytes_at(address, size) if address and size else memoryview(b"")

    def may_need_torch(self) -> bool:
        """Return whether the object may be linked with torch or reference it: a quick look at its string table.

        :raises NotElfError: the string table is not in the file
        """
        return may_name_torch(self.strings())

    def strings(self) -> bytes:
        """Return the string table; its size is for tools, and ``ld.so`` does without.

        :raises NotElfError: it is not in the file
        """
        if Tag.STRSZ in self.dynamic or Tag.STRTAB not in self.dynamic:
            return bytes(self.table(Tag.STRTAB, Tag.STRSZ))
        return bytes(self.tail_at(self.dynamic[Tag.STRTAB]))

    def sha256(self) -> str:
        """Return the hash of the whole file, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    def facts(self) -> SharedObject:
        """Copy out what the analysis needs.

        :raises NotElfError: a table is damaged
        """
        try:
            with _damage_reported(self.subject):
                return _Reader(self).read()
        except NotElfError:
            if self.refusal is None:
                raise
            return refused_object(self.machine, self.refusal)


def refused_object(machine: Machine, refusal: LoaderRefusal) -> SharedObject:
    """Return what is known of an object that ``ld.so`` does not map, and whose tables cannot be read."""
    return SharedObject(
        machine=machine,
        executable=False,
        soname=None,
        needed=(),
        rpath=(),
        runpath=(),
        build_id=None,
        version_needs=(),
        version_definitions=None,
        symbols=SymbolTable({}),
        references=(),
        imports=frozenset(),
        pybind11_internals=None,
        pybind11_python=(),
        refusal=refusal,
    )


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
    whole = len(section) // _DYN.size * _DYN.size
    for tag, value in _DYN.iter_unpack(section[:whole]):
        if tag == 0:  # DT_NULL ends the section
            return
        yield tag, value
    if rest := bytes(section[whole:]):  # behind the bytes of the file lie zeros
        yield _DYN.unpack(rest.ljust(_DYN.size, b"\0"))


class _Bound(Struct, kw_only=True):
    """What relocating an object does, as far as the object alone tells.

    :ivar references: with the number of the first relocation that each comes from
    """

    references: dict[Reference, int]
    static_tls: list[tuple[int, Reference | None]]
    stop: tuple[int, LoaderRefusal] | None = None


class _Reader:
    """Decodes the tables of one file. Lives as long as ``ElfFile.facts`` runs."""

    def __init__(self, file: ElfFile) -> None:
        self.file = file
        # The order matters: versions and symbols have names, and the number of symbols may depend on the relocations.
        self.strings = file.strings()
        self.needs_record: int | None = None
        self.definitions_record: int | None = None
        self.definitions = list(self._version_definitions())
        self.version_definitions = {index: key for index, key in self.definitions if index}
        needs = list(self._version_needs())
        self.version_needs = tuple(need for _, need in needs)
        self.needs_by_index = dict(needs)
        # A version whose hash is zero counts as none.
        own = {index: SymbolVersion("", key) for index, key in self.version_definitions.items()}
        self.versions_by_index = {index: need for index, need in {**own, **dict(needs)}.items() if need.hash != 0}
        self.hash_table = self._hash_table()
        self.relocations, self.outside_table = self._read_relocations()
        self.copied = self._copied_symbols() if file.is_program else frozenset[int]()

    def read(self) -> SharedObject:
        file = self.file
        table = self._symbol_table()
        # The first of the six words of each symbol is the offset of its name.
        names = memoryview(table).cast("I")[::6]
        if names:
            self._read_name(max(names))  # after this every name is known to have an end
        versions = self._symbol_versions(len(names))
        imports = frozenset(self._undefined_names(table))
        # The searches below read all data of the file.
        uses_python = any(name.startswith(("Py", "_Py")) for name in imports)
        bound = self._bind(table, versions)
        numbers = list(bound.references.values())
        copied = {name: size for index in self.copied for name, size in [self._name_and_size(table, index)]}
        has_versions = bool(self.version_needs) or Tag.VERDEF in file.dynamic
        return SharedObject(
            machine=file.machine,
            executable=file.is_program,
            soname=self._read_name(file.dynamic[Tag.SONAME]) if Tag.SONAME in file.dynamic else None,
            needed=tuple(self._read_name(value) for tag, value in file.entries if tag == Tag.NEEDED),
            rpath=self._search_path(Tag.RPATH),
            runpath=self._search_path(Tag.RUNPATH),
            build_id=self._build_id(),
            version_needs=self.version_needs,
            version_definitions=frozenset(key for _, key in self.definitions) if Tag.VERDEF in file.dynamic else None,
            symbols=ElfSymbols(
                table,
                versions if has_versions else bytes(len(versions)),  # an index without versions means nothing
                {**{index: need.key for index, need in self.needs_by_index.items()}, **self.version_definitions},
                self.strings,
                self.hash_table or self._sysv_table(),
                OwnReferences(self.relocations, self.copied, numbers),
            ),
            references=tuple(bound.references),
            imports=imports,
            # A pybind11 module imports Python symbols, so a CUDA library of a gigabyte need not be searched.
            pybind11_internals=self._pybind11_internals() if uses_python else None,
            pybind11_python=self._pybind11_python() if uses_python else (),
            has_relr=Tag.RELR in file.dynamic,
            eager=None if file.binds_now else bisect.bisect_left(numbers, self.outside_table),
            copies=copied,
            filtees=tuple(self._filtees()),
            skips_default_folders=bool(file.dynamic.get(Tag.FLAGS_1, 0) & _DF_1_NODEFLIB),
            refusal=file.refusal,
            needs_record=self.needs_record,
            definitions_record=self.definitions_record,
            is_versioned=has_versions and Tag.VERSYM in file.dynamic,
            isa_needed=self._isa_needed(),
            executable_stack=self._has_executable_stack(),
            thread_variables=self._thread_variables(),
            static_tls=tuple(bound.static_tls),
            stop=bound.stop,
            initialises=initialises(file, self.relocations, table, self._read_name),
        )

    def _read_name(self, offset: int) -> str:
        end = self.strings.find(b"\0", offset)
        if end < 0:
            raise NotElfError(self.file.subject, "damaged: a name is outside the string table", "download it again")
        return self.strings[offset:end].decode("utf-8", "backslashreplace")

    def _search_path(self, tag: Tag) -> tuple[str, ...]:
        # An empty part is the current folder, and an empty RUNPATH still switches RPATH off.
        return tuple(self._read_name(self.file.dynamic[tag]).split(":")) if tag in self.file.dynamic else ()

    def _filtees(self) -> Iterator[Filtee]:
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

    def _sysv_table(self) -> SysvHashTable | NoHashTable:
        address = self.file.dynamic.get(Tag.HASH)
        return SysvHashTable(self.file.tail_at(address)) if address else NoHashTable()

    def _symbol_count(self) -> int:
        """Return the number of symbols, which the dynamic section does not have."""
        # DT_GNU_HASH, which ld.so prefers, only covers the symbols that can be looked up, which are the last ones;
        # without any, only relocations tell how many there are. DT_HASH says it ("nchain", gABI chapter 5).
        count = (max(self.relocations, default=-1) >> 32) + 1
        if self.hash_table is not None:
            end = self.hash_table.first if self.hash_table.end is None else self.hash_table.end
            # A chain without an end goes on behind the symbols, where linkers put their names.
            symbols, names = self.file.dynamic.get(Tag.SYMTAB, 0), self.file.dynamic.get(Tag.STRTAB, 0)
            return max(count, min(end, (names - symbols) // SYMBOL.size) if names > symbols else end)
        if address := self.file.dynamic.get(Tag.HASH):
            return max(count, int.from_bytes(self.file.bytes_at(address, 8)[4:], "little"))
        return count

    def _read_relocations(self) -> tuple[list[int], int]:
        """Return what the relocations do to which symbols (``r_info``), in their order, each once.

        The number is that of the first ones, which are outside the linkage table.
        """
        # The order decides which missing symbol ld.so reports; a library has hundreds of thousands of relocations, so
        # the column is taken out at once.
        relative = self.file.dynamic.get(Tag.RELACOUNT, 0)  # so many at the beginning have no symbol
        infos: dict[int, None] = {}
        counts: list[int] = []
        for words in (self._relocation_words(Tag.RELA, Tag.RELASZ)[3 * relative :], self._linkage_words()):
            infos.update(dict.fromkeys(words[1::3].tolist()))
            counts.append(len(infos))
        return list(infos), counts[0]

    def _relocation_words(self, address: Tag, size: Tag) -> memoryview:
        """Return a table of relocations: offset, info and addend of each."""
        table = self.file.table(address, size)
        return table[: len(table) // _RELA_SIZE * _RELA_SIZE].cast("Q")

    def _linkage_words(self) -> memoryview:
        """Return the table of relocations for calls, which ``ld.so`` ignores without DT_PLTREL."""
        if Tag.PLTREL not in self.file.dynamic:
            return memoryview(b"").cast("Q")
        return self._relocation_words(Tag.JMPREL, Tag.PLTRELSZ)

    def _copied_symbols(self) -> frozenset[int]:
        """Return the indexes of the symbols whose data a program copies into itself."""
        copy = self.file.machine.traits.copy
        return frozenset(info >> 32 for info in self.relocations[: self.outside_table] if info & _TYPE == copy)

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

    def _version_definitions(self) -> Iterator[tuple[int, str]]:
        """Yield the versions that the object defines (``version_key``), in order, with their indexes in DT_VERSYM."""
        for table, position, (record, flags, index, count, stored, aux, _) in self._follow_chain(Tag.VERDEF, _VERDEF):
            if record != _RECORD_VERSION:  # a lookup of a version ends here
                self.definitions_record = record
                break
            # The base definition is the name of the file, and no version of a symbol (VER_FLG_BASE).
            is_base = bool(flags & _VER_FLG_BASE)
            if count and not (is_base and index == 1):
                name = self._read_name(_VERDAUX.unpack_from(table, position + aux)[0])
                yield 0 if is_base else index & ~HIDDEN_VERSION, version_key(name, stored)

    def _version_needs(self) -> Iterator[tuple[int, SymbolVersion]]:
        """Yield the versions that the object needs, in order, with their indexes in DT_VERSYM."""
        left: int | None = None
        for table, start, (record, count, file, first, _) in self._follow_chain(Tag.VERNEED, _VERNEED):
            if left is None and record != _RECORD_VERSION:  # ld.so looks at the first one only
                self.needs_record = record
                return
            position = start + first
            left = len(table) // _VERNAUX.size if left is None else left
            for _ in range(count):
                left -= 1
                if left < 0:  # records may not overlap, or reading them would take forever
                    raise NotElfError(self.file.subject, "damaged: version needs overlap", "download it again")
                stored, flags, index, name_at, following = _VERNAUX.unpack_from(table, position)
                name = self._read_name(name_at)
                # The index is that in DT_VERSYM, whose highest bit says that the version is hidden (LSB 5.0, 10.7).
                yield (
                    index & ~HIDDEN_VERSION,
                    SymbolVersion(
                        self._read_name(file),
                        name,
                        bool(flags & _VER_FLG_WEAK),
                        bool(index & HIDDEN_VERSION),
                        None if version_key(name, stored) == name else stored,
                    ),
                )
                if not following:
                    break
                position += following

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

    def _bind(self, table: bytes, versions: Sequence[int]) -> _Bound:
        """Return what relocating the object looks up, in order, and where that ends (glibc, ``elf_machine_rela``)."""
        traits, relocations = self.file.machine.traits, self.relocations
        # Relocations of most files are of these types; any others have to be told apart.
        others = {info & _TYPE for info in relocations}.difference(_ORDINARY[self.file.machine])
        # glibc points to nothing where an object has indexes of versions, and no versions.
        lost_versions = Tag.VERSYM in self.file.dynamic and not (self.needs_by_index or Tag.VERDEF in self.file.dynamic)
        end, stop = self._find_unwritable()
        sections = memoryview(table).cast("H")[3::12]
        bound = _Bound(references={}, static_tls=[])
        references, copied = bound.references, self.copied
        numbers: Iterable[int] = range(len(relocations) if end is None else end)
        if not others and not lost_versions:
            # What the object defines itself need not be found elsewhere, but for the data that a program copies.
            numbers = [
                number
                for number in numbers
                if sections[(index := relocations[number] >> 32)] == UNDEFINED or index in copied
            ]
        for number in numbers:
            info = relocations[number]
            index, kind = info >> 32, info & _TYPE
            if kind in traits.plain:
                continue
            if lost_versions and index and versions[index] & ~HIDDEN_VERSION:
                stop = CRASH
                break
            reference = self._read_reference(table, versions, index)
            # Each once, at the place of its first relocation: that is where a load fails.
            if reference and (sections[index] == UNDEFINED or index in copied):
                references.setdefault(reference, number)
            if kind == traits.static_tls:
                bound.static_tls.append((len(references), reference))
            elif kind in others and kind not in traits.other_lookups:
                digits = f"{kind:02x}" if kind <= 0xFF else f"{kind:08x}"
                stop = LoaderRefusal(message=f"unexpected reloc type 0x{digits}")
                break
        else:
            stop = stop or self._refuse_protection()
        bound.stop = (len(references), stop) if stop else None
        return bound

    def _read_reference(self, table: bytes, versions: Sequence[int], index: int) -> Reference | None:
        """Return what a symbol refers to; None if it is the object's own, and nobody looks it up."""
        if not index:
            return None
        name_at, info, visibility, _, _, _ = SYMBOL.unpack_from(table, index * SYMBOL.size)
        if info >> 4 == _STB_LOCAL or visibility & 3 in (_STV_INTERNAL, _STV_HIDDEN):
            return None
        version = self.versions_by_index.get(versions[index] & ~HIDDEN_VERSION)
        return Reference(self._read_name(name_at), version, info >> 4 == _STB_WEAK)

    def _find_unwritable(self) -> tuple[int | None, LoaderRefusal | None]:
        """Return how many of the relocations are done before one ends the process, and how; None for all of them."""
        file = self.file
        if refusal := refuse_relocating(file.dynamic):
            return 0, refusal
        tables = [self._relocation_words(Tag.RELA, Tag.RELASZ), self._linkage_words()]
        relative = file.dynamic.get(Tag.RELACOUNT, 0)
        if sum(map(len, tables)) > _MOST_CHECKED:
            return None, None
        kind = file.machine.traits.relative
        if kind is not None and any(info & _TYPE not in (kind, 38) for info in set(tables[0][1 : 3 * relative : 3])):
            condition = "ELFW(R_TYPE) (reloc->r_info) == R_X86_64_RELATIVE"
            return 0, failed_assertion("../sysdeps/x86_64/dl-machine.h", "elf_machine_rela_relative", condition)
        text_relocations = Tag.TEXTREL in file.dynamic or file.dynamic.get(Tag.FLAGS, 0) & _DF_TEXTREL
        writable = [
            range(segment.address & -PAGE, (segment.address + segment.size + PAGE - 1 & -PAGE) - 7)
            for segment in file.segments
            if text_relocations or segment.flags & PF_W
        ]
        if any(not any(place in part for part in writable) for place in self._packed_places()):
            return 0, CRASH
        done = 0
        for table in tables:
            places = table[::3].tolist()
            # Nearly always, all places are in one segment: then checking the first and the last is enough.
            if places and not any(min(places) in part and max(places) in part for part in writable):
                for number, place in enumerate(places):
                    unused = table[3 * number + 1] & _TYPE == 0
                    if not unused and not any(place in part for part in writable):
                        if number < relative and table is tables[0]:
                            return 0, CRASH
                        before = {*table[3 * relative * (table is tables[0]) + 1 : 3 * number : 3].tolist()}
                        return len({*self.relocations[:done], *before}), CRASH
            done = self.outside_table
        return None, None

    def _packed_places(self) -> Iterator[int]:
        """Yield the first and the last places that each entry of the packed relocations changes (gABI, DT_RELR)."""
        words = self.file.table(Tag.RELR, Tag.RELRSZ)
        place = 0
        for word in words[: len(words) // 8 * 8].cast("Q"):
            if word & 1 == 0:
                yield word
                place = word + 8
            elif word > 1:
                yield place
                yield place + 8 * (word.bit_length() - 2)
                place += 8 * 63
            else:
                place += 8 * 63

    def _refuse_protection(self) -> LoaderRefusal | None:
        """Return the words for data that cannot be protected once it is relocated: they lie outside of the object."""
        part = next((header for header in reversed(self.file.headers) if header[0] == PT_GNU_RELRO), None)
        if part is None or not part[6] or not self.file.segments:
            return None
        start, end = part[3] & -PAGE, part[3] + part[6] & -PAGE
        first, last = self.file.segments[0], self.file.segments[-1]
        if start == end or first.address & -PAGE <= start < end <= last.address + last.size + PAGE - 1 & -PAGE:
            return None
        words = "cannot apply additional memory protection after relocation: Cannot allocate memory"
        return LoaderRefusal(message=words)

    def _thread_variables(self) -> ThreadVariables | None:
        block = next((header for header in reversed(self.file.headers) if header[0] == PT_TLS and header[6]), None)
        if block is None:
            return None
        _, _, _, address, _, _, size, alignment = block
        return ThreadVariables(size=size, alignment=alignment, lead=address & alignment - 1 if alignment else 0)

    def _has_executable_stack(self) -> bool:
        """Whether the object asks for a stack that code may run on; on x86-64, also by not saying anything."""
        flags = [header[1] for header in self.file.headers if header[0] == PT_GNU_STACK]
        return bool(flags[-1] & PF_X) if flags else self.file.machine is Machine.X86_64

    def _isa_needed(self) -> int:
        """Return the levels of x86-64 that the object requires, as bits."""
        if self.file.machine is Machine.X86_64:
            for header in reversed(self.file.headers):
                if header[0] == PT_NOTE and header[7] == 8 and self.file.is_in_file(header[3], header[6]):
                    needed = read_isa_needed(self.file.bytes_at(header[3], header[6]), header[7])
                    if needed is not None:
                        return needed
        return 0

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
                matches = self.file.search_segment(_PYTHON_VERSION, segment, _LONGEST_VERSION)
                return tuple(sorted({match[1].decode() for match in matches}))
        return ()
