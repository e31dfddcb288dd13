"""The dynamic symbols found at the beginning of real objects, against those that the dynamic section leads to."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from abiscan.binary.beginning import DynamicNames, names_at_beginning
from abiscan.binary.elf import ElfFile
from tests.elf_builder import Elf, exports, uses
from tests.fakes import SAMPLES, elf_samples

OBJECTS = elf_samples()


def beginning(data: bytes) -> tuple[DynamicNames | None, int]:
    """The names, and how much of the file was asked for."""
    asked = 0

    def head(size: int) -> bytes:
        nonlocal asked
        asked = max(asked, size)
        return data[:size]

    return names_at_beginning(head), asked


def whole(file: Path) -> DynamicNames:
    return DynamicNames.of(ElfFile.open(file).facts())


@pytest.mark.parametrize("file", OBJECTS, ids=[file.stem for file in OBJECTS])
def test_they_are_those_of_the_whole_file(file: Path) -> None:
    found, asked = beginning(file.read_bytes())
    expected = whole(file)
    assert found is not None or not expected.defined, "GNU ld has linked all of them"
    if found is not None:
        assert (found.machine, found.defined) == (expected.machine, expected.defined)
        assert set(found.undefined) == set(expected.undefined)
        assert all(found.may_need(library.decode()) for library in expected.strings.split(b"\0")[:-1])
        assert asked < file.stat().st_size


def test_a_name_that_is_not_there_is_not_needed() -> None:
    found, _ = beginning((SAMPLES / "loads" / "loads.so").read_bytes())
    assert found is not None
    assert not found.may_need("libother.so")


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_beginning_is_not_believed_or_read_without_an_error(seed: int) -> None:
    """A table whose names or hashes do not fit is no table: what is found is what the undamaged file has."""
    chance, file = random.Random(seed), OBJECTS[seed % len(OBJECTS)]
    data = bytearray(file.read_bytes())
    for _ in range(chance.randrange(1, 40)):
        data[chance.randrange(64, 4096)] = chance.randrange(256)
    found, _ = beginning(bytes(data[: chance.randrange(len(data))]))
    assert found is None or isinstance(found, DynamicNames)


def test_changed_names_do_not_fit_the_hashes() -> None:
    file = SAMPLES / "loads" / "loads.so"
    defined = sorted(whole(file).defined)
    data = file.read_bytes()
    for name in defined:
        data = data.replace(b"\0" + name.encode() + b"\0", b"\0" + name.swapcase().encode() + b"\0")
    assert beginning(data)[0] is None


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"not an object" * 100, bytes(5000)])
def test_what_is_no_object(data: bytes) -> None:
    assert beginning(data) == (None, 4096)


def test_without_a_hash_table_in_front_they_are_not_believed() -> None:
    assert beginning(Elf(defined=exports("f"), undefined=uses("g")).build())[0] is None
