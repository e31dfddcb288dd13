"""Where the parts of the C++ library's streams lie (libstdc++'s ``<istream>``, ``<sstream>``, ``<fstream>``).

An input part is a virtual pointer and a count, an output part a virtual pointer; the buffer follows, and the virtual
base ``std::basic_ios`` is the last.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from abiscan.regex import regex

_CLASS: Final = regex(r"St(7__cxx11)?1\d(basic_)([io]?)(string|f)streamIcSt11char_traitsIcE")
_STRING_BUFFER: Final = {True: 104, False: 80}  # sizeof(std::stringbuf), with the new strings and with the old ones
_FILE_BUFFER: Final = 240
# Of std::ostream, std::istream and std::iostream, which have no buffer in them.
_PARTS: Final = {"So": ((8, 0), (-8, -8)), "Si": ((16, 0), (-16, -16)), "Sd": ((24, 0), (8, -16), (-24, -24))}


class StreamLayout(NamedTuple):
    """Where the parts of a stream are: the output part (None without one), the buffer, and ``std::basic_ios``."""

    output: int | None
    buffer: int
    ios: int


def layout_of(name: str) -> StreamLayout | None:
    """Return the layout of the class of streams in a mangled name, None if there is none."""
    match = _CLASS.search(name)
    if match is None:
        return None
    size = _FILE_BUFFER if match[4] == "f" else _STRING_BUFFER[match[1] is not None]
    if match[3] == "i":
        return StreamLayout(None, 16, 16 + size)
    if match[3] == "o":
        return StreamLayout(0, 8, 8 + size)
    return StreamLayout(16, 24, 24 + size)


def stream_layout(name: str) -> tuple[tuple[int, int], ...]:
    """Return what begins the parts of a stream's virtual table: where ``std::basic_ios`` is, where the whole object
    is.
    """
    if name[4:] in _PARTS:
        return _PARTS[name[4:]]
    layout = layout_of(name)
    if layout is None:
        return ()
    parts = dict.fromkeys((0, layout.output or 0))
    return (*((layout.ios - part, -part) for part in parts), (-layout.ios, -layout.ios))
