"""Vectors as lanes: what the instructions that are executed in Python have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

XMM_BYTES: Final = 16

Bytes = Sequence[bytes]
Operation: TypeAlias = Callable[[Bytes, int], bytes]
"""Computes a result from the source operands and the immediate."""


class UnsupportedError(Exception):
    """An instruction that this unit does not implement."""


def lanes_of(value: bytes, width: int) -> list[int]:
    """Return the lanes of a vector, as numbers without a sign."""
    return [int.from_bytes(value[at : at + width], "little") for at in range(0, len(value), width)]


def signed_lanes_of(value: bytes, width: int) -> list[int]:
    """Return the lanes of a vector, as numbers with a sign."""
    return [int.from_bytes(value[at : at + width], "little", signed=True) for at in range(0, len(value), width)]


def pack(numbers: Sequence[int], width: int) -> bytes:
    """Return the vector of which these are the lanes; what does not fit into one is dropped."""
    mask = (1 << 8 * width) - 1
    return b"".join((number & mask).to_bytes(width, "little") for number in numbers)


def lanewise(width: int, function: Callable[[int, int], int], *, signed: bool = False) -> Operation:
    """Return an operation on the lanes of two sources, each by itself."""
    split = signed_lanes_of if signed else lanes_of

    def apply(sources: Bytes, _: int) -> bytes:
        first, second = (split(source, width) for source in sources)
        return pack([function(a, b) for a, b in zip(first, second, strict=True)], width)

    return apply


def by_half(function: Operation) -> Operation:
    """Apply a shuffle to each half by itself, as most of 256 bits do."""

    def apply(sources: Bytes, immediate: int) -> bytes:
        return b"".join(
            function([source[at : at + XMM_BYTES] for source in sources], immediate)
            for at in range(0, len(sources[0]), XMM_BYTES)
        )

    return apply


def biased(value: int, width: int) -> int:
    """Return a lane as an unsigned number in whose order are the signed ones."""
    return value ^ 1 << (8 * width - 1)
