"""Finds instructions by their bytes, without a disassembler: importing one takes long."""

from __future__ import annotations

import re
from typing import Final

from abiscan.regex import regex

# VEX prefixes (C5 with one byte, C4 with two) before the opcodes that icicle accepts: those of its avx_manual.sinc and
# avx2_manual.sinc. What the prefix must hold for them tells most other bytes apart: map 1, 2 or 3; in the short form
# no second source, but for vmovss and vmovsd between registers (Intel SDM 2A, 2.3.5 and 2.3.6).
_WITH_SCALAR_PREFIX: Final = b"".join(b"\\x%02x" % byte for byte in range(256) if byte & 2)
_SUSPECT: Final = regex(
    rb"\xc5(?=[\x78-\x7f\xf8-\xff][\x10\x11\x28\x29\x6f\x77\x7f\xd7]"
    rb"|[%b]" % _WITH_SCALAR_PREFIX + rb"[\x10\x11][\xc0-\xff])"
    rb"|\xc4(?=[\x01-\x03\x21-\x23\x41-\x43\x61-\x63\x81-\x83\xa1-\xa3\xc1-\xc3\xe1-\xe3]."
    rb"[\x06\x10\x11\x18\x19\x28\x29\x38\x39\x46\x6f\x77\x7f\xd7])",
    re.DOTALL,
)

# What follows the prefixes of SSE3 and newer: SDM 2D, appendix A; ``is_extension`` in ``native/decode.c`` has the same.
_EXTENSION: Final = regex(rb"\x0f[\x01\x12\x16\x38\x3a\x7c\x7d\xb8\xc7\xd0\xf0]")
_MOST_PREFIXES: Final = 3


# The opcodes of the x87, behind a prefix or not: see ``x87``.
_FLOATS: Final = regex(rb"(?=[\xd8-\xdf]|[\x40-\x4f][\xd8-\xdf])", re.DOTALL)


def is_x87(code: bytes) -> bool:
    """Whether an instruction of the x87 begins here."""
    return _FLOATS.match(code) is not None


def suspects(code: bytes) -> list[int]:
    """Return the offsets in ``code`` at which an instruction may begin that ``vector`` or ``x87`` executes."""
    return sorted({match.start() for pattern in (_SUSPECT, _FLOATS) for match in pattern.finditer(code)})


def extensions(code: bytes) -> list[int]:
    """Return the offsets in ``code`` at which an instruction without VEX may begin that not every processor has."""
    results: list[int] = []
    for match in _EXTENSION.finditer(code):
        start = match.start()
        results += range(max(start - _MOST_PREFIXES, 0), start + 1)
    return results
