"""Which functions lead to which others, as far as the code of their objects itself says so; nothing is executed.

A function leads to another if it calls it, jumps to it, or takes its address: directly, through the procedure linkage
table and the global offset table of its object, or by the address of a table of pointers to functions, such as a
vtable. A function of another object is found by its name. The bounds of functions come from ``.eh_frame_hdr``, which
stripping leaves alone.
"""

from __future__ import annotations

import bisect
import functools
import struct
import sys
from array import array
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Protocol, TypeVar

from abiscan import native
from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation.arch import ARCHITECTURES, CODE, Code
from abiscan.emulation.call_sites import Functions, windows_of_code
from abiscan.emulation.loader import Image
from abiscan.errors import NotElfError

_LONGEST_TABLE: Final = 256
_MOST_FUNCTIONS: Final = 1 << 20
_VTABLE_HEADER: Final = 16  # the offset to the top, the type information (Itanium C++ ABI, 2.5.2)
_WORD: Final = 8
_HIGHEST: Final = 1 << 62  # no sum of two addresses below is too large

_STUB_SIZE: Final = 16
_SMALLEST_STUB: Final = 8  # of .plt.got
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
        # Addresses are in the file's own space throughout: nothing is loaded, so nothing is placed.
        self._functions = Functions(image)
        code = CODE[machine]
        native_links = _links_in_c(image, self._functions.starts) if native.reads(ARCHITECTURES[machine].name) else None
        self._links: _Links = native_links or _LinksInPython(image, code, frozenset(self._functions.starts))
        self._entries = code.STUB_ENTRIES
        # A library may have hundreds of thousands of stubs.
        self._jumps, self._slots = array("Q"), array("Q")
        self._add_stubs()
        self._linkage = self._linkage_tables()
        self._import_name = functools.cache(lambda number: image.symbol(number).name)

    def defined(self, name: str) -> int | None:
        """Return where the function of a name starts, None if the object does not define it."""
        symbol = self._image.find(name)
        return symbol.value if symbol is not None else None

    def led_to(self, start: int) -> Leads:
        """Return what the function at ``start`` leads to."""
        # A linkage table leads to every import, and so would a function that calls one of its stubs.
        is_code = self._functions.is_start(start) and start not in self._linkage
        code = self._functions.code_of(start) if is_code else b""
        # With no budget left, functions lead nowhere: the answer is then a lower bound.
        self._unread -= len(code)
        functions, symbols = self._links.of(code if self._unread >= 0 else b"", start)
        return Leads(functions, frozenset(filter(None, map(self._import_name, symbols))))

    def slot_of(self, stub: int) -> int | None:
        """Return the slot through which the stub at an address jumps; None if no stub is there."""
        for jump in (stub + before for before in self._entries):
            index = bisect.bisect_left(self._jumps, jump)
            if index < len(self._jumps) and self._jumps[index] == jump:
                return self._slots[index]
        return None

    def stubs(self, slots: Container[int]) -> Iterator[int]:
        """Yield where calls of stubs may lead that jump through some slots."""
        jumps = (jump for jump, slot in zip(self._jumps, self._slots, strict=True) if slot in slots)
        return (jump - before for jump in jumps for before in self._entries)

    def _add_stubs(self) -> None:
        """Add the stubs in all code: where they jump, in order, and through which slots."""
        for window, address in windows_of_code(self._image):
            jumps = self._links.add_stubs(window, address) if address < _HIGHEST else []
            # The first one may be in the window before, too.
            first = 2 if jumps and self._jumps and jumps[0] <= self._jumps[-1] else 0
            self._jumps.extend(jumps[first::2])
            self._slots.extend(jumps[first + 1 :: 2])

    def _linkage_tables(self) -> frozenset[int]:
        """Return the procedure linkage tables, each of which looks like one function that jumps to all others.

        Its jumps lie whole stubs apart from each other. A function that ends in jumps through slots (``-fno-plt``) has
        one of them, or some at any distance.
        """
        within: dict[int, list[int]] = {}
        for jump in self._jumps:
            if (start := self._functions.containing(jump)) is not None:
                within.setdefault(start, []).append(jump % _SMALLEST_STUB)
        return frozenset(
            start
            for start, places in within.items()
            if len(places) > 1
            and len(set(places)) == 1
            and 2 * len(places) * _STUB_SIZE >= self._functions.end_of(start) - start
        )


class _Links(Protocol):
    """What the code of functions leads to: see ``_core.pyi`` for the one in C."""

    def add_stubs(self, code: bytes, address: int, /) -> list[int]:
        """Add the stubs in code that lies at ``address``. Return where they jump through words that relocations fill,
        each followed by the address of its word.
        """

    def of(self, code: bytes, start: int, /) -> tuple[frozenset[int], frozenset[int]]:
        """Return what the code of a function leads to: functions, and numbers of imported symbols."""


def _links_in_c(image: Image, functions: Sequence[int]) -> _Links | None:
    """Return the native search; None if the object is not one for it."""
    if functions and functions[-1] >= _HIGHEST:
        return None
    from abiscan.native._core import Links

    links = Links(array("Q", functions).tobytes())
    return links if image.add_links(links) else None


class _LinksInPython:
    def __init__(self, image: Image, code: Code, functions: AbstractSet[int]) -> None:
        self._known = functions
        self._code = code
        self._pointers = image.own_pointers()
        slots = image.import_slots()
        self._imports = slots.by_stub | slots.others
        self._own_stubs: dict[int, int] = {}
        self._foreign_stubs: dict[int, int] = {}

    def add_stubs(self, code: bytes, address: int) -> list[int]:
        jumps: list[int] = []
        for jump, slot in self._code.jumps_through_slots(memoryview(code), address):
            target, symbol = self._pointers.get(slot), self._imports.get(slot)
            if target is None and symbol is None:
                continue
            jumps += (jump, slot)
            stubs = [jump - before for before in self._code.STUB_ENTRIES]
            if target is not None and target in self._known:
                self._own_stubs.update(dict.fromkeys(stubs, target))
            if symbol is not None:
                self._foreign_stubs.update(dict.fromkeys(stubs, symbol))
        return jumps

    def of(self, code: bytes, start: int) -> tuple[frozenset[int], frozenset[int]]:
        links = list(self._code.links(code, start))
        functions = (target for kind, addresses in links for target in self._functions_behind(kind, addresses))
        symbols = (
            symbol
            # A load may be of a slot of the global offset table, and a call of a stub that jumps through one.
            for kind, addresses in links
            for symbol in _chosen(self._imports if kind == "word" else self._foreign_stubs, addresses)
        )
        # If not all code is looked at, their order matters, and the order of a set may differ between runs.
        return frozenset(sorted(functions)), frozenset(symbols)

    def _functions_behind(self, kind: str, addresses: AbstractSet[int]) -> Iterator[int]:
        """Yield the functions behind addresses that are jumped to, those of one word or several, or that are handed
        on.
        """
        # A word that points to no function may be that of a virtual table, whose functions begin behind its header.
        if kind == "word":
            for target in _chosen(self._pointers, addresses):
                if target in self._known:
                    yield target
                else:
                    yield from self._table(target + _VTABLE_HEADER)
            return
        # Several words that are loaded are a table of pointers, and no code.
        if kind != "words":
            yield from self._known & addresses
            yield from _chosen(self._own_stubs, addresses)
        if kind != "code":
            for address in addresses - self._known:
                yield from self._table(address)

    def _table(self, address: int) -> Iterator[int]:
        """Yield the functions in a table of pointers, up to the first word that is no function."""
        for at in range(address, address + _LONGEST_TABLE * _WORD, _WORD):
            target = self._pointers.get(at)
            # The table ends where the next word is something else: its length is written nowhere.
            if target is None or target not in self._known:
                return
            yield target


def _chosen(values: Mapping[int, _Value], addresses: AbstractSet[int]) -> Iterator[_Value]:
    return (values[address] for address in values.keys() & addresses)


class CallGraph:
    """The functions of an object, and of the libraries that define what it imports, in the order of its search.

    A place is a number for a function of one of them: a large library has hundreds of thousands.
    """

    def __init__(self, objects: Sequence[CalledFunctions]) -> None:
        self._objects = objects
        self._defined: dict[str, int | None] = {}
        self.next_places = functools.cache(self._find_next)
        """Returns the places that a function itself leads to: those in its object, then its imports."""

    def place_of(self, number: int, start: int) -> int:
        """Return the place of a function: which object, where it starts."""
        return start * len(self._objects) + number

    def function_at(self, place: int) -> tuple[int, int]:
        """Return the function at a place: which object, where it starts."""
        start, number = divmod(place, len(self._objects))
        return number, start

    def reached(self, roots: Iterable[int], stop_at: Iterable[tuple[int, int]] = ()) -> set[tuple[int, int]]:
        """Return the functions that some functions of the first object lead to, and these: which object, where it
        starts.

        :param roots: where the functions start, in the file's own space
        :param stop_at: functions that are not followed further
        """
        places = self.reached_places(roots, {self.place_of(*function) for function in stop_at})
        return set(map(self.function_at, places))

    def reached_places(self, roots: Iterable[int], stop_at: Container[int]) -> set[int]:
        """Return the places of the functions that some functions of the first object lead to, and of these."""
        seen, waiting = set[int](), deque(self.place_of(0, root) for root in roots)
        while waiting and len(seen) < _MOST_FUNCTIONS:
            place = waiting.popleft()  # the nearest ones first: it may be that not all code is looked at
            if place not in seen:
                seen.add(place)
                if place not in stop_at:
                    waiting += self.next_places(place)
        return seen

    def _find_next(self, place: int) -> Sequence[int]:
        number, function = self.function_at(place)
        functions, imports = self._objects[number].led_to(function)
        count = len(self._objects)  # most functions are in a library of their own, and lead nowhere else
        places = sorted(functions) if count == 1 else [start * count + number for start in sorted(functions)]
        if imports:
            # An import is defined by the first object that has it, as ld.so searches.
            others = map(self.find_definition, sorted(imports))
            places = list(dict.fromkeys((*places, *(place for place in others if place is not None))))
        return array("Q", (place for place in places if place <= _HIGHEST))  # what a symbol says may be anything

    def find_definition(self, name: str) -> int | None:
        """Return the place of the function that an import leads to; None if no object defines it."""
        if name not in self._defined:
            starts = ((number, object_.defined(name)) for number, object_ in enumerate(self._objects))
            places = (self.place_of(number, start) for number, start in starts if start is not None)
            self._defined[name] = next(places, None)
        return self._defined[name]


def reached_functions(
    files: Sequence[ElfFile],
    machine: Machine,
    roots: Iterable[Iterable[int]],
    requested: Iterable[tuple[int, int]],
) -> list[frozenset[tuple[int, int]]]:
    """Return, for each group of functions, the requested ones that it leads to; empty if an object is damaged.

    :param files: the object, and the libraries that define what it imports, in the order in which they are searched
    :param roots: where the functions of each group start, in the object's own space
    :param requested: functions, each as the number of its object and where it starts
    """
    groups = list(roots)
    try:
        images = [Image(file, ARCHITECTURES[machine], lambda _: 0, lambda _: 0, lambda at: at) for file in files]
        graph = CallGraph([CalledFunctions(image, machine) for image in images])
        wanted = {graph.place_of(*function) for function in requested}
        reached = (graph.reached_places(group, wanted) & wanted for group in groups)
        return [frozenset(map(graph.function_at, places)) for places in reached]
    except (NotElfError, struct.error, ValueError, IndexError, OverflowError):
        return [frozenset()] * len(groups)
