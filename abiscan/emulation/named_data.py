"""The data that code of x86-64 names relative to itself, with as little of capstone as possible.

Most instructions are measured by the native search; what it does not know, capstone tells.
"""

from __future__ import annotations

from typing import Final

from abiscan import native
from abiscan.emulation.arch import Arch

_LONGEST: Final = 15  # bytes of an instruction
_AT_ONCE: Final = 64  # instructions that capstone reads before the native search goes on


def data_of(arch: Arch, address: int, code: bytes, most: int) -> tuple[list[tuple[int, int]], int]:
    """Return the ``data`` of the instructions of a function, and how many instructions were read.

    :param most: how many instructions to read at most
    """
    if arch.name != native.ARCHITECTURE or not native.is_available():
        return arch.data_of(address, code, most)[:2]
    from abiscan.native._core import data as measured

    content: list[tuple[int, int]] = []
    at = count = 0
    while at < len(code) and count < most:
        remainder = code[at:] if at else code
        result, done, end = measured(remainder, address + at, most - count)
        for offset, place, size in result:
            if size >= 0:
                content.append((place, size))
            else:
                instruction = arch.decode(address + at + offset, remainder[offset : offset + _LONGEST])
                content += instruction.data if instruction is not None else ()
        at, count = at + end, count + done
        if at < len(code) and count < most:
            block, done, end = arch.data_of(address + at, code[at:], min(_AT_ONCE, most - count))
            content += block
            at, count = at + end, count + done
    return content, count
