"""Which functions lead to which others, as far as the code of their objects itself says so; nothing is executed.

A function leads to another if it calls it, jumps to it, or takes its address: directly, through the procedure linkage
table and the global offset table of its object, or by the address of a table of pointers to functions, such as a
vtable. A function of another object is found by its name. The bounds of functions come from ``.eh_frame_hdr``, which
stripping leaves alone.
"""

from __future__ import annotations

import itertools
import re
import struct
import sys
from array import array
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Protocol, TypeVar

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation import native
from abiscan.emulation.arch import ARCHITECTURES
from abiscan.emulation.call_sites import Functions, address_of, branched_to, page_of
from abiscan.emulation.loader import Image
from abiscan.errors import NotElfError
from abiscan.regex import regex

_PF_X: Final = 1
_LONGEST_TABLE: Final = 256
_MOST_FUNCTIONS: Final = 1 << 20
_VTABLE_HEADER: Final = 16  # the offset to the top, the type information (Itanium C++ ABI, 2.5.2)
_WORD: Final = 8
_HIGHEST: Final = 1 << 62  # no sum of two addresses below is too large

# What precedes a displacement, and what is there. Instructions are not decoded: few random ones lead to the start of a
# function. Patterns begin with a plain byte: that makes the search twenty times faster.
_RIP: Final = rb"[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]"
_LOADS: Final = rb"[\x10\x12\x16\x28\x6e\x6f\x7e]" + _RIP  # movq, movhps, movdqa, …
_RELATIVE: Final = tuple(
    (kind, regex(rb"%b(?=....)" % opcode, re.DOTALL))
    for kind, opcode in (
        ("code", rb"\xe8"),  # call
        ("code", rb"\xe9"),  # jmp
        ("code", rb"\x0f[\x80-\x8f]"),  # jcc
        ("word", rb"\xff[\x15\x25\x35]"),  # call, jmp, push
        ("word", rb"\x48\x8b" + _RIP),  # mov
        ("word", rb"\x4c\x8b" + _RIP),
        ("address", rb"\x48\x8d" + _RIP),  # lea
        ("address", rb"\x4c\x8d" + _RIP),
        ("words", rb"\x0f" + _LOADS),
        ("words", rb"\xc5." + _LOADS),
    )
)
_SHORT_JUMP: Final = regex(rb"\xeb(.)", re.DOTALL)  # what assemblers make of a jump to a function nearby
_STUB: Final = regex(rb"\xff\x25(....)", re.DOTALL)  # jmp [rip + displacement]
_STUB_SIZE: Final = 16
_SMALLEST_STUB: Final = 8  # of .plt.got
_BEFORE_STUB: Final = (0, 1, 4, 5)  # endbr64 and a bnd prefix
_DISPLACEMENT: Final = struct.Struct("<i")
# adrp x16, page; ldr x17, [x16, #offset]
_STUB_AARCH64: Final = regex(rb"[\x10\x30\x50\x70\x90\xb0\xd0\xf0]..[\x90\xb0\xd0\xf0]\x11.[\x40-\x7f]\xf9", re.DOTALL)
_BEFORE_STUB_AARCH64: Final = (0, 4)  # bti


_Value = TypeVar("_Value")


class Leads(NamedTuple):
    """What a function leads to: functions of its own object, and those that it imports."""

    functions: frozenset[int]
    imports: frozenset[str]


class CalledFunctions:
    """What the functions of one object lead to.

    :param most_code: how many bytes of code are looked at
    :raises NotElfError: a table of the object is damaged
    """

    def __init__(self, image: Image, machine: Machine, most_code: int = sys.maxsize) -> None:
        self._image = image
        self._unread = most_code
        self._functions = Functions(image)
        self._known = frozenset(self._functions.starts)
        self._code = [segment for segment in image.file.segments if segment.flags & _PF_X]
        self._links = (
            _links_in_c(image, self._functions.starts) if machine is Machine.X86_64 else None
        ) or _LinksInPython(image, machine, self._known)
        is_x86_64 = machine is Machine.X86_64
        jumps = list(self._jumps_x86_64() if is_x86_64 else self._jumps_aarch64())
        befores = _BEFORE_STUB if is_x86_64 else _BEFORE_STUB_AARCH64
        self.stubs: Final = {jump - before: slot for (jump, slot), before in itertools.product(jumps, befores)}
        """Where calls of stubs lead, and the slot through which each jumps."""
        for stub, slot in self.stubs.items():
            if stub >= 0:
                self._links.add_stub(stub, slot)
        self._linkage = self._linkage_tables(jumps)
        self._next: dict[int, Leads] = {}
        for segment in self._code:
            image.file.let_go(segment.offset, segment.offset + segment.file_size)

    def defined(self, name: str) -> int | None:
        """Where the function of a name starts, None if the object does not define it."""
        symbol = self._image.find(name)
        return symbol.value if symbol is not None else None

    def led_to(self, start: int) -> Leads:
        """What the function at ``start`` leads to."""
        if start not in self._next:
            is_code = start in self._known and start not in self._linkage
            code = self._functions.code_of(start) if is_code else b""
            self._unread -= len(code)
            functions, symbols = self._links.of(code if self._unread >= 0 else b"", start)
            names = (self._image.symbol(number).name for number in symbols)
            self._next[start] = Leads(functions, frozenset(filter(None, names)))
        return self._next[start]

    def _has_slot(self, slot: int) -> bool:
        return 0 <= slot < _HIGHEST and self._links.has_slot(slot)

    def _linkage_tables(self, jumps: Iterable[tuple[int, int]]) -> frozenset[int]:
        """The procedure linkage tables, each of which looks like one function that jumps to all others.

        Its jumps lie whole stubs apart from each other. A function that ends in jumps through slots (``-fno-plt``) has
        one of them, or some at any distance.
        """
        within: dict[int, list[int]] = {}
        for jump, _ in jumps:
            if (start := self._functions.containing(jump)) is not None:
                within.setdefault(start, []).append(jump % _SMALLEST_STUB)
        return frozenset(
            start
            for start, places in within.items()
            if len(places) > 1
            and len(set(places)) == 1
            and 2 * len(places) * _STUB_SIZE >= self._functions.end_of(start) - start
        )

    def _jumps_x86_64(self) -> Iterator[tuple[int, int]]:
        """The jumps through slots, each with its slot: those of stubs, and others."""
        for segment in self._code:
            data = self._image.file.data[segment.offset : segment.offset + segment.file_size]
            for match in _STUB.finditer(data):
                slot = segment.address + match.end() + _DISPLACEMENT.unpack(match[1])[0]
                if self._has_slot(slot):
                    yield segment.address + match.start(), slot

    def _jumps_aarch64(self) -> Iterator[tuple[int, int]]:
        for segment in self._code:
            data = self._image.file.data[segment.offset : segment.offset + segment.file_size]
            for match in _STUB_AARCH64.finditer(data):
                here = segment.address + match.start()
                if match.start() & 3:
                    continue
                page, load = struct.unpack_from("<II", data, match.start())
                slot = page_of(page, here) + (load >> 10 & 0xFFF) * 8
                if self._has_slot(slot):
                    yield here, slot


class _Links(Protocol):
    """What the code of functions leads to: see ``_core.pyi`` for the one in C."""

    def has_slot(self, slot: int, /) -> bool:
        """Whether relocations say where a word leads to."""

    def add_stub(self, stub: int, slot: int, /) -> None:
        """Add code that jumps through a word."""

    def of(self, code: bytes, start: int, /) -> tuple[frozenset[int], frozenset[int]]:
        """What the code of a function leads to: functions, and numbers of imported symbols."""


def _links_in_c(image: Image, functions: Sequence[int]) -> _Links | None:
    """The native search; None without it, or if the object is not one for it."""
    if not native.is_available() or (functions and functions[-1] >= _HIGHEST):
        return None
    from abiscan.emulation.native._core import Links

    links = Links(array("Q", functions).tobytes())
    return links if image.add_links(links) else None


class _LinksInPython:
    def __init__(self, image: Image, machine: Machine, functions: AbstractSet[int]) -> None:
        self._known = functions
        self._find = _links_x86_64 if machine is Machine.X86_64 else _links_aarch64
        self._pointers = image.own_pointers()
        slots = image.import_slots()
        self._imports = slots.by_stub | slots.others
        self._own_stubs: dict[int, int] = {}
        self._foreign_stubs: dict[int, int] = {}

    def has_slot(self, slot: int) -> bool:
        return slot in self._pointers or slot in self._imports

    def add_stub(self, stub: int, slot: int) -> None:
        target, symbol = self._pointers.get(slot), self._imports.get(slot)
        if target is not None and target in self._known:
            self._own_stubs[stub] = target
        if symbol is not None:
            self._foreign_stubs[stub] = symbol

    def of(self, code: bytes, start: int) -> tuple[frozenset[int], frozenset[int]]:
        links = list(self._find(code, start))
        functions = (target for kind, addresses in links for target in self._targets(kind, addresses))
        symbols = (
            symbol
            for kind, addresses in links
            for symbol in _chosen(self._imports if kind == "word" else self._foreign_stubs, addresses)
        )
        # Where not all code is looked at, their order matters, and that of a set depends on what it is made of.
        return frozenset(sorted(functions)), frozenset(symbols)

    def _targets(self, kind: str, addresses: AbstractSet[int]) -> Iterator[int]:
        """The functions behind addresses that are jumped to, those of one word or several, or that are handed on."""
        if kind == "word":
            for target in _chosen(self._pointers, addresses):
                if target in self._known:
                    yield target
                else:
                    yield from self._table(target + _VTABLE_HEADER)
            return
        if kind != "words":
            yield from self._known & addresses
            yield from _chosen(self._own_stubs, addresses)
        if kind != "code":
            for address in addresses - self._known:
                yield from self._table(address)

    def _table(self, address: int) -> Iterator[int]:
        """The functions in a table of pointers, up to the first word that is no function."""
        for at in range(address, address + _LONGEST_TABLE * _WORD, _WORD):
            target = self._pointers.get(at)
            if target is None or target not in self._known:
                return
            yield target


def _chosen(values: Mapping[int, _Value], addresses: AbstractSet[int]) -> Iterator[_Value]:
    return (values[address] for address in values.keys() & addresses)


def _links_x86_64(code: bytes, start: int) -> Iterator[tuple[str, AbstractSet[int]]]:
    """What displacements in the code of a function lead to."""
    unpack, after = _DISPLACEMENT.unpack_from, start + _DISPLACEMENT.size
    for kind, pattern in _RELATIVE:
        ends = [match.end() for match in pattern.finditer(code)]
        yield kind, {after + at + unpack(code, at)[0] for at in ends}
    yield (
        "code",
        {start + match.end() + int.from_bytes(match[1], "little", signed=True) for match in _SHORT_JUMP.finditer(code)},
    )


def _links_aarch64(code: bytes, start: int) -> Iterator[tuple[str, AbstractSet[int]]]:
    """What ``b`` and ``bl`` lead to, and what ``adr``, or ``adrp`` with ``add`` or ``ldr``, makes of an address."""
    targets, addresses, loaded = set[int](), set[int](), set[int]()
    pages: dict[int, int] = {}  # by the register that holds each
    words = memoryview(code)[: len(code) & ~3].cast("I").tolist()
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


class CallGraph:
    """The functions of an object, and of the libraries that define what it imports, in the order of its search."""

    def __init__(self, objects: Sequence[CalledFunctions]) -> None:
        self._objects = objects
        self._defined: dict[str, tuple[int, int] | None] = {}

    def reached(self, roots: Iterable[int], stop_at: Container[tuple[int, int]] = ()) -> set[tuple[int, int]]:
        """The functions that some functions of the first object lead to, and these: which object, where it starts.

        :param roots: where the functions start, in the file's own space
        :param stop_at: functions that are not followed further
        """
        seen, waiting = set[tuple[int, int]](), deque((0, root) for root in roots)
        while waiting and len(seen) < _MOST_FUNCTIONS:
            place = waiting.popleft()  # the nearest ones first: it may be that not all code is looked at
            if place in seen:
                continue
            seen.add(place)
            if place not in stop_at:
                number, function = place
                functions, imports = self._objects[number].led_to(function)
                waiting += ((number, target) for target in functions)
                waiting += filter(None, map(self._definition, sorted(imports)))
        return seen

    def _definition(self, name: str) -> tuple[int, int] | None:
        if name not in self._defined:
            found = ((number, one.defined(name)) for number, one in enumerate(self._objects))
            self._defined[name] = next(((number, start) for number, start in found if start is not None), None)
        return self._defined[name]


def reached_functions(
    files: Sequence[ElfFile],
    machine: Machine,
    roots: Iterable[Iterable[int]],
    wanted: Container[tuple[int, int]],
) -> list[frozenset[tuple[int, int]]]:
    """For each group of functions, the wanted ones that it leads to; empty if an object is damaged.

    :param files: the object, and the libraries that define what it imports, in the order in which they are searched
    :param roots: where the functions of each group start, in the object's own space
    :param wanted: functions, each as the number of its object and where it starts
    """
    groups = list(roots)
    try:
        images = [Image(file, ARCHITECTURES[machine], lambda _: 0, lambda _: 0, lambda at: at) for file in files]
        graph = CallGraph([CalledFunctions(image, machine) for image in images])
        return [frozenset(place for place in graph.reached(group, wanted) if place in wanted) for group in groups]
    except (NotElfError, struct.error, ValueError, IndexError, OverflowError):
        return [frozenset()] * len(groups)
