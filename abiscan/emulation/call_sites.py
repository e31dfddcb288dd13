"""Finds, without executing anything, where the code of an object calls given imported functions.

This is the yardstick of completeness: a call of the registration API that was not executed is a registration that may
have been missed. The bounds of functions come from the table in ``.eh_frame_hdr`` (LSB 5.0, 10.6.2), which stripping
leaves alone.
"""

from __future__ import annotations

import bisect
import itertools
import re
from array import array
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from abiscan import native
from abiscan.binary.elf import Machine
from abiscan.emulation.arch import ARCHITECTURES, CODE, Code
from abiscan.emulation.loader import Image, Slots
from abiscan.regex import regex

_PF_X: Final = 1
_WINDOW: Final = 1 << 20  # bytes of code that are copied at once
_PIECE: Final = 1 << 25  # after so many, their memory is given back
_OVERLAP: Final = 7  # of what begins in a window: the jump of a stub has up to eight bytes
_LONGEST_IMMEDIATE: Final = 8
_HIGHEST: Final = (1 << 64) - 1
_DISPLACEMENT_SIZE: Final = 4
_SHORT_JUMP: Final = regex(rb"\xeb(?=(.))", re.DOTALL)
_BACK: Final = 256  # bytes before a call that are looked at
_LONGEST_FUNCTION: Final = 1 << 20


class CallSite(NamedTuple):
    """A call of a function.

    :ivar address: where the call returns to, or, if it is a jump, where the jump itself lies
    :ivar target: the function that is called
    :ivar is_jump: whether it is the last thing that its function does
    """

    address: int
    target: str
    is_jump: bool


def find_call_sites(image: Image, machine: Machine, slots: Slots) -> list[CallSite]:
    """Return the calls of imported functions.

    :param slots: the slots of the global offset table that lead to them
    """
    if not slots.by_stub and not slots.others:
        return []
    # With -fno-plt code calls through the slot itself, otherwise a stub that jumps through it: an object may have both.
    stubs = _stubs_by_address(image, CODE[machine], slots)
    sites = {CallSite(place, stubs[target], is_jump) for place, target, is_jump in _calls_of(image, machine, stubs)}
    for window, address in windows_of_code(image) if slots.others else ():
        calls = CODE[machine].calls_through_slots(memoryview(window), address)
        sites.update(CallSite(end, slots.others[slot], is_jump=False) for end, slot in calls if slot in slots.others)
    return sorted(sites)


def code_in(image: Image) -> Iterator[tuple[memoryview, int]]:
    """Yield the code of an object, by segment, and where each lies."""
    for segment in image.file.segments:
        if segment.flags & _PF_X:
            yield image.file.data[segment.offset : segment.offset + segment.file_size], segment.address


def windows_of_code(image: Image) -> Iterator[tuple[bytes, int]]:
    """Yield the code of an object in pieces, and where each lies.

    The code of a library may have hundreds of megabytes: the memory of what was read is given back. Pieces overlap, so
    that each call, jump and displacement is whole in one of them.
    """
    for segment in image.file.segments:
        if segment.flags & _PF_X:
            start, end = segment.offset, segment.offset + segment.file_size
            for piece in range(start, end, _PIECE):
                stop = min(piece + _PIECE, end)
                for at in range(piece, stop, _WINDOW):
                    yield bytes(image.file.data[at : min(at + _WINDOW + _OVERLAP, end)]), segment.address + at - start
                image.file.let_go(piece, stop)


def _stubs_by_address(image: Image, code: Code, slots: Slots) -> dict[int, str]:
    """Return where calls of a stub may lead, and the function behind it."""
    stubs: dict[int, str] = {}
    symbol_of_slot, missing = slots.by_stub | slots.others, set(slots.by_stub)
    jumps = (code.jumps_through_slots(memoryview(window), address) for window, address in windows_of_code(image))
    for start, slot in itertools.chain.from_iterable(jumps):
        # A stub may begin with ``endbr64`` or ``bti``, and calls lead there: all beginnings are entered, since none of
        # the others is the target of a call.
        if slot in symbol_of_slot:
            stubs.update({start - before: symbol_of_slot[slot] for before in code.STUB_ENTRIES})
            missing.discard(slot)
            if not missing and not slots.others:
                break
    return stubs


def _calls_of(image: Image, machine: Machine, targets: Collection[int]) -> Iterator[tuple[int, int, bool]]:
    """Yield the relative calls and jumps to some addresses: see ``Code.call_at``."""
    code = CODE[machine]
    if not native.is_available():
        for content, address in code_in(image) if targets else ():
            yield from code.calls(content, address, targets)
        return
    from abiscan.native import _core

    search = _core.calls if native.reads(ARCHITECTURES[machine].name) else _core.branches
    requested = array("Q", sorted(target for target in targets if target >= 0)).tobytes()
    for window, address in windows_of_code(image) if targets else ():
        for place in search(window, address, requested):
            yield code.call_at(window, place, address)


def callers_of(image: Image, machine: Machine, functions: Functions, targets: Collection[int]) -> set[int]:
    """Return the functions that call or jump to some addresses."""
    sites = _calls_of(image, machine, targets)
    starts = (functions.containing(place if is_jump else place - 1) for place, _, is_jump in sites)
    return {start for start in starts if start is not None}


def functions_naming(image: Image, functions: Functions, ranges: Iterable[tuple[int, int]]) -> set[int]:
    """Return the functions of x86-64 code that may name a place in some ranges of addresses, relative to themselves.

    Nothing is decoded: what looks like a displacement may be something else.
    """
    bounds = array("Q")
    for low, high in sorted((low, min(high, _HIGHEST)) for low, high in ranges if high > 0 and low < _HIGHEST):
        # A displacement counts from the end of its instruction, in front of which there may be an immediate.
        first = max(low - _LONGEST_IMMEDIATE, 0)
        if bounds and first <= bounds[-1]:
            bounds[-1] = max(bounds[-1], high)
        else:
            bounds.extend((first, high))
    starts = {
        functions.containing(address + at)
        for window, address in (windows_of_code(image) if bounds else ())
        for at in find_displacements(window, address, bounds)
    }
    return {start for start in starts if start is not None}


def find_displacements(code: bytes, address: int, bounds: array[int]) -> list[int]:
    """Return where displacements and short jumps may be, in order, that lead to an address between two bounds: between
    the first and the second, the third and the fourth, and so on.
    """
    if native.is_available():
        from abiscan.native._core import displacements

        return displacements(code, address, bounds.tobytes())
    places = set[int]()
    for match in _SHORT_JUMP.finditer(code):
        if bisect.bisect_right(bounds, address + match.end(1) + int.from_bytes(match[1], "little", signed=True)) & 1:
            places.add(match.start())
    for phase in range(_DISPLACEMENT_SIZE):
        words = memoryview(code)[phase:]
        for number, word in enumerate(words[: len(words) & -_DISPLACEMENT_SIZE].cast("i")):
            end = phase + _DISPLACEMENT_SIZE * (number + 1)
            if bisect.bisect_right(bounds, address + end + word) & 1:
                places.add(end - _DISPLACEMENT_SIZE)
    return sorted(places)


class Instruction(NamedTuple):
    """An instruction of an object. A branch may be followed by another instruction than the next one; calls count."""

    address: int
    is_branch: bool


def instructions_before(image: Image, machine: Machine, address: int, start: int) -> list[Instruction]:
    """Return consecutive instructions, the last of which ends at ``address``.

    :param start: where a function begins, and so an instruction does; those that are far from ``address`` are left out
    """
    near = max(start, address - _BACK)
    segment = next((s for s in image.file.segments if s.address <= near <= address < s.address + s.file_size), None)
    if segment is None:
        return []
    offset = segment.offset - segment.address
    # x86-64 cannot be decoded backwards. Of the ways to decode forwards, the first that ends exactly at the call is
    # taken.
    for first in CODE[machine].beginnings(near, address):
        result = _decoded(bytes(image.file.data[offset + first : offset + address]), first, machine)
        if result:
            return result
    return []


def _decoded(code: bytes, address: int, machine: Machine) -> list[Instruction]:
    """Return the instructions that code consists of; none if it is not all instructions."""
    if native.reads(ARCHITECTURES[machine].name):
        from abiscan.native._core import instructions

        measured = instructions(code, address)
        if measured is not None:
            return list(map(Instruction._make, measured))
    return list(map(Instruction._make, CODE[machine].instructions(code, address)))


class Functions:
    """Where an object's functions start and end."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self.starts = image.file.function_starts

    def containing(self, address: int) -> int | None:
        """Return the start of the function that ``address`` belongs to, None if it is not known."""
        index = bisect.bisect_right(self.starts, address) - 1
        return self.starts[index] if index >= 0 else None

    def is_start(self, address: int) -> bool:
        """Whether a function starts at an address."""
        index = bisect.bisect_left(self.starts, address)
        return index < len(self.starts) and self.starts[index] == address

    def end_of(self, start: int) -> int:
        """Return where the function at ``start`` ends at the latest: where the next one starts."""
        after = bisect.bisect_right(self.starts, start)
        return self.starts[after] if after < len(self.starts) else self._image.size

    def code_of(self, start: int) -> bytes:
        """Return the code of the function at ``start``, empty where there is none."""
        for segment in self._image.file.segments:  # a generator would take longer than all else
            if 0 <= start - segment.address < segment.file_size:
                break
        else:
            return b""
        # What follows the last function of a segment up to the next one is not code.
        end = min(self.end_of(start), start + _LONGEST_FUNCTION, segment.address + segment.file_size)
        offset = segment.offset - segment.address
        return bytes(self._image.file.data[start + offset : end + offset])
