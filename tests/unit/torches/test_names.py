from __future__ import annotations

import pytest

from abiscan.torches import names as names_module
from abiscan.torches.names import ColumnNames, ColumnSymbols, NameTable, _NameFile
from tests.tables import name_table


def test_tells_who_exports_a_name() -> None:
    table = name_table({"_ZN2at3addEv": 0b01, "_ZN2at3subEv": 0b11})
    assert table.columns_with("_ZN2at3addEv") == 0b01
    assert table.columns_with("_ZN2at3subEv") == 0b11


@pytest.mark.parametrize("name", ["", "_", "_ZN2at3ad", "_ZN2at3addEvv", "~"])
def test_nobody_exports_a_name_that_is_not_there(name: str) -> None:
    assert name_table({"_ZN2at3addEv": 1}).columns_with(name) == 0


def test_finds_every_name_across_blocks() -> None:
    names = {f"symbol_{number:05}": 1 << number % 7 for number in range(5_000)}
    table = name_table(names)
    assert {name: table.columns_with(name) for name in names} == names


def test_lists_names_with_a_prefix_across_blocks() -> None:
    names = {f"{letter}{number:04}": 1 for letter in "abc" for number in range(1_000)}
    found = [name for name, _ in name_table(names).starting_with("b")]
    assert found == sorted(name for name in names if name.startswith("b"))


def test_a_block_is_decoded_once_for_all_libraries_of_a_torch_and_all_that_miss_its_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {f"_ZN2at{number:05}": 0b11 for number in range(100 * names_module.BLOCK)}
    table, decoded = name_table(names), list[int]()
    decode = _NameFile._decode_block

    def count(file: _NameFile, number: int) -> list[str]:
        decoded.append(number)
        return decode(file, number)

    monkeypatch.setattr(_NameFile, "_decode_block", count)
    for prefix in [f"_ZN2at{number:05}" for number in range(0, len(names), 100)] * 3:
        for column in (0, 1):
            assert list(ColumnSymbols(table=table, column=column).starting_with(prefix)) == [prefix]
    assert len(decoded) == 100


def test_names_share_more_than_a_byte_can_count() -> None:
    names = {"x" * 400 + ending: 1 for ending in ("", "a", "b\x0ac".replace("\x0a", ""))}
    table = name_table(names)
    assert all(table.columns_with(name) == 1 for name in names)


@pytest.mark.parametrize("count", [1, 2, 512, 513, 1024, 1025, 2_000])
def test_names_with_a_prefix_are_found_at_both_ends_of_a_block(count: int) -> None:
    """A block has 512 names: a prefix can begin in one block, and end in the next, or be before or behind all."""
    names = {f"n{number:05}": 1 + number % 3 for number in range(count)}
    table = name_table(names)
    for prefix in ("n", "n000", "n0051", "n00512", "n01", f"n{count - 1:05}", "a", "z", "n00000"):
        assert dict(table.starting_with(prefix)) == {
            name: columns for name, columns in names.items() if name.startswith(prefix)
        }
    assert list(name_table({}).starting_with("n")) == []


@pytest.mark.parametrize("bits", [1, 8, 9, 16, 17, 64, 65])
def test_sets_of_columns_take_as_many_bytes_as_the_widest(bits: int) -> None:
    """Of two names with random sets, the larger decides: the block of sets has a whole number of bytes for each."""
    widest, other = (1 << bits) - 1, 1
    table = name_table({"a": widest, "b": other} if bits > 1 else {"a": 1})
    assert table.columns_with("a") == widest
    assert table.files[0].head.width == -(-bits // 8)


def columns_of(count: int) -> tuple[dict[str, int], NameTable]:
    """Names of which all are in column 0, the first hundred in column 1, and one behind them in column 2."""
    columns = {f"n{number:05}": 0b001 | (number < 100) << 1 | (number == 1_000) << 2 for number in range(count)}
    return columns, name_table(columns)


def test_a_column_is_the_set_of_its_names() -> None:
    columns, table = columns_of(2_000)
    for column in range(3):
        assert set(ColumnNames(table, column)) == {name for name, bits in columns.items() if bits >> column & 1}
    assert "n00099" in ColumnNames(table, 1)
    assert "n00100" not in ColumnNames(table, 1)
    assert ColumnNames(table, 1) & {"n00099", "n00100"} == {"n00099"}
    assert ColumnNames(table, 0) - {"n00000"} == columns.keys() - {"n00000"}


def test_the_names_that_another_column_lacks_take_their_blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, table = columns_of(5_000)
    read: list[int] = []
    decoded = _NameFile._decode_block

    def reading(file: _NameFile, number: int) -> list[str]:
        read.append(number)
        return decoded(file, number)

    monkeypatch.setattr(_NameFile, "_decode_block", reading)
    monkeypatch.setattr(names_module, "hash_name", None)  # nor is a name looked up
    assert ColumnNames(table, 2) - ColumnNames(table, 1) == {"n01000"}
    assert ColumnNames(table, 1) - ColumnNames(table, 0) == set()
    assert read == [1]
    assert {name: bits for bits, names in table.by_columns().items() for name in names} == columns
