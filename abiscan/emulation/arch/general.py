"""What the instructions on general registers compute that not every x86-64 processor has: BMI, ADX, MOVBE, CRC32.

Intel SDM, volume 2. Flags that the manual leaves undefined are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

_CRC32C: Final = 0x82F63B78  # the polynomial, its bits in reverse
_BYTE: Final = 0xFF


class Computed(NamedTuple):
    """The results, one for each target, and the flags that are set."""

    results: tuple[int, ...]
    flags: Mapping[str, bool] = {}


Sources: TypeAlias = Sequence[int]
Operation: TypeAlias = Callable[[Sources, int], Computed]
"""Computes from the sources, and the size of an operand in bits."""


def _logical(function: Callable[[Sources, int], int], carry: Callable[[Sources, int], bool] | None = None) -> Operation:
    def apply(sources: Sources, bits: int) -> Computed:
        result = function(sources, bits) & (1 << bits) - 1
        flags = {"ZF": not result, "SF": bool(result >> bits - 1), "OF": False}
        return Computed((result,), {**flags, "CF": carry(sources, bits) if carry else False})

    return apply


def _without_flags(function: Callable[[Sources, int], int]) -> Operation:
    return lambda sources, bits: Computed((function(sources, bits) & (1 << bits) - 1,))


def _signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def _extracted(sources: Sources, bits: int) -> int:
    value, control = sources
    start, length = control & _BYTE, control >> 8 & _BYTE
    return (value & (1 << bits) - 1) >> start & (1 << length) - 1


def _low_bits(sources: Sources, bits: int) -> int:
    value, count = sources[0], sources[1] & _BYTE
    return value & (1 << min(count, bits)) - 1


def _bits_of(mask: int, bits: int) -> list[int]:
    return [bit for bit in range(bits) if mask >> bit & 1]


def _deposited(sources: Sources, bits: int) -> int:
    value, mask = sources
    return sum((value >> low & 1) << bit for low, bit in enumerate(_bits_of(mask, bits)))


def _gathered(sources: Sources, bits: int) -> int:
    value, mask = sources
    return sum((value >> bit & 1) << low for low, bit in enumerate(_bits_of(mask, bits)))


def _turned(sources: Sources, bits: int) -> int:
    value, by = sources[0], sources[1] % bits
    return value >> by | value << bits - by


def _zeros(sources: Sources, bits: int, *, leading: bool) -> Computed:
    value = sources[-1] & (1 << bits) - 1
    count = bits - value.bit_length() if leading else (value & -value).bit_length() - 1
    count = count if value else bits
    return Computed((count,), {"CF": not value, "ZF": not count})


def crc32(value: int, content: bytes) -> int:
    """Update a CRC-32C by some more bytes."""
    for byte in content:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (_CRC32C if value & 1 else 0)
    return value


OPERATIONS: Final[dict[str, Operation]] = {
    "andn": _logical(lambda sources, _: ~sources[0] & sources[1]),
    "bextr": lambda sources, bits: Computed(
        (_extracted(sources, bits),), {"ZF": not _extracted(sources, bits), "CF": False, "OF": False}
    ),
    "blsi": _logical(lambda sources, _: sources[0] & -sources[0], lambda sources, _: sources[0] != 0),
    "blsmsk": _logical(lambda sources, _: sources[0] ^ sources[0] - 1, lambda sources, _: sources[0] == 0),
    "blsr": _logical(lambda sources, _: sources[0] & sources[0] - 1, lambda sources, _: sources[0] == 0),
    "bzhi": _logical(_low_bits, lambda sources, bits: sources[1] & _BYTE > bits - 1),
    "pdep": _without_flags(_deposited),
    "pext": _without_flags(_gathered),
    "rorx": _without_flags(_turned),
    "sarx": _without_flags(lambda sources, bits: _signed(sources[0], bits) >> sources[1] % bits),
    "shlx": _without_flags(lambda sources, bits: sources[0] << sources[1] % bits),
    "shrx": _without_flags(lambda sources, bits: sources[0] >> sources[1] % bits),
    "tzcnt": lambda sources, bits: _zeros(sources, bits, leading=False),
    "lzcnt": lambda sources, bits: _zeros(sources, bits, leading=True),
    "movbe": lambda sources, bits: Computed((int.from_bytes(sources[0].to_bytes(bits // 8, "little"), "big"),)),
}
"""By name; ``mulx``, ``crc32`` and what reads a flag are not among them."""
