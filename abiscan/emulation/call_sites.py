"""Finds, without executing anything, where the code of an object calls given imported functions.

This is the yardstick of completeness: a call of the registration API that was not executed is a registration that may
have been missed. On x86-64 a call is ``call`` or ``jmp`` to a stub of the procedure linkage table, which jumps through
a slot of the global offset table, or goes through that slot itself; on AArch64 it is ``bl`` or ``b`` to such a stub.
The bounds of functions come from the table in ``.eh_frame_hdr`` (LSB 5.0, 10.6.2), which stripping leaves alone.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from abiscan.binary.elf import Machine, Segment
from abiscan.emulation import native
from abiscan.emulation.emulator import PAGE_SIZE
from abiscan.emulation.loader import Image, Slots
from abiscan.regex import regex

_PF_X: Final = 1
_WINDOW: Final = 1 << 20
# Patterns begin with plain bytes: that makes the search several times faster.
_CALL_SLOT: Final = regex(rb"\xff\x15(....)", re.DOTALL)  # call [rip + displacement]
_JUMP_SLOT: Final = regex(rb"\xff\x25(....)", re.DOTALL)  # jmp [rip + displacement]
_DISPLACEMENT: Final = struct.Struct("<i")
_CALL, _JUMP, _CALL_SIZE = b"\xe8", b"\xe9", 5
_BACK: Final = 256  # bytes before a call that are looked at
_LONGEST_INSTRUCTION: Final = 15
_LONGEST_FUNCTION: Final = 1 << 20
_BRANCHES_MASK, _BRANCHES = 0x1C00_0000, 0x1400_0000  # with system instructions among them (Arm ARM, C4.1.92)


class CallSite(NamedTuple):
    """A call of the function ``target``.

    ``address`` is where the call returns to, or, if it is the last thing that a function does (``is_jump``), where the
    jump itself lies.
    """

    address: int
    target: str
    is_jump: bool


def find_call_sites(image: Image, machine: Machine, slots: Slots) -> list[CallSite]:
    """The calls of imported functions.

    :param slots: the slots of the global offset table that lead to them
    """
    if not slots.by_stub and not slots.others:
        return []
    find = _find_x86_64 if machine is Machine.X86_64 else _find_aarch64
    segments = [segment for segment in image.file.segments if segment.flags & _PF_X]
    sites = sorted(set(find(image, segments, slots)))
    for segment in segments:
        image.file.let_go(segment.offset, segment.offset + segment.file_size)
    return sites


def _bytes_of(image: Image, segment: Segment) -> memoryview:
    return image.file.data[segment.offset : segment.offset + segment.file_size]


def _find_x86_64(image: Image, segments: Sequence[Segment], slots: Slots) -> Iterator[CallSite]:
    if slots.others:
        for _, end, slot in _uses(_CALL_SLOT, image, segments):
            if slot in slots.others:
                yield CallSite(end, slots.others[slot], is_jump=False)
    stubs = _stubs_x86_64(image, segments, slots)
    if stubs:
        for segment in segments:
            yield from _calls_of_stubs(_bytes_of(image, segment), segment.address, stubs)


def _stubs_x86_64(image: Image, segments: Sequence[Segment], slots: Slots) -> dict[int, str]:
    """Where calls of a stub may lead, and the function behind it."""
    stubs: dict[int, str] = {}
    known, missing = slots.by_stub | slots.others, set(slots.by_stub)
    for start, _, slot in _uses(_JUMP_SLOT, image, segments):
        if slot in known:
            # The stub may begin with endbr64 and a bnd prefix; calls lead to its first byte.
            stubs.update({start - before: known[slot] for before in (0, 1, 4, 5)})
            missing.discard(slot)
            if not missing and not slots.others:
                break
    return stubs


def _calls_of_stubs(data: memoryview, address: int, stubs: dict[int, str]) -> Iterator[CallSite]:
    """The relative calls and jumps to stubs in the code that lies at ``address``."""
    if native.is_available():
        from abiscan.emulation.native._core import calls

        targets = array("Q", sorted(stub for stub in stubs if stub >= 0)).tobytes()
        for at in range(0, len(data), _WINDOW):
            code = bytes(data[at : at + _WINDOW + _CALL_SIZE - 1])
            for place in calls(code, address + at, targets):
                is_jump, end = code[place] == _JUMP[0], address + at + place + _CALL_SIZE
                stub = end + _DISPLACEMENT.unpack_from(code, place + 1)[0]
                yield CallSite(end - _CALL_SIZE if is_jump else end, stubs[stub], is_jump)
        return
    low, high = min(stubs), max(stubs)
    unpack = _DISPLACEMENT.unpack_from
    for at, opcode in itertools.product(range(0, len(data), _WINDOW), (_CALL, _JUMP)):
        start = address + at
        window = data[at : at + _WINDOW + 4]
        is_jump = opcode == _JUMP
        # Hundreds of thousands of candidates in a large library: as little as possible for each.
        for match in _relative(opcode, low - start - _WINDOW - 5, high - start).finditer(window):
            end = match.start() + _CALL_SIZE
            target = stubs.get(start + end + unpack(window, end - 4)[0])
            if target is not None:
                yield CallSite(start + (match.start() if is_jump else end), target, is_jump)


def callers_of(image: Image, functions: Functions, targets: Iterable[int]) -> set[int]:
    """The functions that call or jump to some addresses. Only of x86-64."""
    wanted = dict.fromkeys(targets, "")
    callers: set[int] = set()
    for segment in image.file.segments if wanted else ():
        if segment.flags & _PF_X:
            for site in _calls_of_stubs(_bytes_of(image, segment), segment.address, wanted):
                start = functions.containing(site.address if site.is_jump else site.address - 1)
                if start is not None:
                    callers.add(start)
    return callers


def _uses(pattern: re.Pattern[bytes], image: Image, segments: Iterable[Segment]) -> Iterator[tuple[int, int, int]]:
    """Where instructions may be that use a word in memory: their start, their end, the address of the word."""
    for segment in segments:
        for match in pattern.finditer(_bytes_of(image, segment)):
            end = segment.address + match.end()
            yield segment.address + match.start(), end, end + int.from_bytes(match.group(1), "little", signed=True)


def _relative(opcode: bytes, low: int, high: int) -> re.Pattern[bytes]:
    """``call`` or ``jmp`` with a displacement between the two numbers, as nearly as its two high bytes can tell."""
    by_top: dict[int, list[int]] = {}
    for upper in range(low >> 16, (high >> 16) + 1):
        by_top.setdefault(upper >> 8 & 0xFF, []).append(upper & 0xFF)
    ends = (
        b"[" + b"".join(_escaped(third) for third in thirds) + b"]" + _escaped(top) for top, thirds in by_top.items()
    )
    # What looks like a call may hide the one that begins within it, so none is more than its first byte.
    return re.compile(opcode + rb"(?=..(?:" + b"|".join(ends) + b"))", re.DOTALL)


def _escaped(byte: int) -> bytes:
    return b"\\x%02x" % byte


def _find_aarch64(image: Image, segments: Iterable[Segment], slots: Slots) -> Iterator[CallSite]:
    stubs = _stubs_aarch64(image, segments, slots)
    for segment in segments:
        for index, word in enumerate(_words(_bytes_of(image, segment))):
            if word & 0x7C00_0000 == 0x1400_0000:  # b, bl
                here, is_jump = segment.address + 4 * index, not word >> 31
                target = stubs.get(branched_to(word, here))
                if target is not None:
                    yield CallSite(here if is_jump else here + 4, target, is_jump)


def _stubs_aarch64(image: Image, segments: Iterable[Segment], slots: Slots) -> dict[int, str]:
    """Where stubs are, and the function behind each."""
    stubs: dict[int, str] = {}
    known = slots.by_stub | slots.others
    for segment in segments:
        address, words = segment.address, _words(_bytes_of(image, segment))
        for index, word in enumerate(words[:-1]):
            # adrp x16, page; ldr x17, [x16, #offset]
            if word & 0x9F00001F == 0x90000010 and words[index + 1] & 0xFFC003FF == 0xF9400211:
                here = address + 4 * index
                slot = page_of(word, here) + (words[index + 1] >> 10 & 0xFFF) * 8
                if slot in known:
                    stubs[here] = known[slot]
    return stubs


def _words(data: memoryview) -> list[int]:
    return data[: len(data) & ~3].cast("I").tolist()


def branched_to(branch: int, here: int) -> int:
    """Where a ``b`` or ``bl`` at ``here`` leads."""
    return here + 4 * _signed(branch & 0x3FF_FFFF, 26)


def page_of(adrp: int, here: int) -> int:
    """The page that an ``adrp`` at ``here`` computes."""
    return (here & -PAGE_SIZE) + PAGE_SIZE * _distance(adrp)


def address_of(adr: int, here: int) -> int:
    """The address that an ``adr`` at ``here`` computes."""
    return here + _distance(adr)


def _distance(word: int) -> int:
    """The immediate of ``adr`` and ``adrp`` (Arm ARM, C6.2.12): immhi 23:5, immlo 30:29."""
    return _signed((word >> 5 & 0x7_FFFF) << 2 | word >> 29 & 3, 21)


def _signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)


class Instruction(NamedTuple):
    """An instruction of an object. A branch is one after which another one may come than the next; calls count."""

    address: int
    is_branch: bool


def instructions_before(image: Image, machine: Machine, address: int, start: int) -> list[Instruction]:
    """The instructions that end at ``address`` and lie behind each other, in order.

    :param start: where a function begins, and so an instruction does; those that are far from ``address`` are left out
    """
    near = max(start, address - _BACK)
    segment = next((s for s in image.file.segments if s.address <= near <= address < s.address + s.file_size), None)
    if segment is None:
        return []
    offset = segment.offset - segment.address
    if machine is Machine.AARCH64:
        words = _words(image.file.data[offset + near : offset + address])
        return [Instruction(near + 4 * index, word & _BRANCHES_MASK == _BRANCHES) for index, word in enumerate(words)]
    # From within an instruction, decoding finds its way back to where instructions begin after a few of them.
    for first in range(near, min(near + _LONGEST_INSTRUCTION, address)):
        found = _decoded(bytes(image.file.data[offset + first : offset + address]), first)
        if found:
            return found
    return []


def _decoded(code: bytes, address: int) -> list[Instruction]:
    """The instructions that code consists of; none if it is not all instructions."""
    if native.is_available():
        from abiscan.emulation.native._core import instructions

        measured = instructions(code, address)
        if measured is not None:
            return list(map(Instruction._make, measured))
    decoded = list(_decoder().disasm_lite(code, address))
    if not decoded or sum(decoded[-1][:2]) != address + len(code):
        return []
    return [Instruction(at, name.startswith(("j", "call", "ret"))) for at, _, name, _ in decoded]


@functools.cache
def _decoder() -> Any:
    import capstone  # type: ignore[import-untyped]

    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


class Functions:
    """Where an object's functions start and end."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self.starts = image.file.function_starts

    def containing(self, address: int) -> int | None:
        """The start of the function that ``address`` belongs to, None if it is not known."""
        index = bisect.bisect_right(self.starts, address) - 1
        return self.starts[index] if index >= 0 else None

    def end_of(self, start: int) -> int:
        """Where the function at ``start`` ends at the latest: where the next one starts."""
        after = bisect.bisect_right(self.starts, start)
        return self.starts[after] if after < len(self.starts) else self._image.size

    def code_of(self, start: int) -> bytes:
        """The code of the function at ``start``, empty where there is none."""
        segment = next((s for s in self._image.file.segments if 0 <= start - s.address < s.file_size), None)
        if segment is None:
            return b""
        end = min(self.end_of(start), start + _LONGEST_FUNCTION, segment.address + segment.file_size)
        offset = segment.offset - segment.address
        return bytes(self._image.file.data[start + offset : end + offset])
