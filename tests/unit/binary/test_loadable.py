"""What ``ld.so`` checks of one file; ``oracle/test_loader_truth.py`` has the same from the real one."""

from __future__ import annotations

import struct

import pytest

from abiscan.binary.elf import ElfFile, Tag
from abiscan.binary.loadable import (
    Segment,
    overlay_segments,
    read_isa_needed,
    refuse_header,
    refuse_mapping,
)
from tests.elf_builder import Defined, Elf, Undefined, exports

HEAD = Elf(defined=exports("f")).build()[:64]


def patched(offset: int, value: bytes) -> bytes:
    return HEAD[:offset] + value + HEAD[offset + len(value) :]


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (HEAD, None),
        (HEAD[:63], "file too short"),
        (b"#!/bin/sh\n".ljust(64), "invalid ELF header"),
        (patched(4, b"\1"), None),  # passed over
        (patched(5, b"\2"), "ELF file data encoding not little-endian"),
        (patched(6, b"\0"), "ELF file version ident does not match current one"),
        (patched(7, b"\3"), None),
        (patched(7, b"\3\3"), None),
        (patched(7, b"\3\4"), "ELF file ABI version invalid"),
        (patched(7, b"\x09"), "ELF file OS ABI invalid"),
        (patched(8, b"\1"), "ELF file ABI version invalid"),
        (patched(15, b"\1"), "nonzero padding in e_ident"),
        (patched(20, b"\2"), "ELF file version does not match current one"),
        (patched(18, b"\3\0"), None),
        (patched(16, b"\1\0"), "only ET_DYN and ET_EXEC can be loaded"),
        (patched(54, b"\x40\0"), "ELF file's phentsize not the expected size"),
    ],
)
def test_headers_that_the_loader_refuses(head: bytes, words: str | None) -> None:
    assert refuse_header(head) == words


def load(
    address: int, size: int, *, memory: int | None = None, offset: int | None = None, flags: int = 4
) -> tuple[int, ...]:
    return (1, flags, address if offset is None else offset, address, 0, size, size if memory is None else memory, 4096)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([], "object file has no loadable segments"),
        ([load(0, 100), load(4096, 100)], None),
        ([load(0, 100), load(4096, 100, offset=8)], "ELF load command address/offset not page-aligned"),
        ([load(8192, 100), load(0, 100)], "failed to map segment from shared object"),
        ([load(0, 100, memory=1 << 48)], "failed to map segment from shared object"),
        ([load(0, 100, memory=1 << 40, flags=6)], "cannot map zero-fill pages"),
        ([load(0, 100, memory=1 << 40)], None),  # memory that nobody writes needs none
        ([load(0, 20000), load(8192, 100), load(8192, 20000)], "ELF load command address/offset not page-aligned"),
    ],
)
def test_segments(headers: list[tuple[int, ...]], words: str | None) -> None:
    assert refuse_mapping(headers, is_fixed=False) == words


def segment(address: int, size: int, offset: int, file_size: int | None = None) -> Segment:
    return Segment(
        address=address, size=size, offset=offset, file_size=size if file_size is None else file_size, flags=4
    )


def test_a_later_segment_lies_over_an_earlier_one() -> None:
    pieces = overlay_segments((segment(0, 0x3000, 0), segment(0x1000, 0x1000, 0x8000)))
    assert [(piece.address, piece.offset, piece.file_size) for piece in pieces] == [
        (0, 0, 0x1000),
        (0x1000, 0x8000, 0x1000),
        (0x2000, 0x2000, 0x1000),
    ]


def test_the_zeros_of_an_earlier_segment_hide_nothing_of_a_later_one() -> None:
    pieces = overlay_segments((segment(0, 0x2000, 0, 0x800), segment(0x1000, 0x1000, 0x8000)))
    assert [(piece.address, piece.offset, piece.file_size) for piece in pieces] == [
        (0, 0, 0x800),
        (0x1000, 0x8000, 0x1000),
    ]


def test_segments_in_order_are_left_as_they_are() -> None:
    segments = (segment(0, 0x800, 0), segment(0x1000, 0x1000, 0x800))
    assert overlay_segments(segments) == segments


def note(*properties: tuple[int, bytes], name: bytes = b"GNU\0", kind: int = 5) -> memoryview:
    content = b"".join(struct.pack("<II", tag, len(data)) + data.ljust(8, b"\0") for tag, data in properties)
    return memoryview(struct.pack("<III", len(name), len(content), kind) + name + content)


FEATURES, ISA_NEEDED = 0xC0000002, 0xC0008002


@pytest.mark.parametrize(
    ("notes", "alignment", "needed"),
    [
        (note((FEATURES, b"\3\0\0\0"), (ISA_NEEDED, b"\4\0\0\0")), 8, 4),
        (note((FEATURES, b"\3\0\0\0")), 8, 0),
        (note((ISA_NEEDED, b"\4\0\0\0")), 4, None),
        (note((ISA_NEEDED, b"\4\0\0\0"), kind=3), 8, None),
        (note((ISA_NEEDED, b"\4\0\0\0"), (FEATURES, b"\3\0\0\0")), 8, 4),  # nothing behind it is read
        (note((0xC0010002, b"\4\0\0\0"), (ISA_NEEDED, b"\4\0\0\0")), 8, 0),
        (note((ISA_NEEDED, b"\4\0\0\0\0\0\0\0")), 8, 0),  # of another size
        (memoryview(bytes(note((ISA_NEEDED, b"\4\0\0\0"))) * 2), 8, 0),  # two of them
    ],
)
def test_the_level_of_a_property_note(notes: memoryview, alignment: int, needed: int | None) -> None:
    assert read_isa_needed(notes, alignment) == needed


@pytest.mark.parametrize(
    "definition", [Defined(name="f", type=4), Defined(name="f", type=3), Defined(name="f", binding=5)]
)
def test_a_symbol_of_another_type_or_binding_is_not_found(definition: Defined) -> None:
    facts = ElfFile.from_bytes(Elf(defined=(definition,)).build(), "x.so").facts()
    assert facts.symbols.find("f") == ()


@pytest.mark.parametrize(("binding", "weak"), [(1, False), (2, True)])  # elf.h: STB_GLOBAL, STB_WEAK
def test_what_a_hash_table_does_not_lead_to_is_looked_up_elsewhere(binding: int, *, weak: bool) -> None:
    own = Defined(name="own", binding=binding)
    content = bytearray(Elf(defined=(own,), undefined=(Undefined(name="f"),)).build())
    file = ElfFile.from_bytes(bytes(content), "x.so")
    relocation = file.dynamic[Tag.RELA] + 8
    symbols = struct.unpack_from("<I", content, relocation + 4)[0]
    assert symbols == 1
    struct.pack_into("<I", content, relocation + 4, 2)  # to the symbol that it defines
    assert list(ElfFile.from_bytes(bytes(content), "x.so").facts().symbols.find_lost()) == []
    struct.pack_into("<Q", content, file.dynamic[Tag.GNU_HASH] + 16, 0)  # the Bloom filter
    lost = ElfFile.from_bytes(bytes(content), "x.so").facts().symbols.find_lost()
    assert [(symbol.name, symbol.place, symbol.weak) for symbol in lost] == [("own", 0, weak)]
