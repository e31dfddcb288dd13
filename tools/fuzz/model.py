"""What a fuzzer makes: a case, which is one run of a command on hostile input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SAMPLES: Final = ROOT / "sample_binaries"
TORCH: Final = ("--torch", "2.13.0")

# Numbers at which a check may be missing or off by one.
EDGES: Final = (
    *(0, 1, 2, 3, 4, 7, 8, 15, 16, 0x7F, 0x80, 0xFF, 0x100, 0xFFF, 0x1000, 0x7FFF, 0x8000, 0xFFFF, 0x10000),
    *(0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x1_0000_0000, 0x7FFF_FFFF_FFFF_FFFF, 0x8000_0000_0000_0000),
    *(0xFFFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFF8, 0xFFFF_FFFF_FFFF_F000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: of a command with these words, or of a function that may raise ``AbiscanError`` and nothing else.

    ``may_write`` is for what changes its input, such as ``stamp``.
    """

    words: Sequence[str] = ()
    call: Callable[[], object] | None = None
    may_write: bool = False


Maker: TypeAlias = Callable[[Random, Path], Case]
"""Writes an input into an empty folder, and says what to do with it."""


def damaged(data: bytes, random: Random, most: int = 8) -> bytes:
    """Bytes with a few changes that know nothing of the format."""
    out = bytearray(data)
    for _ in range(random.randint(1, most)):
        at, size = random.randrange(len(out) + 1), random.choice((1, 1, 2, 4, 8, 64))
        change = random.randrange(6)
        if change == 0:
            out[at : at + size] = random.randbytes(size)
        elif change == 1:
            out[at : at + size] = (random.choice(EDGES) & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")[:size]
        elif change == 2:
            out[at:at] = out[at : at + size] * random.choice((1, 1, 2, 50))
        elif change == 3:
            del out[at : at + size]
        elif change == 4:
            start = random.randrange(len(out) + 1)
            out[at : at + size] = out[start : start + size]
        elif at and random.random() < 0.2:
            del out[at:]
    return bytes(out)
