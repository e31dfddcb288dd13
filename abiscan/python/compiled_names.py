"""The names that a compiled library can give to what it makes for Python: the texts in it."""

from __future__ import annotations

import re
from typing import Final

from abiscan.binary.elf import ElfFile

# A linker lets one text begin inside of another if both end alike: what precedes does not matter.
_TEXT: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{1,79}(?=\0)")
_MANGLED: Final = re.compile(r"_Z|N[KVRO]*\d+\w+E$|[A-Z][A-Za-z]?\d+\w+E$")
COMPUTED: Final = re.compile(r"\w*(Tensor|Storage)(Base)?|u?int\d|bits\d\w*|q?u?int\dx\d")
"""The names that compiled code puts together, or that are too short to be a text: of types of tensors and elements."""


def texts_in(library: ElfFile) -> frozenset[str]:
    """Return the identifiers among the texts in a library, without the names of C++."""
    texts = {match[0].decode("ascii") for match in library.search_data(_TEXT)}
    return frozenset(text for text in texts if not _MANGLED.match(text))
