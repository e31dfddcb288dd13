from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abiscan.binary import symbols as module
from abiscan.binary.elf import ElfFile
from abiscan.binary.symbols import ElfSymbols, HashTable
from tests.elf_builder import Defined, Elf, Undefined, exports

NAMES = tuple(f"_ZN2at4call{number}Ev" for number in range(200))
RICH = Elf(
    defined=(
        *exports(*NAMES, "ä", "PyInit_m"),
        Defined(name="v", version="V_1", hidden=True),
        Defined(name="v", version="V_2", size=16),
        Defined(name="local", binding=0),
    ),
    undefined=(Undefined(name="absent"), Undefined(name="gone", weak=True)),
)


def read(elf: Elf) -> ElfSymbols:
    symbols = ElfFile.from_bytes(elf.build(), "lib.so").facts().symbols
    assert isinstance(symbols, ElfSymbols)
    return symbols


def is_decoded(symbols: ElfSymbols) -> bool:
    try:
        object.__getattribute__(symbols, "_definitions")
    except AttributeError:
        return False
    return True


def test_each_name_is_found_without_decoding_the_table() -> None:
    for name in (*NAMES, "ä", "PyInit_m", "v"):
        looked_up = read(RICH)
        assert looked_up.find(name)
        assert not is_decoded(looked_up)
        decoded = read(RICH)
        assert looked_up.find(name) == decoded[name]
        assert is_decoded(decoded)


def test_versions_of_a_symbol_are_found_in_order() -> None:
    assert [(each.version, each.hidden, each.size) for each in read(RICH).find("v")] == [
        ("V_1", True, 8),
        ("V_2", False, 16),
    ]


@pytest.mark.parametrize("name", ["absent", "gone", "local", "_ZN2at4call200Ev", "", "\ud800"])
def test_what_is_not_exported_is_not_found(name: str) -> None:
    symbols = read(RICH)
    assert symbols.find(name) == ()
    assert not is_decoded(symbols)


def test_after_many_lookups_the_table_is_decoded() -> None:
    symbols = read(RICH)
    for name in NAMES[:20]:
        assert symbols.find(name)
    assert not is_decoded(symbols)
    for name in NAMES[20:40]:
        assert symbols.find(name)
    assert is_decoded(symbols)


def test_the_chains_of_a_hostile_table_end_the_lookups_early() -> None:
    same_hash = Elf(defined=exports(*["Az"] * 400))  # each symbol is in the one chain
    symbols = read(same_hash)
    assert len(symbols.find("Az")) == 400
    assert symbols.find("CX") == ()
    assert is_decoded(symbols)


def test_two_names_with_one_hash_are_told_apart() -> None:  # 33 * 65 + 122 == 33 * 66 + 89
    symbols = read(Elf(defined=(Defined(name="Az", size=1), Defined(name="BY", size=2))))
    symbols._lookups_left = 9
    assert [each.size for each in symbols.find("Az")] == [1]
    assert [each.size for each in symbols.find("BY")] == [2]
    assert not is_decoded(symbols)


def test_a_name_that_is_not_utf8_is_found_by_how_it_is_written() -> None:
    symbols = read(Elf(defined=exports("na\udcffme", *NAMES)))
    assert symbols.find("na\\xffme")


@given(st.binary(max_size=2500))
def test_the_hash_is_that_of_glibc(name: bytes) -> None:
    value = 5381
    for byte in name:  # sysdeps/generic/dl-new-hash.h
        value = (value * 33 + byte) % 2**32
    assert module._bernstein_hash(name) == value


@pytest.mark.parametrize(
    ("table", "end"),
    [
        (struct.pack("<4IQI", 1, 5, 1, 0, 0, 6) + struct.pack("<3I", 2, 3, 5), 7),
        (struct.pack("<4IQI", 1, 5, 1, 0, 0, 0), None),  # an empty bucket
        (struct.pack("<4IQI", 1, 5, 1, 0, 0, 6), None),  # a chain that does not end
    ],
)
def test_the_number_of_symbols_by_the_end_of_the_last_chain(table: bytes, end: int | None) -> None:
    assert HashTable(memoryview(table)).end == end


@pytest.mark.parametrize("size", [0, 15, 16, 27])
def test_a_truncated_table_is_an_error(size: int) -> None:
    table = struct.pack("<4IQI", 1, 5, 1, 0, 0, 6)
    with pytest.raises(struct.error):
        HashTable(memoryview(table[:size]))


def test_a_table_without_a_filter_or_buckets_finds_nothing() -> None:
    for header in (struct.pack("<4I", 0, 1, 1, 0) + bytes(8), struct.pack("<4I", 1, 1, 0, 0) + bytes(4)):
        assert list(HashTable(memoryview(header)).symbols(b"x")) == []
