"""The names that a compiled library can give to what it makes for Python: the texts in it."""

from __future__ import annotations

from typing import Final

from abiscan.binary.elf import ElfFile
from abiscan.regex import regex

# A linker lets one text begin inside of another if both end alike: what precedes does not matter.
_TEXT: Final = regex(rb"[A-Za-z_][A-Za-z0-9_]{1,79}(?=\0)")
_MANGLED: Final = regex(r"_Z|N[KVRO]*\d+\w+E$|[A-Z][A-Za-z]?\d+\w+E$")
COMPUTED: Final = regex(r"\w*(Tensor|Storage)(Base)?|u?int\d|bits\d\w*|q?u?int\dx\d")
"""The names that compiled code puts together, or that are too short to be a text: of types of tensors and elements."""


def texts_in(library: ElfFile) -> frozenset[str]:
    """Return the identifiers among the texts in a library, without the names of C++."""
    texts = {match[0].decode("ascii") for match in library.search_data(_TEXT)}
    return frozenset(text for text in texts if not _MANGLED.match(text))
