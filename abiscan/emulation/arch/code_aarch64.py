"""What the words of AArch64 code lead to, without executing them: calls, jumps through slots, addresses.

A call is ``bl`` or ``b`` to a stub of the procedure linkage table, which jumps through a slot of the global offset
table.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from abiscan.emulation.arch.values import Swept
from abiscan.regex import regex

STUB_ENTRIES: tuple[int, ...] = (0, 4)  # bti

_PAGE_SIZE: Final = 0x1000
# adrp x16, page; ldr x17, [x16, #offset]
_STUB: Final = regex(
    rb"[\x10\x30\x50\x70\x90\xb0\xd0\xf0](?=..[\x90\xb0\xd0\xf0]\x11[%b][\x40-\x7f]\xf9)"
    % b"".join(b"\\x%02x" % byte for byte in range(2, 256, 4)),
    re.DOTALL,
)
_BRANCHES_MASK, _BRANCHES = 0x1C00_0000, 0x1400_0000  # with system instructions among them (Arm ARM, C4.1.92)


def jumps_through_slots(content: memoryview, address: int) -> Iterator[tuple[int, int]]:
    """Yield the jumps through words in code that lies at ``address``, each with the address of its word."""
    for match in _STUB.finditer(content):
        if match.start() & 3:
            continue
        here = address + match.start()
        page, load = struct.unpack_from("<II", content, match.start())
        yield here, page_of(page, here) + (load >> 10 & 0xFFF) * 8


def calls_through_slots(content: memoryview, address: int) -> Iterator[tuple[int, int]]:  # noqa: ARG001 - see Code
    """Return none: the address comes from a register."""
    return iter(())


def calls(content: memoryview, address: int, targets: Collection[int]) -> Iterator[tuple[int, int, bool]]:
    """Yield the ``b`` and ``bl`` to some addresses: see ``call_at``."""
    for index, word in enumerate(_instruction_words(content)):
        if word & 0x7C00_0000 == 0x1400_0000:
            result = call_at(content, 4 * index, address)
            if result[1] in targets:
                yield result


def call_at(code: bytes | memoryview, place: int, address: int) -> tuple[int, int, bool]:
    """Return a ``b`` or ``bl``: where it returns to, where it leads, whether it is a ``b``, which is told where it
    lies.
    """
    (word,), here = struct.unpack_from("<I", code, place), address + place
    is_jump = not word >> 31
    return here if is_jump else here + 4, branched_to(word, here), is_jump


def links(code: bytes, start: int) -> Iterator[tuple[str, AbstractSet[int]]]:
    """Yield what ``b`` and ``bl`` lead to, and what ``adr``, or ``adrp`` with ``add`` or ``ldr``, makes of an
    address.
    """
    targets, addresses, loaded = set[int](), set[int](), set[int]()
    pages: dict[int, int] = {}  # by the register that holds each
    words = _instruction_words(memoryview(code))
    for here, word in zip(range(start, start + 4 * len(words), 4), words, strict=True):
        if word & 0x7C000000 == 0x14000000:
            targets.add(branched_to(word, here))
        elif word & 0x9F000000 == 0x90000000:
            pages[word & 31] = page_of(word, here)
        elif word & 0x9F000000 == 0x10000000:  # adr
            addresses.add(address_of(word, here))
        elif (page := pages.get(word >> 5 & 31)) is not None:
            if word & 0xFFC00000 == 0x91000000:  # add
                addresses.add(page + (word >> 10 & 0xFFF))
            elif word & 0xFFC00000 == 0xF9400000:  # ldr
                loaded.add(page + (word >> 10 & 0xFFF) * 8)
    yield from (("code", targets), ("address", addresses), ("word", loaded))


def beginnings(near: int, end: int) -> range:  # noqa: ARG001 - see Code
    """Return where to begin to decode: all instructions have the same size."""
    return range(near, near + 1)


def instructions(code: bytes, address: int) -> list[tuple[int, bool]]:
    """Return the instructions that code consists of, and which are branches."""
    words = enumerate(_instruction_words(memoryview(code)))
    return [(address + 4 * index, word & _BRANCHES_MASK == _BRANCHES) for index, word in words]


def branched_to(branch: int, here: int) -> int:
    """Return where a ``b`` or ``bl`` at ``here`` leads."""
    return here + 4 * _signed(branch & 0x3FF_FFFF, 26)


def page_of(adrp: int, here: int) -> int:
    """Return the page that an ``adrp`` at ``here`` computes."""
    return (here & -_PAGE_SIZE) + _PAGE_SIZE * _distance(adrp)


def address_of(adr: int, here: int) -> int:
    """Return the address that an ``adr`` at ``here`` computes."""
    return here + _distance(adr)


def _instruction_words(content: memoryview) -> list[int]:
    return content[: len(content) & ~3].cast("I").tolist()


def _distance(word: int) -> int:
    """Return the immediate of ``adr`` and ``adrp`` (Arm ARM, C6.2.12): immhi 23:5, immlo 30:29."""
    return _signed((word >> 5 & 0x7_FFFF) << 2 | word >> 29 & 3, 21)


def _signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)


IS_SWEPT: Final = False


def sweep(code: bytes, address: int) -> Swept:  # noqa: ARG001 - nothing is read of it
    """Return that nothing was read."""
    return [], [], [], [], 0
