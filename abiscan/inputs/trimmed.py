"""Large deflated libraries without their code for GPUs, which neither the loader nor torch looks at.

It is most of a library, and lies between the code and the data: linkers put sections that they do not know after the
other ones that are only read. So the beginning is inflated up to it, and the end from behind it. Where it is, the
section headers say, at the very end of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from abiscan.binary.deflate import known_end
from abiscan.binary.loadable import MAGIC
from abiscan.binary.section_headers import HEADER, SECTION, STRINGS, read_headers

WORTHWHILE: Final = 1 << 20
"""The size of a deflated library from which on this takes less than reading all of it."""

_END: Final = 160 << 10
_LARGEST_BEGINNING: Final = 256 << 20


class Trimmed(Struct, frozen=True, kw_only=True):
    """The bytes of a file before and after a part that was not read."""

    beginning: bytes
    end: bytes


def trim_library(size: int, packed: int, head: Callable[[int], bytes], tail: Callable[[int], bytes]) -> Trimmed | None:
    """Return a library without its code for GPUs; None if it has none, or if little would be saved.

    :param size: of the library
    :param packed: the size of its deflated bytes
    :param head: returns the first bytes of the library
    :param tail: returns the last ones of its deflated bytes
    """
    header = head(HEADER.size)
    if not header.startswith(MAGIC + b"\2\1") or len(header) < HEADER.size:
        return None
    table, entry_size, count, names = HEADER.unpack(header)
    if entry_size != SECTION.size or not 0 < table < size or table + count * entry_size > size:
        return None
    # How many inflated bytes the deflated tail yields is known only afterwards. So the tail is read, and if that is not
    # enough, a longer one: first for the section headers, then for their names, then for all behind the code.
    asked, requested = _END, size - table
    while asked < packed // 2:
        end = known_end(tail(asked))
        if len(end) >= size - table:
            sections = read_headers(end, table - (size - len(end)), count)
            if names >= count or sections[names].kind != STRINGS or sections[names].offset >= size:
                return None
            requested = size - sections[names].offset
            if len(end) >= requested:
                code = next(
                    (section for section in sections if section.holds_gpu_code(end[len(end) - requested :])), None
                )
                # The headers may say anything: the code must lie inside the file and before the table.
                if code is None or not 0 < code.offset < code.stop <= table or code.offset > _LARGEST_BEGINNING:
                    return None
                requested = size - code.stop
                if len(end) >= requested:
                    return Trimmed(beginning=head(code.offset), end=end[len(end) - requested :])
        # Estimated from the ratio so far, with half as much again, and between two and eight times as much: sections
        # differ in how well they compress.
        asked = max(asked * 2, min(asked * 8, asked * requested * 3 // (2 * max(len(end), 1))))
    return None
