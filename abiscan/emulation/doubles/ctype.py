"""Classes and cases of characters in the C locale: what ``<ctype.h>`` and ``std::ctype<char>`` look up in tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_EOF: Final = -1
# Each with its bit in the tables of glibc (ctype.h, for little-endian machines).
_CLASSES: Final[dict[str, tuple[int, Callable[[bytes], bool]]]] = {
    "isupper": (0x100, bytes.isupper),
    "islower": (0x200, bytes.islower),
    "isalpha": (0x400, bytes.isalpha),
    "isdigit": (0x800, bytes.isdigit),
    "isxdigit": (0x1000, lambda character: character in b"0123456789abcdefABCDEF"),
    "isspace": (0x2000, bytes.isspace),
    "isprint": (0x4000, lambda character: b" " <= character <= b"~"),
    "isgraph": (0x8000, lambda character: b"!" <= character <= b"~"),
    "isblank": (0x1, lambda character: character in b" \t"),
    "iscntrl": (0x2, lambda character: character < b" " or character == b"\x7f"),
    "ispunct": (0x4, lambda character: b"!" <= character <= b"~" and not character.isalnum()),
    "isalnum": (0x8, bytes.isalnum),
}
FUNCTIONS: Final = tuple(_CLASSES)
"""The functions of ``<ctype.h>`` that test whether a character belongs to a class."""


def is_of(function: str, code: int) -> bool:
    """Return the result of one of the ``FUNCTIONS`` for a character; false for a number that is not one."""
    return 0 <= code < 128 and _CLASSES[function][1](bytes((code,)))


def classes(code: int) -> int:
    """Return the bits of all classes that a character belongs to."""
    return sum(bit for function, (bit, _) in _CLASSES.items() if is_of(function, code))


def upper(code: int) -> int:
    """Return the upper case of a character, itself if it has none; a negative ``char`` gives the character it stands
    for.
    """
    return bytes((code,)).upper()[0] if 0 <= code < 128 else _unsigned(code)


def lower(code: int) -> int:
    """Return the lower case of a character, in the same way."""
    return bytes((code,)).lower()[0] if 0 <= code < 128 else _unsigned(code)


def _unsigned(code: int) -> int:
    return code & 0xFF if -128 <= code < _EOF else code
