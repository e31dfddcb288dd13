"""Which features of a processor an instruction needs, beyond what every processor of its architecture has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from abiscan.binary.elf import Machine

_TABLE: Final = Path(__file__).with_name("x86_64.txt")
_LEGACY_PREFIXES: Final = b"\x66\xf2\xf3\xf0\x2e\x36\x3e\x26\x64\x65\x67"
_LOCK_AND_SEGMENTS: Final = b"\xf0\x2e\x36\x3e\x26\x64\x65\x67"
_PREFIX_NAMES: Final = {None: "np", 0x66: "66", 0xF3: "f3", 0xF2: "f2"}
_VEX_PREFIXES: Final = ("np", "66", "f3", "f2")
_FULL: Final = 2  # EVEX.L'L of 512 bits
_AARCH64_BYTES: Final = 4

# Instructions of aarch64 by the bits that identify them (Arm ARM, C4.1): the first that matches counts. Half-precision
# numbers are converted without FEAT_FP16.
_AARCH64: Final = (
    (0x3FFF_FC00, 0x38BF_C000, "rcpc"),
    (0x3F20_0C00, 0x3820_0000, "lse"),
    (0x3FA0_7C00, 0x08A0_7C00, "lse"),
    (0xBFA0_7C00, 0x0820_7C00, "lse"),
    (0x9FE0_FC00, 0x0E80_9400, "dotprod"),
    (0x9FC0_F400, 0x0F80_E000, "dotprod"),
    (0x9FE0_F400, 0x0E80_A400, "i8mm"),
    (0xBFE0_FC00, 0x0E80_9C00, "i8mm"),
    (0xBF40_F400, 0x0F00_F000, "i8mm"),
    (0xBFE0_FC00, 0x2E40_FC00, "bf16"),
    (0xBFE0_FC00, 0x2EC0_FC00, "bf16"),
    (0xFFE0_FC00, 0x6E40_EC00, "bf16"),
    (0xBFFF_FC00, 0x0EA1_6800, "bf16"),
    (0xFFFF_FC00, 0x1E63_4000, "bf16"),
    (0xBF40_F400, 0x0F40_F000, "bf16"),
    (0xFFFF_7C00, 0x1EE2_4000, ""),
    (0xFFE0_0000, 0x1EE0_0000, "fp16"),
    (0x1E00_0000, 0x0400_0000, "sve"),
    (0x7FE0_F000, 0x1AC0_4000, "crc"),
)
AARCH64_TOPS: Final = frozenset(
    top for top in range(256) for mask, bits, feature in _AARCH64 if feature and top & mask >> 24 == bits >> 24
)
"""What the last byte of an instruction of aarch64 may be that needs a feature."""


class _Parts(NamedTuple):
    """What decides which feature an instruction needs.

    :ivar length: that of vectors, 0 for 128 bits
    """

    encoding: str
    map: int
    prefix: str
    opcode: int
    length: int
    modrm: int
    wide: bool = False
    rounds: bool = False  # EVEX.b


class _Line(NamedTuple):
    """A line of the table of instructions.

    :ivar prefix: the prefix that it needs; ``*`` for any
    :ivar opcodes: the opcodes that it is for
    :ivar conditions: the names of further conditions, in ``_CONDITIONS``
    :ivar is_scalar: whether the vector length does not count
    :ivar features: the features that such an instruction needs
    """

    prefix: str
    opcodes: range
    conditions: tuple[str, ...]
    is_scalar: bool
    features: tuple[str, ...]

    def matches(self, parts: _Parts) -> bool:
        return (
            parts.opcode in self.opcodes
            and self.prefix in ("*", parts.prefix)
            and all(_CONDITIONS[condition](parts) for condition in self.conditions)
        )


_CONDITIONS: Final[dict[str, Callable[[_Parts], bool]]] = {
    "w0": lambda parts: not parts.wide,
    "w1": lambda parts: parts.wide,
    "l0": lambda parts: parts.length == 0,
    "l1": lambda parts: parts.length == 1,
    "mem": lambda parts: parts.modrm < 0xC0,
    "reg": lambda parts: parts.modrm >= 0xC0,
    "/1": lambda parts: parts.modrm >> 3 & 7 == 1,
    "/2": lambda parts: parts.modrm >> 3 & 7 == 2,
    "/3": lambda parts: parts.modrm >> 3 & 7 == 3,
    "/6": lambda parts: parts.modrm >> 3 & 7 == 6,
    "/7": lambda parts: parts.modrm >> 3 & 7 == 7,
}


def features_of(machine: Machine, code: bytes) -> tuple[str, ...]:
    """Return the features that the first instruction of ``code`` needs; none for what every processor has."""
    if machine is Machine.AARCH64:
        word = int.from_bytes(code[:_AARCH64_BYTES], "little")
        feature = next((feature for mask, bits, feature in _AARCH64 if word & mask == bits), "")
        return (feature,) if feature else ()
    try:
        parts = _find_parts(code)
    except IndexError:  # an instruction that goes on where nothing is mapped is not executed
        return ()
    return () if parts is None else _x86_64(parts)


def _find_parts(code: bytes) -> _Parts | None:
    """Split an instruction (SDM 2A, 2.1 to 2.7); None for one of the maps in which everything is baseline."""
    # Of several prefixes the last one of its group counts; 66 is only mandatory without F2 and F3 (SDM 2A, 2.1).
    at, prefix = 0, None
    while code[at] in _LEGACY_PREFIXES:
        if code[at] not in _LOCK_AND_SEGMENTS:
            prefix = code[at] if code[at] != 0x66 or prefix is None else prefix  # F2 and F3 go before 66
        at += 1
    first = code[at]
    # The short VEX form has map 1 and no W; its second byte has the length and the mandatory prefix (SDM 2A, 2.3.5).
    if first == 0xC5:
        second = code[at + 1]
        return _Parts("vex", 1, _VEX_PREFIXES[second & 3], code[at + 2], second >> 2 & 1, code[at + 3])
    # 8F is POP as long as the map is below 8: those of XOP begin there (AMD64 APM, volume 3).
    if first == 0xC4 or (first == 0x8F and code[at + 1] & 0x1F > 7):
        second, third = code[at + 1], code[at + 2]
        encoding = "vex" if first == 0xC4 else "xop"
        return _Parts(
            encoding, second & 31, _VEX_PREFIXES[third & 3], code[at + 3], third >> 2 & 1, code[at + 4], third >= 0x80
        )
    if first == 0x62:
        second, third, fourth, opcode, modrm = code[at + 1 : at + 6]
        # EVEX.b on registers means rounding, and then the length bits choose how: the operation has 512 bits (SDM 2A,
        # 2.7).
        length, rounds = fourth >> 5 & 3, bool(fourth & 0x10)
        return _Parts("evex", second & 7, _VEX_PREFIXES[third & 3], opcode, length, modrm, third >= 0x80, rounds)
    is_wide = False
    if first & 0xF0 == 0x40:
        is_wide = bool(first & 8)
        at += 1
    if code[at] != 0x0F:
        return None
    number = {0x38: 2, 0x3A: 3}.get(code[at + 1], 1)
    at += 1 + (number > 1)
    return _Parts("legacy", number, _PREFIX_NAMES[prefix], code[at], 0, code[at + 1], is_wide)


@functools.lru_cache(maxsize=4096)
def _x86_64(parts: _Parts) -> tuple[str, ...]:
    line = next((line for line in _table().get((parts.encoding, parts.map), ()) if line.matches(parts)), None)
    if line is None:
        return ()
    if parts.encoding != "evex":
        return line.features
    # Shorter vectors with EVEX need AVX512VL besides; scalars ignore the length.
    is_full = parts.length >= _FULL or (parts.rounds and parts.modrm >= 0xC0)
    also = () if line.is_scalar or is_full else ("avx512vl",)
    return tuple(dict.fromkeys(("avx512f", *line.features, *also)))


@functools.cache
def _table() -> dict[tuple[str, int], list[_Line]]:
    table: dict[tuple[str, int], list[_Line]] = {}
    for text in _TABLE.read_text("utf-8").splitlines():
        if not text or text.startswith("#"):
            continue
        encoding, number, prefix, opcodes, *remainder = text.split()
        first, _, last = opcodes.partition("-")
        line = _Line(
            prefix=prefix,
            opcodes=range(int(first, 16), int(last or first, 16) + 1),
            conditions=tuple(word for word in remainder if word in _CONDITIONS),
            is_scalar="scalar" in remainder,
            features=tuple(word for word in remainder if word not in _CONDITIONS and word != "scalar"),
        )
        table.setdefault((encoding, int(number)), []).append(line)
    return table
