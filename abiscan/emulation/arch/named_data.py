"""The data that code of x86-64 names relative to itself, with as little of capstone as possible.

Most instructions are measured by the native search; what it does not know, capstone tells.
"""

from __future__ import annotations

from typing import Final

from abiscan.emulation import native

_LONGEST: Final = 15  # bytes of an instruction
_AT_ONCE: Final = 64  # instructions that capstone reads before the native search goes on


def data_of_x86_64(address: int, code: bytes, most: int) -> tuple[list[tuple[int, int]], int]:
    """Return the ``data`` of the instructions of a function, and how many instructions were read.

    :param most: how many instructions to read at most
    """
    if not native.is_available():
        from abiscan.emulation.arch import data_flow

        return data_flow.data_of_x86_64(address, code, most)[:2]
    from abiscan.emulation.native._core import data as measured

    data: list[tuple[int, int]] = []
    at = count = 0
    while at < len(code) and count < most:
        rest = code[at:] if at else code
        found, done, end = measured(rest, address + at, most - count)
        for offset, place, size in found:
            if size >= 0:
                data.append((place, size))
            else:
                data += _by_capstone(address + at + offset, rest[offset : offset + _LONGEST])
        at, count = at + end, count + done
        if at < len(code) and count < most:
            from abiscan.emulation.arch import data_flow

            others, done, end = data_flow.data_of_x86_64(address + at, code[at:], min(_AT_ONCE, most - count))
            data += others
            at, count = at + end, count + done
    return data, count


def _by_capstone(address: int, code: bytes) -> tuple[tuple[int, int], ...]:
    from abiscan.emulation.arch.data_flow import decode_x86_64

    instruction = decode_x86_64(address, code)
    return instruction.data if instruction is not None else ()
