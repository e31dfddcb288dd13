"""Torch's internal assertions that a registration can violate, and where each is in torch's source.

``TORCH_INTERNAL_ASSERT`` (``c10/util/Exception.h``) makes one string constant of the condition, the file and the line:
``dispatch_key.has_value() INTERNAL ASSERT FAILED at "/pytorch/aten/src/ATen/core/library.cpp":293, please report …``.
1.9 omits the space before it.
"""

from __future__ import annotations

import re
from collections import defaultdict
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
    # The macro pastes string literals together, so the library has condition, file and line as one string. What all of
    # them have is searched for once.
    ids = {f"\0{condition}{space}".encode(): id_ for id_, (condition, _) in _ASSERTIONS.items() for space in (" ", "")}
    longest, places = max(map(len, ids)), defaultdict[str, list[tuple[int, str]]](list)
    for position in library.find_in_data(_FAILED.encode()):
        before = bytes(library.data[max(position - longest, 0) : position])
        for head, id_ in ids.items():
            if before.endswith(head) and (place := _place_at(library, position + len(_FAILED), _ASSERTIONS[id_][1])):
                places[id_].append(place)
    return {id_: min(places[id_])[1] for id_ in _ASSERTIONS if id_ in places}


def _place_at(library: ElfFile, start: int, file: str) -> tuple[int, str] | None:
    """Return the line of an assertion, and its place as torch prints it; None if it is in another file."""
    place = re.compile(rb'"[^"\0\n]*/%s":([0-9]+)(?=, )' % re.escape(file.encode()))
    match = place.match(library.data[start : start + _LONGEST_PLACE])
    return (int(match[1]), match[0].decode("utf-8", "backslashreplace")) if match else None
