"""What torch itself is asked about the objects that its code makes."""

from __future__ import annotations

import pytest

from abiscan.emulation.cpp_function import read_optional_key


@pytest.mark.parametrize(
    ("value", "wide", "expected"),
    [
        (0x0001_0B01, False, 11),  # a key of 8 bits; what follows is not the optional's
        (0x0031_8A01, True, 49),  # a key of 16 bits after a byte that is no one's
        (0x0031_0001, None, 49),
        (0x0000_0B01, None, 11),
        (0x0031_8A00, True, None),
        (0x0001_0B00, False, None),
        (0x0000_FF01, True, None),  # Undefined
    ],
)
def test_the_key_of_an_optional_with_its_flag_first(value: int, wide: bool | None, expected: int | None) -> None:
    assert read_optional_key(value, flag_first=True, wide=wide) == expected
