"""What the architectures tell of code and calls, in the same terms."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Swept: TypeAlias = tuple[list[int], list[int], list[tuple[int, int]], list[tuple[int, int]], int]
"""Where instructions need an extension or ask for one, the calls, the data, and how much was read."""


class VariableArguments(NamedTuple):
    """How far in its arguments a ``va_list`` is: those left in registers, then those in the stack.

    :ivar overflow: where the next one is that is in the stack
    :ivar saved: what ``offset`` counts from
    :ivar offset: where the next one is that was in a general register, until ``end``
    :ivar number_saved: what ``number_offset`` counts from
    :ivar number_offset: where the next one is that was in a register for numbers, until ``number_end``
    """

    overflow: int
    saved: int
    offset: int
    end: int
    number_saved: int
    number_offset: int
    number_end: int
