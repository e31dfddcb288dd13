"""Torch's internal assertions that a registration can violate, and where each is in torch's source.

``TORCH_INTERNAL_ASSERT`` (``c10/util/Exception.h``) makes one string constant of the condition, the file and the line:
``dispatch_key.has_value() INTERNAL ASSERT FAILED at "/pytorch/aten/src/ATen/core/library.cpp":293, please report …``.
1.9 omits the space before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from abiscan.binary.elf import ElfFile

LIBRARY: Final = "libtorch_cpu.so"
"""The library that has them."""

# The condition and the source file, by the id of the message.
_ASSERTIONS: Final = {
    "L2": ("!dispatch_key_.has_value()", "library.cpp"),
    "L9": ("dispatch_key.has_value()", "library.cpp"),
    "K1": ("*cpp_signature == *cpp_signature_", "OperatorEntry.cpp"),
}
_FAILED: Final = "INTERNAL ASSERT FAILED at "
UNPLACED: Final = f"{_FAILED}?"
"""How the text of an assertion begins whose place is unknown: see ``messages``."""

_LONGEST_PLACE: Final = 4096


def find_places(library: ElfFile) -> dict[str, str]:
    """Find where the assertions are, by message id, as torch prints it.

    A place is ``"/pytorch/aten/src/ATen/core/library.cpp":293``. An assertion that the library does not have is left
    out. If a file has the same assertion twice, the first one fails first: that of the block, which precedes that of a
    definition in it.
    """
    lines_by_id = {id_: sorted(_find_lines(library, *assertion)) for id_, assertion in _ASSERTIONS.items()}
    return {id_: lines[0][1] for id_, lines in lines_by_id.items() if lines}


def _find_lines(library: ElfFile, condition: str, file: str) -> Iterator[tuple[int, str]]:
    """Yield each line that has an assertion, with its place as torch prints it."""
    place = re.compile(rb'"[^"\0\n]*/%s":([0-9]+)(?=, )' % re.escape(file.encode()))
    # The macro pastes string literals together, so the library has condition, file and line as one string.
    for separator in (" ", ""):
        text = f"\0{condition}{separator}{_FAILED}".encode()
        for position in library.find_in_data(text):
            start = position + len(text)
            match = place.match(library.data[start : start + _LONGEST_PLACE])
            if match:
                yield int(match[1]), match[0].decode("utf-8", "backslashreplace")
