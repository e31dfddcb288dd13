"""The tables of ``.eh_frame`` and of the language-specific data, put together by hand, where they are damaged."""

from __future__ import annotations

import struct
from typing import Final

import pytest

from abiscan.emulation.frames import FrameEntry, Frames, FrameState, Landing

STACK_POINTER: Final = 7
HEADER, COMMON, FUNCTION, DATA, CODE = 0x1000, 0x2000, 0x40_0000, 0x80_0000, 0x10_0000
STATE: Final = FrameState(dict.fromkeys(range(17), 0x7000), CODE + 8)
# DW_CFA_def_cfa: the stack pointer and 8; DW_CFA_offset: the return address, 16, 8 below it (DWARF 5, 6.4.2).
CIE_CODE: Final = b"\x0c\x07\x08\x90\x01"


class Memory:
    """Some parts with zeroes around them."""

    def __init__(self, parts: dict[int, bytes]) -> None:
        self.parts = parts

    def read(self, address: int, size: int) -> bytes:
        for start, content in self.parts.items():
            if start <= address < start + len(content):
                return content[address - start : address - start + size].ljust(size, b"\0")
        return bytes(size)

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")


def made(
    *,
    letters: bytes = b"zR",
    pointers: int = 0x00,
    column: int = 16,
    common_code: bytes = CIE_CODE,
    code: bytes = b"",
    data: bytes | None = None,
) -> Frames:
    """The frames of one function, by the layout of the LSB 5.0, 10.6."""
    augmentation = bytes((pointers,)) if data is None else bytes((pointers, 0x00))
    letters = letters if data is None else b"zRL"
    head = bytes((1,)) + letters + b"\0" + bytes((1, 0x78, column, len(augmentation))) + augmentation
    common = struct.pack("<II", 4 + len(head) + len(common_code), 0) + head + common_code
    place = b"" if data is None else struct.pack("<Q", DATA)
    body = struct.pack("<IQQ", FUNCTION + 4 - COMMON, CODE, 64) + bytes((len(place),)) + place + code
    entry = struct.pack("<I", len(body)) + body
    # Version; absolute words of 4 bytes to .eh_frame and for the number; pairs of 4 bytes from the header on.
    header = bytes((1, 0x03, 0x03, 0x3B)) + struct.pack("<II", COMMON, 1)
    header += struct.pack("<ii", CODE - HEADER, FUNCTION - HEADER)
    parts = {HEADER: header, COMMON: common, FUNCTION: entry, **({} if data is None else {DATA: data})}
    return Frames(Memory(parts), HEADER, STACK_POINTER)


def function(frames: Frames) -> FrameEntry:
    found = frames.function_at(CODE + 8)
    assert found is not None
    return found


def test_the_caller_of_a_function() -> None:
    frames = made()
    assert frames.cfa(function(frames), STATE) == 0x7008
    assert frames.caller(function(frames), STATE).registers[STACK_POINTER] == 0x7008


@pytest.mark.parametrize("encoding", [0x05, 0x06, 0x07, 0x08, 0x0D, 0x0E, 0x0F])
def test_an_encoding_that_no_format_has(encoding: int) -> None:
    """LSB 5.0, 10.5.1, names the forms 0 to 4 and 9 to C."""
    with pytest.raises(ValueError, match=f"pointer encoding {encoding:#x}"):
        made(pointers=encoding).function_at(CODE + 8)


@pytest.mark.parametrize(
    "code",
    [
        b"\x0d\x63",  # DW_CFA_def_cfa_register 99
        b"\x09\x03\x63",  # DW_CFA_register: 3 is in 99
        b"\x0f\x02\x8f\x00",  # DW_CFA_def_cfa_expression: DW_OP_breg31
        b"\x10\x03\x02\x8f\x00",  # DW_CFA_expression, of 3
    ],
)
def test_a_register_that_the_processor_lacks(code: bytes) -> None:
    frames = made(code=code)
    with pytest.raises(ValueError, match=r"call frame register (99|31)"):
        frames.caller(function(frames), STATE)


def test_a_return_address_in_no_register() -> None:
    frames = made(column=99)
    with pytest.raises(ValueError, match="call frame register 99"):
        frames.caller(function(frames), STATE)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (b"\x0e" + b"\x80" * (1 << 10), "a number without an end"),  # DW_CFA_def_cfa_offset
        (b"\x0f\xff\xff\x7f", "a call frame expression that is too long"),  # DW_CFA_def_cfa_expression
    ],
)
def test_rules_without_an_end(code: bytes, reason: str) -> None:
    frames = made(code=code)
    with pytest.raises(ValueError, match=reason):
        frames.cfa(function(frames), STATE)


def test_an_augmentation_without_an_end() -> None:
    with pytest.raises(ValueError, match="an augmentation of call frames without an end"):
        made(letters=b"z" + b"R" * 100).function_at(CODE + 8)


@pytest.mark.parametrize(
    "code", [b"\x0a" * 1_000, b"".join(b"\x05" + bytes((0x80 | n & 0x7F, n >> 7)) + b"\0" for n in range(1_000))]
)
def test_rows_of_too_many_registers(code: bytes) -> None:
    """DW_CFA_remember_state, and DW_CFA_offset_extended: what is remembered would take the square of the table."""
    frames = made(code=code)
    with pytest.raises(ValueError, match="call frames of too many registers"):
        frames.cfa(function(frames), STATE)


def test_reading_the_rows_has_a_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abiscan.emulation.frames._MOST_STEPS", 1_000)
    frames = made(code=b"\0" * 300)
    for pc in range(3):
        frames.cfa(function(frames), FrameState(STATE.registers, CODE + pc))
    with pytest.raises(ValueError, match="too long to read"):
        frames.cfa(function(frames), FrameState(STATE.registers, CODE + 3))


def test_reading_call_sites_has_a_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abiscan.emulation.frames._MOST_STEPS", 1_000)
    # No start of the landing pads, no types; call sites as LEB128, all of them before the call.
    sites = b"\x00\x01\x00\x00" * 2_000
    size = len(sites)
    frames = made(data=b"\xff\xff\x01" + bytes((0x80 | size & 0x7F, size >> 7)) + sites)
    with pytest.raises(ValueError, match="too long to read"):
        frames.landing(function(frames), CODE + 8)


def test_a_specification_without_an_end() -> None:
    frames = made(data=b"\xff\x00\x7f\x01\x04" + b"\x00\x20\x08\x00" + b"\x01" * 100_000)
    landing = frames.landing(function(frames), CODE + 8)
    assert isinstance(landing, Landing)
    assert len(landing.specification(0)) < 100
