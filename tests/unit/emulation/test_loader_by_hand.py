"""The image of objects that are put together by hand, with what no linker on this machine makes of a source.

The layouts are those of the ELF gABI, chapters 4 and 5, the relocations those of the processors' supplements.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation.arch import ARCHITECTURES
from abiscan.emulation.emulator import PAGE_SIZE
from abiscan.emulation.loader import BASE, OTHER_MODULE, OWN_MODULE, SPACING, Image

EM = {Machine.X86_64: 62, Machine.AARCH64: 183}
PT_LOAD, PT_DYNAMIC, PT_TLS = 1, 2, 7
R, W, X = 4, 2, 1
STRTAB, SYMTAB, RELA, RELASZ, STRSZ, INIT = 5, 6, 7, 8, 10, 12
PLTRELSZ, JMPREL, INIT_ARRAY, INIT_ARRAYSZ, RELRSZ, RELR, GNU_HASH = 2, 23, 25, 27, 35, 36, 0x6FFFFEF5
BOUND, TLS_AT = 0x70_0000_0000, 0x8_0000
FUNC, OBJECT, TLS, IFUNC = 2, 1, 6, 10
SIZE = 0x5000
DYNAMIC_AT, SYMBOLS_AT, STRINGS_AT, HASH_AT, RELOCATIONS_AT = 0x200, 0x400, 0x700, 0xA00, 0xC00


class Symbol(NamedTuple):
    name: str
    value: int = 0
    type: int = FUNC
    section: int = 1
    size: int = 8


class Part(NamedTuple):
    """A program header, of a part of the file that lies where its address says."""

    kind: int
    flags: int
    address: int
    file_size: int
    size: int


WHOLE = (Part(PT_LOAD, R | X, 0, 0x2000, 0x2000), Part(PT_LOAD, R | W, 0x2000, 0x3000, 0x3000))


def gnu_hash(name: str) -> int:
    """``dl_new_hash`` of ld.so."""
    value = 5381
    for character in name.encode():
        value = value * 33 + character & 0xFFFF_FFFF
    return value


def hash_table(symbols: Sequence[Symbol], first: int, buckets: int, filter_words: int) -> bytes:
    """The table of the symbols from ``first`` on, which stand in the order of their buckets."""
    hashes = [gnu_hash(symbol.name) for symbol in symbols[first - 1 :]]
    number = [value % buckets for value in hashes]
    assert number == sorted(number)
    starts = [first + number.index(bucket) if bucket in number else 0 for bucket in range(buckets)]
    is_last = [at + 1 == len(number) or number[at + 1] != number[at] for at in range(len(number))]
    chain = [value & ~1 | last for value, last in zip(hashes, is_last, strict=True)]
    words = [buckets, first, filter_words, 5, *[0xFFFF_FFFF] * (2 * filter_words), *starts, *chain]
    return struct.pack(f"<{len(words)}I", *words)


def built(
    parts: Mapping[int, bytes] = {},
    dynamic: Mapping[int, int] = {},
    symbols: Sequence[Symbol] = (),
    *,
    headers: Sequence[Part] = WHOLE,
    machine: Machine = Machine.X86_64,
    size: int = SIZE,
) -> ElfFile:
    data, tags = bytearray(size), dict(dynamic)
    strings = bytearray(b"\0")
    if symbols:
        table = bytes(24)
        for symbol in symbols:
            info = 1 << 4 | symbol.type
            table += struct.pack("<IBBHQQ", len(strings), info, 0, symbol.section, symbol.value, symbol.size)
            strings += symbol.name.encode() + b"\0"
        data[SYMBOLS_AT : SYMBOLS_AT + len(table)] = table
        data[STRINGS_AT : STRINGS_AT + len(strings)] = strings
        tags = {SYMTAB: SYMBOLS_AT, STRTAB: STRINGS_AT, STRSZ: len(strings)} | tags
    for at, content in parts.items():
        data[at : at + len(content)] = content
    entries = b"".join(struct.pack("<QQ", *entry) for entry in (*tags.items(), (0, 0)))
    data[DYNAMIC_AT : DYNAMIC_AT + len(entries)] = entries
    table_of_headers = (*headers, Part(PT_DYNAMIC, R | W, DYNAMIC_AT, len(entries), len(entries)))
    identification, count = b"\x7fELF\2\1\1".ljust(16, b"\0"), len(table_of_headers)
    data[:64] = identification + struct.pack("<HHIQQQIHHHHHH", 3, EM[machine], 1, 0, 64, 0, 0, 64, 56, count, 64, 0, 0)
    for number, (kind, flags, address, file_size, memory) in enumerate(table_of_headers):
        at = 64 + 56 * number
        data[at : at + 56] = struct.pack("<IIQQQQQQ", kind, flags, address, address, address, file_size, memory, 4096)
    return ElfFile.from_bytes(bytes(data), "by hand")


class Seen:
    """An image, and what its functions were asked for."""

    def __init__(self, file: ElfFile, machine: Machine = Machine.X86_64, number: int = 0, tls_taken: int = 0) -> None:
        self.bound: list[str] = []
        self.resolved: list[int] = []
        self.image = Image(
            file, ARCHITECTURES[machine], self._bind, self._bind_tls, self._resolve, number=number, tls_taken=tls_taken
        )

    def _bind(self, name: str) -> int:
        self.bound.append(name)
        return BOUND + 0x400 * len(name)

    def _bind_tls(self, name: str) -> int:
        return TLS_AT + len(name)

    def _resolve(self, address: int) -> int:
        self.resolved.append(address)
        return 0x7700

    def page(self, start: int) -> bytes:
        loaded = self.image.page(self.image.base + start)
        assert loaded is not None
        assert len(loaded[0]) == PAGE_SIZE
        return loaded[0]

    def word(self, at: int) -> int:
        return int.from_bytes(self.page(at & -PAGE_SIZE)[at % PAGE_SIZE :][:8], "little")


def relocations(*entries: tuple[int, int, int, int]) -> bytes:
    """Place, type, symbol, addend."""
    return b"".join(
        struct.pack("<QQQ", at, symbol << 32 | kind, addend % 2**64) for at, kind, symbol, addend in entries
    )


# Types by what they are for (psABI, table 4.9; "ELF for the Arm 64-bit Architecture", 5.7.11).
KINDS = ("absolute", "glob_dat", "jump_slot", "relative", "irelative", "dtpmod", "dtpoff", "tpoff", "tlsdesc")
NUMBERS = {
    Machine.X86_64: dict(zip(KINDS, (1, 6, 7, 8, 37, 16, 17, 18, 36), strict=True)),
    Machine.AARCH64: dict(zip(KINDS, (257, 1025, 1026, 1027, 1032, 1028, 1029, 1030, 1031), strict=True)),
}
SYMBOLS = (
    Symbol("imported", section=0),
    Symbol("own", 0x1234),
    Symbol("chosen", 0x1300, IFUNC),
    Symbol("variable", 0x10, TLS),
    Symbol("foreign", 0, TLS, 0),
    Symbol("__gmon_start__", section=0),
    Symbol("", section=0),
)
NONE, IMPORTED, OWN, CHOSEN, VARIABLE, FOREIGN, GMON, NAMELESS = range(8)
TLS_PART = Part(PT_TLS, R, 0x2000, 0x20, 0x50)  # 80 bytes, which take two times 64


@pytest.fixture(params=list(NUMBERS), ids=lambda machine: str(machine.value))
def machine(request: pytest.FixtureRequest) -> Machine:
    found: Machine = request.param
    return found


@pytest.mark.parametrize("number", [0, 1])
def test_every_relocation(machine: Machine, number: int) -> None:
    kinds, base = NUMBERS[machine], BASE + number * SPACING
    start = 128 if number else 0  # of the thread-local variables, which follow those of the object before
    below = -(start + 128) if machine is Machine.X86_64 else 16 + start
    module = OTHER_MODULE + 1 if number else OWN_MODULE
    imported = BOUND + 0x400 * len("imported")
    cases = [
        ("relative", NONE, 0x1111, base + 0x1111),
        ("absolute", OWN, 0x10, base + 0x1244),
        ("absolute", IMPORTED, -4, imported - 4),
        ("glob_dat", IMPORTED, 0, imported),
        ("jump_slot", OWN, 0, base + 0x1234),
        ("absolute", CHOSEN, 0, 0x7700),
        ("absolute", GMON, 0, 0),  # weak, and nowhere defined
        ("glob_dat", NAMELESS, 0, 0),
        ("irelative", NONE, 0x1400, 0x7700),
        ("dtpmod", NONE, 0, module),
        ("dtpmod", VARIABLE, 0, module),
        ("dtpmod", FOREIGN, 0, OTHER_MODULE),
        ("dtpoff", VARIABLE, 4, 0x14),
        ("dtpoff", FOREIGN, 4, TLS_AT + len("foreign") + 4),
        ("dtpoff", NONE, 8, 8),
        ("tpoff", VARIABLE, 4, (below + 0x14) % 2**64),
        ("tpoff", NONE, 4, (below + 4) % 2**64),
        ("tpoff", FOREIGN, 4, TLS_AT + len("foreign") + 4),
    ]
    places = range(0x3000, 0x3000 + 16 * len(cases), 16)
    entries = [(at, kinds[kind], symbol, addend) for at, (kind, symbol, addend, _) in zip(places, cases, strict=True)]
    half = len(entries) // 2
    # A relocation by a symbol that is none, and one of a type that is none, change nothing, and stop nothing.
    first = relocations((0x3F00, kinds["absolute"], 0x7FFF_FFFF, 1), (0x3F10, 0xEE, OWN, 1), *entries[:half])
    second = relocations(*entries[half:])
    file = built(
        {RELOCATIONS_AT: first, RELOCATIONS_AT + 0x400: second},
        {RELA: RELOCATIONS_AT, RELASZ: len(first) + 23, JMPREL: RELOCATIONS_AT + 0x400, PLTRELSZ: len(second)},
        SYMBOLS,
        headers=(*WHOLE, TLS_PART),
        machine=machine,
    )
    seen = Seen(file, machine, number, 128 * number)
    for at, (kind, symbol, addend, expected) in zip(places, cases, strict=True):
        assert seen.word(at) == expected, (kind, symbol, addend)
        assert seen.word(at + 8) == 0, (kind, symbol, addend)
    assert seen.word(0x3F00) == seen.word(0x3F10) == 0
    assert set(seen.resolved) == {base + 0x1300, base + 0x1400}
    assert seen.image.module == module
    assert seen.image.tls_end == start + 128


def test_a_descriptor_of_a_thread_local_variable(machine: Machine) -> None:
    """Two words: a function, and what it is given: here, the offset that it returns."""
    kind = NUMBERS[machine]["tlsdesc"]
    table = relocations((0x3000, kind, VARIABLE, 4), (0x3010, kind, FOREIGN, 4), (0x3020, kind, NONE, 4))
    file = built(
        {RELOCATIONS_AT: table},
        {RELA: RELOCATIONS_AT, RELASZ: len(table)},
        SYMBOLS,
        headers=(*WHOLE, TLS_PART),
        machine=machine,
    )
    seen = Seen(file, machine)
    below = -128 if machine is Machine.X86_64 else 16
    resolver = BOUND + 0x400 * len("__tlsdesc_resolve")
    found = struct.unpack("<7Q", seen.page(0x3000)[:56])
    offsets = ((below + 0x14) % 2**64, TLS_AT + len("foreign") + 4, (below + 4) % 2**64)
    assert found == (resolver, offsets[0], resolver, offsets[1], resolver, offsets[2], 0)


@pytest.mark.parametrize(("size", "taken"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_thread_local_variables_end_where_the_next_ones_may_begin(size: int, taken: int) -> None:
    part = Part(PT_TLS, R, 0x2000, 0, size)
    assert Seen(built(headers=(*WHOLE, part))).image.tls_end == taken
    assert Seen(built(), tls_taken=192).image.tls_end == 192  # it has none


def test_relative_relocations_that_are_packed() -> None:
    """DT_RELR: an even word is an address; an odd one is a bitmap of the 63 words after what came before."""
    words = (0x3000, 1 | 1 << 1 | 1 << 63, 1 | 1 << 1, 0x3800, 0x3FF8, 1 | 1 << 1)
    places = [0x3000, 0x3008, 0x3008 + 62 * 8, 0x3008 + 63 * 8, 0x3800, 0x3FF8, 0x4000]
    before = {at: struct.pack("<Q", 0x1000 + at) for at in places}
    table = struct.pack(f"<{len(words)}Q", *words)
    file = built({RELOCATIONS_AT: table, **before}, {RELR: RELOCATIONS_AT, RELRSZ: len(table) + 7})
    seen = Seen(file)
    moved = {at for at in range(0x3000, 0x4800, 8) if seen.word(at)}
    assert moved == set(places)
    assert {seen.word(at) - at for at in places} == {BASE + 0x1000}
    assert seen.image.own_pointers() == {at: 0x1000 + at for at in places}


def test_a_word_at_the_end_of_a_page() -> None:
    """What lies in the page beyond is left out."""
    table = relocations((0x3FFC, 8, NONE, 0x1111_2222_3333_4444))
    file = built({RELOCATIONS_AT: table}, {RELA: RELOCATIONS_AT, RELASZ: len(table)})
    value = (BASE + 0x1111_2222_3333_4444).to_bytes(8, "little")
    assert Seen(file).page(0x3000)[-8:] == bytes(4) + value[:4]


@pytest.mark.parametrize("tags", [{RELA: RELOCATIONS_AT}, {RELASZ: 24}, {RELR: RELOCATIONS_AT}, {RELRSZ: 8}, {}])
def test_half_a_table_is_none(tags: dict[int, int]) -> None:
    file = built({RELOCATIONS_AT: relocations((0x3000, 8, NONE, 1))}, tags)
    assert Seen(file).word(0x3000) == 0


def test_which_slots_are_for_stubs_alone(machine: Machine) -> None:
    kinds = NUMBERS[machine]
    symbols = (*SYMBOLS, Symbol("another", section=0))
    table = relocations(
        (0x3000, kinds["jump_slot"], IMPORTED, 0),
        (0x3008, kinds["glob_dat"], IMPORTED, 0),
        (0x3010, kinds["absolute"], IMPORTED, 0),
        (0x3018, kinds["jump_slot"], OWN, 0),
        (0x3020, kinds["glob_dat"], 8, 0),
        (0x3028, kinds["absolute"], OWN, 6),
        (0x3030, kinds["dtpoff"], OWN, 6),
        (0x3038, kinds["relative"], NONE, 0x1010),
    )
    file = built({RELOCATIONS_AT: table}, {JMPREL: RELOCATIONS_AT, PLTRELSZ: len(table)}, symbols, machine=machine)
    image = Seen(file, machine).image
    assert image.slots_of(lambda _: True) == ({0x3000: "imported"}, {0x3008: "imported", 0x3020: "another"})
    assert image.slots_of(lambda name: name == "another") == ({}, {0x3020: "another"})
    assert image.slots_of(lambda _: True, own=True) == ({0x3018: "own"}, {})
    assert image.own_pointers() == {0x3018: 0x1234, 0x3028: 0x123A, 0x3038: 0x1010}


# Symbols

NAMES = ("a", "b", "ab", "other", "another", "x" * 700)
NAMED = sorted(  # in the order of two buckets
    [Symbol(name, 0x1000 + 0x10 * number) for number, name in enumerate(NAMES)],
    key=lambda symbol: gnu_hash(symbol.name) % 2,
)


@pytest.mark.parametrize("buckets", [1, 2])
@pytest.mark.parametrize("imported", [(), (Symbol("i", section=0), Symbol("undefined", section=0))])
@pytest.mark.parametrize("filter_words", [1, 2])
def test_names_are_looked_up_in_the_hash_table(buckets: int, imported: tuple[Symbol, ...], filter_words: int) -> None:
    """The imports come first and are not in it; what stands behind its chains is not either."""
    symbols = (*imported, *NAMED)
    table = hash_table(symbols, 1 + len(imported), buckets, filter_words)
    behind = (*symbols, Symbol("behind", 0x1800))
    image = Seen(built({HASH_AT: table}, {GNU_HASH: HASH_AT}, behind)).image
    for symbol in NAMED:
        found = image.find(symbol.name)
        assert found is not None
        assert tuple(found) == (symbol.name, symbol.value, symbol.size, FUNC, True, False, False)
        assert image.definition_of(symbol.name) == symbol.value
    for name in ("i", "undefined", "behind", "no", "", "x" * 699):
        assert image.find(name) is None
    assert image.definition_of("undefined") is None
    every = re.compile(rb"[^\0]+")
    assert sorted(found.name for found in image.definitions(every)) == sorted(symbol.name for symbol in NAMED)
    assert [found.name for found in image.definitions(re.compile(rb"a"))] == ["a"]


def test_a_symbol_of_the_table_that_is_not_defined_is_not_found() -> None:
    symbols = (Symbol("gone", section=0), Symbol("here", 0x1000))
    image = Seen(built({HASH_AT: hash_table(symbols, 1, 1, 1)}, {GNU_HASH: HASH_AT}, symbols)).image
    assert image.find("gone") is None
    assert image.find("here") is not None
    assert [symbol.name for symbol in image.definitions(re.compile(rb"\w+"))] == ["here"]


@pytest.mark.parametrize("table", [b"", struct.pack("<4I", 0, 1, 0, 0), struct.pack("<8I", 1, 1, 1, 0, 0, 0, 0, 0)])
def test_an_empty_hash_table(table: bytes) -> None:
    tags = {GNU_HASH: HASH_AT} if table else {}
    image = Seen(built({HASH_AT: table}, tags, (Symbol("name", 0x1000),))).image
    assert image.find("name") is None
    assert image.definitions(re.compile(rb"\w+")) == []


def test_a_bucket_that_leads_out_of_its_table() -> None:
    """Before the first symbol there is none; behind the last, the chain is as long as the segment."""
    symbols = (Symbol("imported", section=0), Symbol("name", 0x1000))
    table = bytearray(hash_table(symbols, 2, 1, 1))
    table[24:28] = struct.pack("<I", 1)
    image = Seen(built({HASH_AT: bytes(table)}, {GNU_HASH: HASH_AT}, symbols)).image
    assert image.find("name") is None
    assert image.definitions(re.compile(rb"\w+")) == []


def test_a_hash_table_that_its_segment_cuts_off() -> None:
    """The chains end with the segment, whose size need not be a multiple of a word."""
    symbols = (Symbol("name", 0x1000), Symbol("more", 0x1010))
    table = hash_table(symbols, 1, 1, 1)
    table = table[:-8] + struct.pack("<2I", gnu_hash("name") & ~1, gnu_hash("more") & ~1)
    size = HASH_AT + len(table) + 3
    file = built({HASH_AT: table}, {GNU_HASH: HASH_AT}, symbols, headers=(Part(PT_LOAD, R | X, 0, size, size),))
    image = Seen(file).image
    assert [symbol.name for symbol in image.definitions(re.compile(rb"\w+"))] == ["name", "more"]
    found = image.find("more")
    assert found is not None
    assert found.value == 0x1010


def test_the_function_that_an_address_is_in() -> None:
    symbols = (
        Symbol("first", 0x1000),
        Symbol("imported", 0x1004, section=0),  # with the address of its stub
        Symbol("datum", 0x1008, OBJECT),
        Symbol("second", 0x1010),
        Symbol("also second", 0x1010),
    )
    image = Seen(built({}, {}, symbols)).image
    assert image.nearest_symbol(0xFFF) is None
    assert {image.nearest_symbol(at) for at in (0x1000, 0x1008, 0x100F)} == {"first"}
    assert {image.nearest_symbol(at) for at in (0x1010, 0x4000)} == {"also second"}


def test_without_symbols_nothing_is_near() -> None:
    assert Seen(built()).image.nearest_symbol(0x1000) is None
    assert Seen(built({}, {STRTAB: STRINGS_AT})).image.nearest_symbol(0x1000) is None
    assert not Seen(built()).image.mentions(b"a")
    assert Seen(built()).image.definition_of("a") is None
    # A table of strings before that of the symbols says nothing of their number.
    before = {STRINGS_AT - 0x400: b"\0first\0"}
    image = Seen(built(before, {STRTAB: STRINGS_AT - 0x400}, (Symbol("first", 0x1000),))).image
    assert image.nearest_symbol(0x1000) is None


def test_what_the_names_mention() -> None:
    image = Seen(built({STRINGS_AT + 12: b"behind"}, {}, (Symbol("abc"), Symbol("d.f")))).image
    assert image.mentions(b"bc")
    assert image.mentions(b"d.f")
    assert not image.mentions(b"a.c")
    assert not image.mentions(b"behind")


# Pages


def test_segments_that_begin_and_end_within_pages() -> None:
    headers = (
        Part(PT_LOAD, R | X, 0, 0x1800, 0x1800),
        Part(PT_LOAD, R, 0x1800, 0x800, 0x800),
        Part(PT_LOAD, R | W, 0x3800, 0x700, 0x1900),
    )
    content = bytes(range(1, 252)) * 100
    image = Seen(built({0x1000: content[:0x1000], 0x3000: content[:0x1800]}, headers=headers, size=0x6000))
    assert image.page(0x1000) == content[:0x1000]
    # The loader maps whole pages of the file; what follows the part of the segment in the file is zero.
    assert image.page(0x3000) == content[:0xF00] + bytes(0x100)
    assert image.page(0x4000) == bytes(0x1000)
    assert image.page(0x5000) == bytes(0x1000)
    flags = {page: image.image.page(BASE + page) for page in range(0, 0x7000, 0x1000)}
    assert {page: found and found[1:] for page, found in flags.items()} == {
        0x0000: (False, True),
        0x1000: (False, False),  # the second segment is mapped over the end of the first
        0x2000: None,  # where the second segment ends
        0x3000: (True, False),
        0x4000: (True, False),
        0x5000: (True, False),
        0x6000: None,
    }
    assert image.image.size == 0x6000
    is_code = [at for at in (0, 0x17FF, 0x1800, 0x3800) if image.image.is_code(BASE + at)]
    assert is_code == [0]
    assert not image.image.is_code(0)


def test_code_in_the_place_of_other_code() -> None:
    """A patch replaces the code in its page alone, and goes no further."""
    seen = Seen(built({0x1000: b"\xaa" * 0x1000}), number=2)
    base = BASE + 2 * SPACING
    seen.image.patches[base + 0x1010] = b"patch"
    seen.image.patches[base + 0x1FFE] = b"end"
    page = seen.page(0x1000)
    assert page[:0x10] == b"\xaa" * 0x10
    assert page[0x10:0x16] == b"patch\xaa"
    assert page[-3:] == b"\xaaen"
    assert b"patch" not in seen.page(0x2000)
    assert b"patch" not in seen.page(0)


def test_headers_at_the_end_of_a_file() -> None:
    """A table of program headers may be the last thing in a file, and be said to be longer than it is."""
    file = built(headers=(*WHOLE, TLS_PART))
    data, count = bytearray(file.data), 4
    moved = data[64 : 64 + 56 * count]
    data[32:40] = struct.pack("<Q", len(data))
    assert Seen(ElfFile.from_bytes(bytes(data + moved), "moved")).image.tls == (0x2000, 0x2000, 0x20, 0x50)
    last_is_tls = moved[:112] + moved[168:] + moved[112:168]
    found = Seen(ElfFile.from_bytes(bytes(data + last_is_tls), "moved")).image
    assert found.tls is not None


# Where execution starts


def test_initialisers() -> None:
    """DT_INIT first, then the array; 0 and -1 are called, too."""
    array = struct.pack("<4Q", BASE + 0x1100, 0, 2**64 - 1, BASE + 0x1200)
    tags = {INIT_ARRAY: 0x2FF0, INIT_ARRAYSZ: len(array) + 7}
    called = [BASE + 0x1100, 0, 2**64 - 1, BASE + 0x1200]
    assert Seen(built({0x2FF0: array}, tags)).image.initialisers() == called
    found = Seen(built({0x2FF0: array}, {INIT: 0x1010, **tags})).image.initialisers()
    assert found == [BASE + 0x1010, *called]
    assert Seen(built({}, {INIT: 0})).image.initialisers() == []
    assert Seen(built({0: b""}, {INIT_ARRAY: 0x2FF0})).image.initialisers() == []


def test_an_array_of_initialisers_ends_with_its_segment() -> None:
    headers = (*WHOLE[:1], Part(PT_LOAD, R | W, 0x2000, 0x1000, 0x1000), Part(PT_LOAD, R | W, 0x4000, 0x1000, 0x1000))
    parts = {0x2FF8: struct.pack("<Q", 0x1111), 0x4000: struct.pack("<Q", 0x2222)}
    tags = {INIT_ARRAY: 0x2FF8, INIT_ARRAYSZ: 0x2000}
    assert Seen(built(parts, tags, headers=headers)).image.initialisers() == [0x1111]


def test_an_array_of_initialisers_that_is_nonsense() -> None:
    """512 KiB of it are looked at."""
    headers = (WHOLE[0], Part(PT_LOAD, R | W, 0x2000, 0x12_0000, 0x12_0000))
    array = struct.pack("<Q", 0x1111) * (1 << 17)
    file = built({0x2000: array}, {INIT_ARRAY: 0x2000, INIT_ARRAYSZ: len(array)}, headers=headers, size=0x12_2000)
    assert len(Seen(file).image.initialisers()) == 1 << 16
