"""What relocating an object looks up, where that ends, and notes and segments: tables that are written word by word.

The layouts are those of the gABI, chapters 4 and 5; what ``ld.so`` does with them is in glibc, ``elf_machine_rela`` and
``elf_get_dynamic_info``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest

from abiscan.binary.elf import ElfFile, SharedObject
from abiscan.binary.loadable import CRASH
from abiscan.errors import NotElfError

PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_TLS, PT_STACK, PT_RELRO = 1, 2, 4, 7, 0x6474E551, 0x6474E552
R, W, X = 4, 2, 1
NULL, STRTAB, STRSZ, SYMTAB, RELA, RELASZ, HASH, PLTREL, JMPREL, PLTRELSZ = 0, 5, 10, 6, 7, 8, 4, 20, 23, 2
RELR, RELRSZ, RELACOUNT, TEXTREL, FLAGS = 36, 35, 0x6FFFFFF9, 22, 30
LOCAL, GLOBAL, WEAK = 0, 1, 2
HIDDEN, INTERNAL, PROTECTED = 2, 1, 3
R_64, GLOB_DAT, JUMP_SLOT, RELATIVE, TPOFF64, NONE, PC32, RELATIVE64 = 1, 6, 7, 8, 18, 0, 2, 38
Rela = tuple[int, int, int]  # place, symbol, type
SCRATCH = 0x800  # where relocations write
SIZE = 0x2000
TABLES = 0x1000


def crafted(
    symbols: Sequence[tuple[str, int, int, int]] = (),
    rela: Sequence[Rela] = (),
    plt: Sequence[Rela] = (),
    *,
    relr: Sequence[int] = (),
    tags: Mapping[int, int] | None = None,
    without: Sequence[int] = (),
    segments: Sequence[tuple[int, int, int, int]] | None = None,
    headers: Sequence[tuple[int, int, int, int, int, int]] = (),
    content: Mapping[int, bytes] | None = None,
    machine: int = 62,
) -> bytes:
    """An object whose bytes are at the addresses that are their offsets.

    :param symbols: name, binding, visibility, section
    :param segments: flags, address, size in the file, size in memory; by default one, of all, that can be written
    :param headers: further program headers: type, flags, address, size in the file, size in memory, alignment
    """
    data, end = bytearray(SIZE), TABLES

    def place(part: bytes) -> int:
        nonlocal end
        at = end
        data[at : at + len(part)] = part
        end = at + len(part) + -len(part) % 8
        return at

    strings, rows = b"\0", bytes(24)
    for name, binding, visibility, section in symbols:
        rows += struct.pack("<IBBHQQ", len(strings), binding << 4 | 1, visibility, section, SCRATCH, 8)
        strings += name.encode() + b"\0"
    dynamic = {STRTAB: place(strings), STRSZ: len(strings), SYMTAB: place(rows)}
    dynamic[HASH] = place(struct.pack("<IIII", 1, len(symbols) + 1, 0, 0) + bytes(4 * len(symbols)))
    for tag, size_tag, rows_of in ((RELA, RELASZ, rela), (JMPREL, PLTRELSZ, plt)):
        if rows_of:
            packed = b"".join(struct.pack("<QQq", at, symbol << 32 | kind, 0) for at, symbol, kind in rows_of)
            dynamic |= {tag: place(packed), size_tag: len(packed)}
    dynamic |= {PLTREL: RELA} if plt else {}
    if relr:
        dynamic |= {RELR: place(struct.pack(f"<{len(relr)}Q", *relr)), RELRSZ: 8 * len(relr), 37: 8}
    dynamic |= tags or {}
    entries = [(tag, value) for tag, value in dynamic.items() if tag not in without]
    table = b"".join(struct.pack("<QQ", *entry) for entry in [*entries, (NULL, 0)])
    dynamic_at = place(table)
    loads = segments if segments is not None else [(R | W, 0, SIZE, SIZE)]
    rest = [(PT_DYNAMIC, R | W, dynamic_at, len(table), len(table), 8), *headers]
    program = [(PT_LOAD, flags, at, size, memory, 0x1000) for flags, at, size, memory in loads] + rest
    ident = (b"\x7fELF", 2, 1, 1, 0, 3, machine, 1, 0, 64, 0, 0, 64, 56, len(program), 64, 0, 0)
    header = struct.pack("<4sBBBB8xHHIQQQIHHHHHH", *ident)
    for kind, flags, at, size, memory, alignment in program:
        header += struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, memory, alignment)
    data[: len(header)] = header
    for at, part in (content or {}).items():
        data[at : at + len(part)] = part
    return bytes(data)


def facts(*arguments: object, **options: object) -> SharedObject:
    return ElfFile.from_bytes(crafted(*arguments, **options), "crafted.so").facts()  # type: ignore[arg-type]


def outside(*names: str) -> list[tuple[str, int, int, int]]:
    """Undefined symbols."""
    return [(name, GLOBAL, 0, 0) for name in names]


def at(number: int) -> int:
    return SCRATCH + 8 * number


def test_references_are_in_the_order_of_the_tables() -> None:
    """The table for calls comes after the other one, and each symbol counts where it comes first."""
    read = facts(outside("a", "b", "c"), [(at(0), 2, R_64), (at(1), 1, GLOB_DAT), (at(2), 2, GLOB_DAT)],
                 [(at(3), 3, JUMP_SLOT), (at(4), 1, JUMP_SLOT)])  # fmt: skip
    assert [reference.name for reference in read.references] == ["b", "a", "c"]
    assert (read.eager, read.stop) == (2, None), "of those outside the table for calls, there are two"
    without = facts(outside("a", "c"), [(at(0), 1, R_64)], [(at(3), 2, JUMP_SLOT)], without=[PLTREL])
    assert [reference.name for reference in without.references] == ["a"], "ld.so ignores the table without DT_PLTREL"


@pytest.mark.parametrize(
    ("binding", "visibility", "section", "looked_up"),
    [
        (GLOBAL, 0, 0, True),
        (WEAK, 0, 0, True),
        (LOCAL, 0, 0, False),
        (GLOBAL, HIDDEN, 0, False),
        (GLOBAL, INTERNAL, 0, False),
        (GLOBAL, PROTECTED, 0, True),
        (GLOBAL, 0x80, 0, True),  # other bits of st_other are no visibility
        (GLOBAL, 0, 1, False),  # its own
    ],
)
def test_which_symbols_are_looked_up(binding: int, visibility: int, section: int, *, looked_up: bool) -> None:
    read = facts([("name", binding, visibility, section)], [(at(0), 1, R_64)])
    assert [(one.name, one.weak) for one in read.references] == ([("name", binding == WEAK)] if looked_up else [])


def test_relocations_without_a_symbol_look_up_nothing() -> None:
    read = facts(outside("a"), [(at(0), 0, RELATIVE), (at(1), 0, NONE), (at(2), 1, R_64)])
    assert [one.name for one in read.references] == ["a"]
    # RELACOUNT of them are at the beginning, where no symbol is looked for.
    counted = facts(outside("a"), [(at(0), 0, RELATIVE), (at(2), 1, R_64)], tags={RELACOUNT: 1})
    assert ([one.name for one in counted.references], counted.stop) == (["a"], None)


@pytest.mark.parametrize(("kind", "stops"), [(RELATIVE, False), (RELATIVE64, False), (NONE, True), (R_64, True)])
def test_what_is_counted_as_relative(kind: int, *, stops: bool) -> None:
    """glibc, ``elf_machine_rela_relative`` of x86-64."""
    read = facts(outside("a"), [(at(0), 1, kind), (at(2), 1, R_64)], tags={RELACOUNT: 1})
    words = "Inconsistency detected by ld.so: ../sysdeps/x86_64/dl-machine.h"
    assert (read.stop is not None and words in str(read.stop[1].message)) is stops


def test_thread_variables_of_the_static_block() -> None:
    read = facts(outside("a", "b"), [(at(0), 1, R_64), (at(1), 2, TPOFF64), (at(2), 0, TPOFF64)])
    names = [(count, reference.name if reference else None) for count, reference in read.static_tls]
    assert names == [(2, "b"), (2, None)], "how many references were looked up before"


@pytest.mark.parametrize(("kind", "digits"), [(0x63, "63"), (0x9, "09"), (0x100, "00000100")])
def test_a_type_that_ld_so_does_not_know(kind: int, digits: str) -> None:
    """glibc, ``_dl_reloc_bad_type``: two digits, or eight of a number beyond 255."""
    read = facts(outside("a", "b"), [(at(0), 1, R_64), (at(1), 2, kind), (at(2), 2, R_64)])
    assert read.stop is not None
    assert (read.stop[0], str(read.stop[1].message)) == (2, f"unexpected reloc type 0x{digits}")
    assert [one.name for one in read.references] == ["a", "b"], "it is looked up first"
    known = facts(outside("a"), [(at(0), 1, PC32)])
    assert (known.stop, [one.name for one in known.references]) == (None, ["a"])


READ_ONLY = [(R, 0, SIZE, SIZE)]
TWO = [(R, 0, 0x1000, 0x1000), (R | W, 0x1000, 0x1000, 0x1800)]


@pytest.mark.parametrize(
    ("segments", "place", "tags", "crashes"),
    [
        (READ_ONLY, at(0), {}, True),
        (READ_ONLY, at(0), {TEXTREL: 0}, False),  # then ld.so makes everything writable
        (READ_ONLY, at(0), {FLAGS: 4}, False),  # DF_TEXTREL
        (READ_ONLY, at(0), {FLAGS: 8}, True),
        (TWO, 0x1F00, {}, False),
        (TWO, 0x27F0, {}, False),  # beyond the file, and in memory
        (TWO, 0x2FF8, {}, False),  # to the end of the page
        (TWO, 0x2FF9, {}, True),
        (TWO, 0x3000, {}, True),
        (TWO, 0xFF8, {}, True),
        (TWO, 0x1000, {}, False),
    ],
)
def test_a_place_that_cannot_be_written(
    segments: list[tuple[int, int, int, int]], place: int, tags: dict[int, int], *, crashes: bool
) -> None:
    read = facts(outside("a", "b"), [(0x1FF0, 1, R_64), (place, 2, R_64)], tags=tags, segments=segments)
    first = 0 if segments is READ_ONLY else 1  # 0x1ff0 is in the second segment
    assert read.stop == ((first, CRASH) if crashes else None)
    assert len(read.references) == (first if crashes else 2)
    unused = facts(outside("a", "b"), [(0x1FF0, 1, R_64), (place, 2, NONE)], tags=tags, segments=TWO)
    assert unused.stop is None


def test_calls_are_written_after_everything_else() -> None:
    read = facts(outside("a", "b", "c"), [(0x1F00, 1, R_64)], [(0x1F08, 2, JUMP_SLOT), (8, 3, JUMP_SLOT)], segments=TWO)
    assert read.stop == (2, CRASH)
    assert [one.name for one in read.references] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "crashes"),
    [
        ((0x1F00,), False),
        ((0x800,), True),
        ((0x1F00, 0b11), False),  # the next word, too
        ((0xFF0, 0b11), True),
        # A bitmap for 63 words: the last of them is 62 words further on, and the next bitmap goes on there.
        ((0x1008, 1 << 63 | 1), False),
        ((0x2FF0, 0b11), False),
        ((0x2FF0, 0b101), True),
        ((0x2DF8, 1, 0b11), False),
        ((0x2E00, 1, 0b11), True),
        ((0x1F00, 0x800), True),
    ],
)
def test_packed_relocations(words: tuple[int, ...], *, crashes: bool) -> None:
    """gABI, DT_RELR: an even word is a place, an odd one a bitmap of the 63 words after it."""
    read = facts(relr=words, segments=TWO)
    assert (read.has_relr, read.stop) == (True, (0, CRASH) if crashes else None)


@pytest.mark.parametrize("missing", [SYMTAB, RELASZ, JMPREL, PLTRELSZ])
def test_an_entry_without_the_other(missing: int) -> None:
    read = facts(outside("a", "b"), [(at(0), 1, R_64)], [(at(1), 2, JUMP_SLOT)], without=[missing])
    assert read.stop == (0, CRASH)


@pytest.mark.parametrize(
    ("relro", "refused"),
    [
        ((0x1000, 0x1000), False),
        ((0x1000, 0), False),
        ((0x1800, 0x7FF), False),  # nothing once it is rounded down to pages
        ((0x1800, 0x800), False),
        ((0x2000, 0x1000), False),  # the page of the last bytes in memory
        ((0x2000, 0x2000), True),
        ((0x4000, 0x1000), True),
    ],
)
def test_what_is_protected_after_relocation(relro: tuple[int, int], *, refused: bool) -> None:
    """glibc, ``_dl_protect_relro``: from and to the beginnings of pages."""
    headers = [(PT_RELRO, R, relro[0], relro[1], relro[1], 1)]
    read = facts(outside("a"), [(0x1F00, 1, R_64)], segments=TWO, headers=headers)
    said = read.stop[1].message if read.stop else None
    words = "cannot apply additional memory protection after relocation: Cannot allocate memory"
    assert (said, read.stop[0] if read.stop else 1) == (words if refused else None, 1)


@pytest.mark.parametrize(
    ("headers", "machine", "executable"),
    [
        ([(PT_STACK, R | W, 0, 0, 0, 16)], 62, False),
        ([(PT_STACK, R | W | X, 0, 0, 0, 16)], 62, True),
        ([(PT_STACK, R | W | X, 0, 0, 0, 16), (PT_STACK, R | W, 0, 0, 0, 16)], 62, False),
        ([], 62, True),  # DEFAULT_STACK_PERMS of x86-64
        ([], 183, False),  # and of AArch64
    ],
)
def test_the_stack_that_an_object_asks_for(
    headers: list[tuple[int, int, int, int, int, int]], machine: int, *, executable: bool
) -> None:
    assert facts(headers=headers, machine=machine).executable_stack is executable


def test_a_block_of_thread_variables() -> None:
    read = facts(headers=[(PT_TLS, R, 0x1804, 4, 0x30, 16)])
    assert read.thread_variables is not None
    assert (read.thread_variables.size, read.thread_variables.alignment, read.thread_variables.lead) == (0x30, 16, 4)
    unaligned = facts(headers=[(PT_TLS, R, 0x1804, 4, 0x30, 0)]).thread_variables
    assert (unaligned and unaligned.lead) == 0
    assert facts(headers=[(PT_TLS, R, 0x1804, 0, 0, 16)]).thread_variables is None


def note(name: bytes, kind: int, content: bytes) -> bytes:
    padded = name + bytes(-len(name) % 4)
    return struct.pack("<III", len(name), len(content), kind) + padded + content + bytes(-len(content) % 4)


@pytest.mark.parametrize(
    ("notes", "build_id"),
    [
        (note(b"GNU\0", 3, b"\x12\x34"), "1234"),
        (note(b"GNU\0", 1, b"123") + note(b"GNU\0", 3, b"\xab"), "ab"),
        (note(b"Linker\0", 3, b"12") + note(b"GNU\0", 3, b"\xab\xcd\xef"), "abcdef"),
        (note(b"GNU\0", 4, b"\x12\x34"), None),
        (note(b"FreeB\0", 3, b"\x12\x34"), None),
        (b"", None),
        (b"\1\0\0\0", None),
    ],
)
def test_the_identifier_of_a_build_among_other_notes(notes: bytes, build_id: str | None) -> None:
    header = (PT_NOTE, R, 0x1C00, len(notes), len(notes), 4)
    assert facts(headers=[header], content={0x1C00: notes}).build_id == build_id


def test_addresses_and_offsets_of_several_segments() -> None:
    """Only what is in the file can be read: the rest of a segment is zero in memory."""
    content = bytearray(crafted(segments=TWO))
    content[0xFF8:0x1008] = b"end here" + b"begin me"
    file = ElfFile.from_bytes(bytes(content), "crafted.so")
    assert bytes(file.bytes_at(0xFF8, 8)) == b"end here"
    assert bytes(file.bytes_at(0x1000, 8)) == b"begin me"
    assert bytes(file.bytes_at(0x1FF8, 8)) == bytes(8)
    assert bytes(file.tail_at(0xFF8)) == b"end here"
    assert len(file.tail_at(0x1004)) == 0xFFC
    for address, size in ((0xFF9, 8), (0x1FF9, 8), (0x2000, 1), (0x1FFF, 2)):
        with pytest.raises(NotElfError, match=f"no segment contains {size} bytes at {address:#x}"):
            file.bytes_at(address, size)
    for address in (0x2000, 0x27FF):
        with pytest.raises(NotElfError, match=f"no segment contains the address {address:#x}"):
            file.tail_at(address)
    moved = bytearray(crafted(segments=[(R, 0, 0x400, 0x400), (R | W, 0x400, SIZE - 0x400, SIZE - 0x400)]))
    assert bytes(ElfFile.from_bytes(bytes(moved), "crafted.so").bytes_at(0x3F8, 8)) == moved[0x3F8:0x400]
