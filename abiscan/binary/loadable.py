"""What ``ld.so`` checks of one file before it binds anything to it, and with what words it refuses one.

The order and the words are those of glibc 2.36, elf/dl-load.c (``open_verify``, ``_dl_map_object_from_fd``),
elf/dl-map-segments.h, elf/get-dynamic-info.h and elf/dl-setup_hash.c. Other versions have the same checks, but for
these: up to 2.34, a segment's ``p_align`` must be a multiple of the page size, and the words for a wrong offset are
"ELF load command address/offset not properly aligned"; programs are refused as such from 2.30 on.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

MAGIC: Final = b"\x7fELF"
EHDR: Final = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
PHDR: Final = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr: type, flags, offset, vaddr, paddr, filesz, memsz, align
ET_EXEC, ET_DYN = 2, 3
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR, PT_TLS = 1, 2, 4, 6, 7
PT_GNU_EH_FRAME, PT_GNU_STACK, PT_GNU_RELRO = 0x6474E550, 0x6474E551, 0x6474E552
PF_X, PF_W = 1, 2
PAGE: Final = 4096

_ELFCLASS64: Final = 2
_ELFDATA2LSB: Final = 1
_EV_CURRENT: Final = 1
_OSABI, _ABI_VERSION, _PADDING = 7, 8, 9
_ELFOSABI_SYSV, _ELFOSABI_GNU = 0, 3
# libc-abis: an entry for unique symbols, one for IFUNC (x86), one for absolute symbols.
_GNU_ABI_VERSIONS: Final = {62: 4, 183: 3}
_ADDRESS_SPACE: Final = 1 << 47
_MORE_THAN_MEMORY: Final = 1 << 39  # bytes that can be written; Linux refuses what no memory can back
_DT_RELA, _DT_RELASZ, _DT_RELAENT, _DT_PLTREL, _DT_JMPREL, _DT_PLTRELSZ = 7, 8, 9, 20, 23, 2
_DT_NEEDED, _DT_STRTAB = 1, 5
_DT_SYMTAB, _DT_RELRSZ, _DT_RELR, _DT_RELRENT, _DT_VERSYM = 6, 35, 36, 37, 0x6FFF_FFF0
_DT_FLAGS_1, _DT_GNU_HASH = 0x6FFF_FFFB, 0x6FFF_FEF5
_DF_1_NOOPEN, _DF_1_PIE = 0x40, 0x0800_0000
_SIGSEGV: Final = 11
_PROPERTY_ALIGNMENT: Final = 8
_NOTE: Final = struct.Struct("<III")  # Elf64_Nhdr: name size, descriptor size, type
_NT_GNU_PROPERTY_TYPE_0: Final = 5
_GNU_PROPERTY_1_NEEDED, _GNU_PROPERTY_X86_FEATURE_1_AND = 0xB000_8000, 0xC000_0002
_GNU_PROPERTY_X86_ISA_1_NEEDED: Final = 0xC000_8002

NOT_OPENABLE: Final = "shared object cannot be dlopen()ed"
NOT_ALIGNED: Final = "ELF load command address/offset not page-aligned"


class LoaderRefusal(Struct, frozen=True, kw_only=True):
    """How ``ld.so`` gives up, at one file.

    :ivar message: its words, after the path of the file
    :ivar aborts: whether the process ends
    :ivar exact: false if a ``?`` in the message stands for what differs between versions of glibc
    :ivar signal: the number of the signal that ends the process
    """

    message: str
    aborts: bool = False
    exact: bool = True
    signal: int | None = None


CRASH: Final = LoaderRefusal(message="Segmentation fault", aborts=True, signal=_SIGSEGV)
"""``ld.so`` follows a pointer that is not there, and Linux ends the process."""


def failed_assertion(file: str, function: str, condition: str) -> LoaderRefusal:
    """Return the end of a process at an assertion of ``ld.so`` (glibc, ``__assert_fail`` in ``elf/dl-minimal.c``)."""
    # The line number differs between versions of glibc, so it is not predicted.
    message = f"Inconsistency detected by ld.so: {file}: ?: {function}: Assertion `{condition}' failed!"
    return LoaderRefusal(message=message, aborts=True, exact=False)


class Segment(Struct, frozen=True, kw_only=True):
    """A PT_LOAD segment, or what later ones leave of it.

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


def refuse_header(head: bytes) -> str | None:
    """Return the words with which ``ld.so`` refuses a file by its ELF header, whose search then ends; None for others.

    A file for another class or machine is passed over: that is no refusal.

    :param head: the first 64 bytes (fewer if the file is shorter)
    """
    if len(head) < EHDR.size:
        return "file too short"
    ident, kind, machine, version, *_, entry_size, _, _, _, _ = EHDR.unpack_from(head)
    if not ident.startswith(MAGIC):
        return "invalid ELF header"
    is_gnu = ident[_OSABI] == _ELFOSABI_GNU
    known_versions = _GNU_ABI_VERSIONS.get(machine, 1) if is_gnu else 1
    is_for_others = ident[4] != _ELFCLASS64, machine not in _GNU_ABI_VERSIONS
    checks = (
        (is_for_others[0], None),
        (ident[5] != _ELFDATA2LSB, "ELF file data encoding not little-endian"),
        (ident[6] != _EV_CURRENT, "ELF file version ident does not match current one"),
        (not is_gnu and ident[_OSABI] != _ELFOSABI_SYSV, "ELF file OS ABI invalid"),
        (ident[_ABI_VERSION] >= known_versions, "ELF file ABI version invalid"),
        (any(ident[_PADDING:]), "nonzero padding in e_ident"),
        (version != _EV_CURRENT, "ELF file version does not match current one"),
        (is_for_others[1], None),
        (kind not in (ET_DYN, ET_EXEC), "only ET_DYN and ET_EXEC can be loaded"),
        (entry_size != PHDR.size, "ELF file's phentsize not the expected size"),
    )
    return next((words for is_wrong, words in checks if is_wrong), None)


def refuse_mapping(headers: Iterable[tuple[int, ...]], *, is_fixed: bool) -> str | None:
    """Return the words with which ``ld.so`` refuses to map a file by its program headers; None if it maps it.

    :param is_fixed: whether it is of the kind ET_EXEC
    """
    loads = [header for header in headers if header[0] == PT_LOAD]
    if any((header[3] - header[2]) % PAGE for header in loads):
        return NOT_ALIGNED
    if not loads:
        return "object file has no loadable segments"
    if is_fixed:
        return "cannot dynamically load executable"
    first, last = loads[0], loads[-1]
    length = last[3] + last[6] - _page_of(first[3])
    alignment = max((header[7] for header in loads if not header[7] & header[7] - 1), default=0)
    if alignment > PAGE:  # room to move the object to an address that is aligned
        length = length + alignment if length >= alignment else 2 * alignment
    if not 0 < length < _ADDRESS_SPACE:
        return "failed to map segment from shared object"
    ends = [_page_end(header[3] + header[5]) for header in loads]
    has_holes = any(end != _page_of(header[3]) for end, header in zip(ends, loads[1:], strict=False))
    if has_holes and _page_of(last[3]) < ends[0]:
        return NOT_ALIGNED
    # Address space for all segments was found; but memory that is written must be available.
    if any((header is not last or header[1] & PF_W) and header[6] - header[5] > _MORE_THAN_MEMORY for header in loads):
        return "cannot map zero-fill pages"
    return None


def refuse_dynamic(dynamic: Mapping[int, int], bloom_words: Callable[[], int]) -> LoaderRefusal | None:
    """Return how ``ld.so`` gives up at the entries of a dynamic section; None if it accepts them.

    :param bloom_words: returns the number of words of the Bloom filter of DT_GNU_HASH
    """
    if dynamic.get(_DT_PLTREL, _DT_RELA) != _DT_RELA:
        return _wrong_entry("DT_PLTREL", "DT_RELA")
    for table, size, expected, name, kind in (
        (_DT_RELA, _DT_RELAENT, 24, "DT_RELAENT", "Rela"),
        (_DT_RELR, _DT_RELRENT, 8, "DT_RELRENT", "Relr"),
    ):
        if table in dynamic and (entry_size := dynamic.get(size)) != expected:
            return CRASH if entry_size is None else _wrong_entry(name, f"sizeof (ElfW({kind}))")
    flags = dynamic.get(_DT_FLAGS_1, 0)
    if flags & _DF_1_PIE:
        return LoaderRefusal(message="cannot dynamically load position-independent executable")
    if flags & _DF_1_NOOPEN:
        return LoaderRefusal(message=NOT_OPENABLE)
    if _DT_GNU_HASH in dynamic and (words := bloom_words()) & words - 1:
        return failed_assertion("dl-setup_hash.c", "_dl_setup_hash", "(bitmask_nwords & (bitmask_nwords - 1)) == 0")
    if _DT_STRTAB not in dynamic and (_DT_NEEDED in dynamic or _DT_SYMTAB in dynamic):
        return CRASH
    return None


def refuse_relocating(dynamic: Container[int]) -> LoaderRefusal | None:
    """Return how ``ld.so`` ends where an entry is not there that the tables of relocations need; None if all are."""
    wanted = ((_DT_RELR, (_DT_RELRSZ,)), (_DT_RELA, (_DT_RELASZ,)), (_DT_PLTREL, (_DT_JMPREL, _DT_PLTRELSZ)))
    if _DT_SYMTAB not in dynamic or any(tag in dynamic and any(t not in dynamic for t in tags) for tag, tags in wanted):
        return CRASH
    return None


def _wrong_entry(tag: str, expected: str) -> LoaderRefusal:
    condition = f"info[{tag}]->d_un.d_val == {expected}"
    return failed_assertion("get-dynamic-info.h", "elf_get_dynamic_info", condition)


def _page_of(address: int) -> int:
    return address & -PAGE


def _page_end(address: int) -> int:
    return address + PAGE - 1 & -PAGE


def overlay_segments(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return what of the file lies where once all segments are mapped, each over those before it, page by page.

    Linkers write segments in order, and none over another: then these are the segments.
    """
    if all(_page_end(a.address + a.size) <= _page_of(b.address) for a, b in itertools.pairwise(segments)):
        return tuple(segments)
    pieces: list[Segment] = []
    for segment in segments:
        start, end = _page_of(segment.address), _page_end(segment.address + segment.size)
        pieces = [rest for piece in pieces for rest in _cut_out(piece, start, end)]
        # Whole pages are mapped; those of the file end with zeros only where the memory goes on.
        mapped = segment.file_size if segment.size > segment.file_size else end - segment.address
        before = segment.address - start
        pieces.append(
            Segment(
                address=start,
                size=end - start,
                offset=segment.offset - before,
                file_size=mapped + before,
                flags=segment.flags,
            )
        )
    return tuple(sorted(pieces, key=lambda piece: piece.address))


def _cut_out(piece: Segment, start: int, end: int) -> Iterator[Segment]:
    """Yield what a part of the memory leaves of a segment."""
    for first, last in ((piece.address, min(piece.address + piece.size, start)), (max(piece.address, end), None)):
        stop = piece.address + piece.size if last is None else last
        if first < stop:
            skipped = first - piece.address
            yield Segment(
                address=first,
                size=stop - first,
                offset=piece.offset + skipped,
                file_size=max(0, min(piece.file_size - skipped, stop - first)),
                flags=piece.flags,
            )


def read_isa_needed(notes: memoryview, alignment: int) -> int | None:
    """Return the levels of x86-64 that a segment of notes requires, as bits; None if it has no property note.

    Source: glibc, ``_dl_process_property_note`` in sysdeps/x86/dl-prop.h. Notes with another alignment are passed over.
    """
    needed: int | None = None
    position = 0
    while alignment == _PROPERTY_ALIGNMENT and position + _NOTE.size < len(notes):
        name_size, size, kind = _NOTE.unpack_from(notes, position)
        start = position + _NOTE.size + 4
        if name_size == 4 and kind == _NT_GNU_PROPERTY_TYPE_0 and bytes(notes[start - 4 : start]) == b"GNU\0":
            if needed is not None:  # an older linker has not merged them, and none counts
                return 0
            needed = _isa_property(notes[start : start + size])
            if needed is None:
                return 0
        position += -(-(_NOTE.size + name_size) // alignment) * alignment
        position += -(-size // alignment) * alignment
    return needed


def _isa_property(properties: memoryview) -> int | None:
    """Return the levels in a property array, 0 for none; None if the array is damaged."""
    if len(properties) < 8 or len(properties) % 8:
        return None
    position = last = needed = 0
    while len(properties) - position >= 8:
        kind, size = struct.unpack_from("<II", properties, position)
        position += 8
        if kind < last or position + size > len(properties):
            return None
        last = kind
        if kind in (_GNU_PROPERTY_1_NEEDED, _GNU_PROPERTY_X86_FEATURE_1_AND, _GNU_PROPERTY_X86_ISA_1_NEEDED):
            if size != 4:
                return None
            if kind == _GNU_PROPERTY_X86_ISA_1_NEEDED:
                needed = int.from_bytes(properties[position : position + 4], "little")
        if kind >= _GNU_PROPERTY_X86_ISA_1_NEEDED:
            break
        position += -(-size // 8) * 8
    return needed
