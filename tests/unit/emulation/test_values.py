"""``c10::IValue`` objects in memory (``ATen/core/ivalue.h``): a payload of eight bytes, then a tag, 0 for none."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.process import EmulatedProcess
from abiscan.emulation.standard_types import StandardTypes
from abiscan.emulation.strings import COW, CXX11
from abiscan.emulation.values import UNKNOWN_VALUE, VALUE_SIZE, Values

SAMPLE = Path(__file__).parents[3] / "sample_binaries" / "registrations" / "library.so"


@pytest.fixture
def process() -> Iterator[EmulatedProcess]:
    file = ElfFile.open(SAMPLE)
    found = EmulatedProcess(file, file.facts().machine, finder((LIBC,)), lambda *_: None)
    yield found
    found.close()


@pytest.fixture
def values(process: EmulatedProcess) -> Values:
    """Those of a torch from 2.3 on, whose reference counts share a word."""
    return Values(StandardTypes(process=process, strings=CXX11, flag_first=False))


def value(process: EmulatedProcess, payload: bytes, tag: int = 3) -> int:
    return process.store(payload + struct.pack("<II", tag, 0xFFFF_FFFF))  # what follows the tag is padding


@pytest.mark.parametrize(
    ("payload", "type_", "expected"),
    [
        (struct.pack("<q", -7), "int", "-7"),
        (struct.pack("<q", -7), "int?", "-7"),
        (struct.pack("<d", 0.5), "float", "0.5"),
        (struct.pack("<q", 1), "bool", "True"),
        (bytes(8), "bool", "False"),
        (b"\0" + b"\1" * 7, "bool", "False"),  # one byte counts
        (struct.pack("<q", 1), "Device", UNKNOWN_VALUE),
    ],
)
def test_what_a_payload_is_the_type_says(
    process: EmulatedProcess, values: Values, payload: bytes, type_: str, expected: str
) -> None:
    assert values.text(value(process, payload), type_) == expected
    assert values.text(value(process, payload, tag=0), type_) == "None"


def test_texts_are_those_that_were_made(process: EmulatedProcess, values: Values) -> None:
    made = values.new_string(b'a "text"\n')
    assert values.text(value(process, struct.pack("<Q", made)), "str") == '"a \\"text\\"\\n"'
    assert process.name_at(process.machine.word(made)) == "_ZTVN3c106ivalue14ConstantStringE of a double"
    assert process.machine.word(made) % 8 == 0
    accented = values.new_string("é".encode())
    assert values.text(value(process, struct.pack("<Q", accented)), "str") == '"é"'
    assert CXX11.read(process, made + 16) == b'a "text"\n'  # behind the virtual pointer and the counts
    assert struct.unpack("<II", process.machine.read(made + 8, 8)) == (1, 1)
    assert values.text(value(process, struct.pack("<Q", made + 8)), "str") == UNKNOWN_VALUE


def test_counts_of_a_word_each(process: EmulatedProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 2.2: c10::optional has its flag first, and nothing is copied on write."""
    monkeypatch.setattr(type(process.image), "mentions", lambda *_: False)
    made = Values(StandardTypes(process=process, strings=COW, flag_first=True)).new_string(b"text")
    assert process.machine.words(made + 8, 2) == (1, 1)
    assert COW.read(process, made + 24) == b"text"


def test_counts_of_one_word(process: EmulatedProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """With c10::optional, which has its flag first, a sign of copying on write tells; without it, nothing need to."""
    for mentioned, flag_first in ((True, True), (False, False)):
        monkeypatch.setattr(type(process.image), "mentions", lambda *_, mentioned=mentioned: mentioned)
        made = Values(StandardTypes(process=process, strings=COW, flag_first=flag_first)).new_string(b"text")
        assert COW.read(process, made + 16) == b"text"


def list_of(process: EmulatedProcess, *payloads: bytes, less: int = 0, room: int = 16 + 24 + 16) -> tuple[int, int]:
    """The elements as a ``std::vector``, and the address for a list of them."""
    elements = process.store(b"".join(payload + struct.pack("<Q", 2) for payload in payloads) or b"\0")
    end = elements + VALUE_SIZE * len(payloads) - less
    return process.store(struct.pack("<QQQ", elements, end, end)), process.allocate(room)


@pytest.mark.parametrize("room", [16 + 24 + 16, 24 + 24 + 16])
def test_lists(process: EmulatedProcess, values: Values, room: int) -> None:
    """The size that the code asks for tells how large the head is."""
    vector, address = list_of(process, *(struct.pack("<q", number) for number in (1, -2)), room=room)
    values.make_list(address, vector, (0x1234, 0x5678))
    assert process.machine.words(vector, 3) == (0, 0, 0)  # it was moved from
    # Without an owner: whoever asked for it takes it over.
    assert process.machine.read(address + 8, room - 16 - 24 - 8) == bytes(room - 16 - 24 - 8)
    holder = value(process, struct.pack("<Q", address))
    assert values.text(holder, "int[]") == "[1, -2]"
    assert values.text(holder, "int[]?") == "[1, -2]"
    assert values.text(holder, "bool[]") == UNKNOWN_VALUE
    assert values.element_type(holder) == 0x1234
    assert process.machine.words(address + room - 16, 2) == (0x1234, 0x5678)


@pytest.mark.parametrize(
    ("count", "less", "known"), [(0, 0, True), (3, 0, True), (3, 8, False), (4096, 0, True), (4097, 0, False)]
)
def test_what_is_no_list_of_a_schema(
    process: EmulatedProcess, values: Values, count: int, less: int, known: bool
) -> None:
    vector, address = list_of(process, *[struct.pack("<d", 1.5)] * count, less=less)
    values.make_list(address, vector, (0, 0))
    found = values.text(value(process, struct.pack("<Q", address)), "float[]")
    assert found == (f"[{', '.join(['1.5'] * count)}]" if known else UNKNOWN_VALUE)


def test_a_list_that_ends_before_it_begins(process: EmulatedProcess, values: Values) -> None:
    vector, address = list_of(process, struct.pack("<q", 1), less=32)
    values.make_list(address, vector, (0, 0))
    assert values.text(value(process, struct.pack("<Q", address)), "int[]") == UNKNOWN_VALUE
