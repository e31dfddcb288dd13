"""What the bytes of x86-64 code lead to, without executing them: calls, jumps through slots, addresses.

A call is ``call`` or ``jmp`` to a stub of the procedure linkage table, which jumps through a slot of the global offset
table, or goes through that slot itself. Instructions are not decoded where a pattern will do: few random ones lead to
the start of a function. Patterns begin with plain bytes: that makes the search up to twenty times faster.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from abiscan.binary.elf import Machine
from abiscan.cpu.instructions import features_of
from abiscan.emulation.arch.values import Swept
from abiscan.regex import regex

STUB_ENTRIES: tuple[int, ...] = (0, 1, 4, 5)  # endbr64 and a bnd prefix

_CALL_SLOT: Final = regex(rb"\xff\x15(....)", re.DOTALL)  # call [rip + displacement]
_JUMP_SLOT: Final = regex(rb"\xff\x25(....)", re.DOTALL)  # jmp [rip + displacement]
_CALL, _JUMP, _CALL_SIZE = b"\xe8", b"\xe9", 5
_DISPLACEMENT: Final = struct.Struct("<i")
_LONGEST_INSTRUCTION: Final = 15
_WINDOW: Final = 1 << 20

# What precedes a displacement, and what is there.
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


def jumps_through_slots(content: memoryview, address: int) -> Iterator[tuple[int, int]]:
    """Return the jumps through words in code that lies at ``address``, each with the address of its word."""
    return ((place, slot) for place, _, slot in _memory_operands(_JUMP_SLOT, content, address))


def calls_through_slots(content: memoryview, address: int) -> Iterator[tuple[int, int]]:
    """Return where the calls through words return to, each with the address of its word."""
    return ((end, slot) for _, end, slot in _memory_operands(_CALL_SLOT, content, address))


def _memory_operands(pattern: re.Pattern[bytes], content: memoryview, address: int) -> Iterator[tuple[int, int, int]]:
    """Yield where instructions may be that use a word in memory: their start, their end, the address of the word."""
    for match in pattern.finditer(content):
        end = address + match.end()
        yield address + match.start(), end, end + int.from_bytes(match.group(1), "little", signed=True)


def calls(content: memoryview, address: int, targets: Collection[int]) -> Iterator[tuple[int, int, bool]]:
    """Yield the relative calls and jumps to some addresses: see ``call_at``."""
    low, high = min(targets), max(targets)
    for at in range(0, len(content), _WINDOW):
        window = bytes(content[at : at + _WINDOW + _CALL_SIZE - 1])
        for opcode in (_CALL, _JUMP):
            # A large library has hundreds of thousands of candidates, so each must take as little time as possible.
            for match in _relative(opcode, low - address - at - _WINDOW - 5, high - address - at).finditer(window):
                matched = call_at(window, match.start(), address + at)
                if matched[1] in targets:
                    yield matched


def call_at(code: bytes, place: int, address: int) -> tuple[int, int, bool]:
    """Return a relative call or jump: where it returns to, where it leads, whether it is a jump.

    A jump returns nowhere: it is told where that itself lies.
    """
    is_jump, end = code[place] == _JUMP[0], address + place + _CALL_SIZE
    return end - _CALL_SIZE if is_jump else end, end + _DISPLACEMENT.unpack_from(code, place + 1)[0], is_jump


def _relative(opcode: bytes, low: int, high: int) -> re.Pattern[bytes]:
    """Return ``call`` or ``jmp`` with a displacement between the two numbers, as nearly as its two high bytes can
    tell.
    """
    by_top: dict[int, list[int]] = {}
    for upper in range(low >> 16, (high >> 16) + 1):
        by_top.setdefault(upper >> 8 & 0xFF, []).append(upper & 0xFF)
    ends = (
        b"[" + b"".join(_escaped(third) for third in thirds) + b"]" + _escaped(top) for top, thirds in by_top.items()
    )
    # Bytes that look like a call may hide a call that begins within them, so a match is only one byte long.
    return re.compile(opcode + rb"(?=..(?:" + b"|".join(ends) + b"))", re.DOTALL)


def _escaped(byte: int) -> bytes:
    return b"\\x%02x" % byte


def links(code: bytes, start: int) -> Iterator[tuple[str, AbstractSet[int]]]:
    """Yield what displacements in the code of a function lead to: code, a word, several words, or an address of any
    kind.
    """
    unpack, after = _DISPLACEMENT.unpack_from, start + _DISPLACEMENT.size
    for kind, pattern in _RELATIVE:
        ends = [match.end() for match in pattern.finditer(code)]
        yield kind, {after + at + unpack(code, at)[0] for at in ends}
    yield (
        "code",
        {start + match.end() + int.from_bytes(match[1], "little", signed=True) for match in _SHORT_JUMP.finditer(code)},
    )


def beginnings(near: int, end: int) -> range:
    """Return where to begin to decode, so that instructions end at ``end``.

    From within an instruction, decoding finds its way back to where instructions begin after a few of them.
    """
    return range(near, min(near + _LONGEST_INSTRUCTION, end))


def instructions(code: bytes, address: int) -> list[tuple[int, bool]]:
    """Return the instructions that code consists of, and which are branches; none if it is not all instructions."""
    decoded = list(_decoder().disasm_lite(code, address))
    if not decoded or sum(decoded[-1][:2]) != address + len(code):
        return []
    return [(at, name.startswith(("j", "call", "ret"))) for at, _, name, _ in decoded]


IS_SWEPT: Final = True


def sweep(code: bytes, address: int) -> Swept:
    """Return where instructions need an extension or ask for one, the calls, the data, and how much was read."""
    import capstone  # type: ignore[import-untyped]
    from capstone import x86

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    extensions: list[int] = []
    questions: list[int] = []
    calls: list[tuple[int, int]] = []
    content: list[tuple[int, int]] = []
    end = 0
    for instruction in decoder.disasm(code, address):
        at = instruction.address - address
        end = at + instruction.size
        if features_of(Machine.X86_64, bytes(instruction.bytes) + bytes(_LONGEST_INSTRUCTION)):
            extensions.append(at)
        if instruction.mnemonic == "cpuid":
            questions.append(at)
        for operand in instruction.operands:
            if operand.type == x86.X86_OP_IMM and instruction.opcode[0] in (0xE8, 0xE9):
                calls.append((at, operand.imm))
            if operand.type == x86.X86_OP_MEM and operand.mem.base == x86.X86_REG_RIP:
                content.append((at, address + end + operand.mem.disp))
    return extensions, questions, calls, content, end


@functools.cache
def _decoder() -> Any:
    import capstone

    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
