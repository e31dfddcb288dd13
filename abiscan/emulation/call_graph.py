"""Which functions of an object lead to which others, as far as its code itself says so; nothing is executed.

A function leads to another if it calls it, jumps to it, or takes its address: directly, through the object's own
procedure linkage table and global offset table, or by the address of a table of pointers to functions, such as a
vtable. The bounds of functions come from ``.eh_frame_hdr``, which stripping leaves alone.
"""

from __future__ import annotations

import bisect
import re
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation.arch import ARCHITECTURES
from abiscan.emulation.call_sites import function_starts, page_of
from abiscan.emulation.loader import Image
from abiscan.errors import NotElfError

_PF_X: Final = 1
_LONGEST_FUNCTION: Final = 1 << 20
_LONGEST_TABLE: Final = 256
_MOST_FUNCTIONS: Final = 1 << 20
_VTABLE_HEADER: Final = 16  # the offset to the top, the type information (Itanium C++ ABI, 2.5.2)
_WORD: Final = 8

# What precedes a displacement. Instructions are not decoded: few random ones lead to the start of a function.
_RIP: Final = rb"[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]"
_RELATIVE: Final = re.compile(
    rb"(?:(?P<code>\xe8|\xe9|\x0f[\x80-\x8f])"  # call, jmp, jcc
    rb"|(?P<word>\xff[\x15\x25\x35]|[\x48\x4c]\x8b" + _RIP + rb")"  # call, jmp, push, mov
    rb"|(?P<words>(?:\x0f|\xc5.)[\x10\x12\x16\x28\x6e\x6f\x7e]" + _RIP + rb")"  # movq, movhps, movdqa, …
    rb"|(?P<address>[\x48\x4c]\x8d" + _RIP + rb"))(?=....)",  # lea
    re.DOTALL,
)
_STUB: Final = re.compile(rb"\xff\x25(....)", re.DOTALL)  # jmp [rip + displacement]
_STUB_SIZE: Final = 16
_BEFORE_STUB: Final = (0, 1, 4, 5)  # endbr64 and a bnd prefix
_DISPLACEMENT: Final = struct.Struct("<i")
# adrp x16, page; ldr x17, [x16, #offset]
_STUB_AARCH64: Final = re.compile(
    rb"[\x10\x30\x50\x70\x90\xb0\xd0\xf0]..[\x90\xb0\xd0\xf0]\x11.[\x40-\x7f]\xf9", re.DOTALL
)
_BEFORE_STUB_AARCH64: Final = (0, 4)  # bti


class CallGraph:
    """The functions of one object.

    :raises NotElfError: a table of the object is damaged
    """

    def __init__(self, file: ElfFile, machine: Machine) -> None:
        self._image = Image(file, ARCHITECTURES[machine], lambda _: 0, lambda _: 0, lambda address: address)
        self._starts = function_starts(self._image)
        self._known = frozenset(self._starts)
        self._machine = machine
        self._code = [segment for segment in file.segments if segment.flags & _PF_X]
        self._pointers = self._image.own_pointers()
        self._stubs = self._stubs_x86_64() if machine is Machine.X86_64 else self._stubs_aarch64()
        self._linkage = self._linkage_tables()
        self._next: dict[int, frozenset[int]] = {}

    def reached(self, roots: Iterable[int], wanted: Collection[int]) -> frozenset[int]:
        """Those of the wanted functions that some functions lead to; a wanted one is not followed further.

        :param roots: where the functions start, in the file's own space
        """
        seen, found, waiting = set[int](), set[int](), list(roots)
        while waiting and len(seen) < _MOST_FUNCTIONS:
            function = waiting.pop()
            if function in seen:
                continue
            seen.add(function)
            if function in wanted:
                found.add(function)
            else:
                waiting += self._led_to(function) - seen
        return frozenset(found)

    def _led_to(self, start: int) -> frozenset[int]:
        if start not in self._next:
            code = self._code_of(start)
            links = self._links_x86_64(code, start) if self._machine is Machine.X86_64 else _links_aarch64(code, start)
            self._next[start] = frozenset(target for link in links for target in self._targets(*link))
        return self._next[start]

    def _targets(self, kind: str, address: int) -> Iterator[int]:
        """The functions behind an address that is jumped to, that of one word or several, or one that is handed on."""
        if kind == "word":
            target = self._pointers.get(address)
            if target in self._known:
                yield target
            elif target is not None:
                yield from self._table(target + _VTABLE_HEADER)
        elif kind == "words":
            yield from self._table(address)
        elif address in self._known:
            yield address
        elif address in self._stubs:
            yield self._stubs[address]
        elif kind == "address":
            yield from self._table(address)

    def _table(self, address: int) -> Iterator[int]:
        """The functions in a table of pointers, up to the first word that is no function."""
        for at in range(address, address + _LONGEST_TABLE * _WORD, _WORD):
            target = self._pointers.get(at)
            if target is None or target not in self._known:
                return
            yield target

    def _code_of(self, start: int) -> bytes:
        segment = next((s for s in self._code if 0 <= start - s.address < s.file_size), None)
        if segment is None or start not in self._known or start in self._linkage:
            return b""
        end = min(self._end_of(start), start + _LONGEST_FUNCTION, segment.address + segment.file_size)
        offset = segment.offset - segment.address
        return bytes(self._image.file.data[start + offset : end + offset])

    def _end_of(self, start: int) -> int:
        after = bisect.bisect_right(self._starts, start)
        return self._starts[after] if after < len(self._starts) else self._image.size

    def _linkage_tables(self) -> frozenset[int]:
        """The procedure linkage tables, each of which looks like one function that jumps to all others."""
        positions = (bisect.bisect_right(self._starts, stub) - 1 for stub in self._stubs)
        counts = Counter(self._starts[position] for position in positions if position >= 0)
        return frozenset(
            start for start, count in counts.items() if count * _STUB_SIZE >= (self._end_of(start) - start) // 2
        )

    def _links_x86_64(self, code: bytes, start: int) -> Iterator[tuple[str, int]]:
        unpack = _DISPLACEMENT.unpack_from
        for match in _RELATIVE.finditer(code):
            at = match.end()
            yield match.lastgroup or "", start + at + 4 + unpack(code, at)[0]

    def _stubs_x86_64(self) -> dict[int, int]:
        stubs = {}
        for segment in self._code:
            data = self._image.file.data[segment.offset : segment.offset + segment.file_size]
            for match in _STUB.finditer(data):
                end = segment.address + match.end()
                target = self._pointers.get(end + _DISPLACEMENT.unpack(match[1])[0])
                if target in self._known:
                    stubs.update({segment.address + match.start() - before: target for before in _BEFORE_STUB})
        return stubs

    def _stubs_aarch64(self) -> dict[int, int]:
        stubs = {}
        for segment in self._code:
            data = self._image.file.data[segment.offset : segment.offset + segment.file_size & ~3]
            for match in _STUB_AARCH64.finditer(data):
                here = segment.address + match.start()
                if match.start() & 3:
                    continue
                page, load = struct.unpack_from("<II", data, match.start())
                target = self._pointers.get(page_of(page, here) + (load >> 10 & 0xFFF) * 8)
                if target in self._known:
                    stubs.update({here - before: target for before in _BEFORE_STUB_AARCH64})
        return stubs


def _links_aarch64(code: bytes, start: int) -> Iterator[tuple[str, int]]:
    """What ``b`` and ``bl`` lead to, and what ``adr``, or ``adrp`` with ``add`` or ``ldr``, makes of an address."""
    pages: dict[int, int] = {}
    words = memoryview(code)[: len(code) & ~3].cast("I").tolist()
    for here, word in zip(range(start, start + 4 * len(words), 4), words, strict=True):
        if word & 0x7C000000 == 0x14000000:
            yield "code", here + 4 * ((word & 0x3FFFFFF) - (word << 1 & 0x4000000))
        elif word & 0x9F000000 == 0x90000000:
            pages[word & 31] = page_of(word, here)
        elif word & 0x9F000000 == 0x10000000:  # adr
            offset = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            yield "address", here + offset - (offset >> 20 << 21)
        elif (page := pages.get(word >> 5 & 31)) is not None:
            if word & 0xFFC00000 == 0x91000000:  # add
                yield "address", page + (word >> 10 & 0xFFF)
            elif word & 0xFFC00000 == 0xF9400000:  # ldr
                yield "word", page + (word >> 10 & 0xFFF) * 8


def reached_functions(
    file: ElfFile, machine: Machine, roots: Iterable[Iterable[int]], wanted: Collection[int]
) -> list[frozenset[int]]:
    """For each group of functions, the wanted ones that it leads to; empty if the object is damaged.

    :param roots: where the functions of each group start, in the file's own space
    """
    groups = list(roots)
    try:
        graph = CallGraph(file, machine)
        return [graph.reached(group, wanted) for group in groups]
    except (NotElfError, struct.error, ValueError, IndexError, OverflowError):
        return [frozenset()] * len(groups)
