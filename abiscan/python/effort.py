"""How much work Python's own operations do on the values of a package, counted for the run that does them.

A step of a run is one statement or expression. What a single one does to a large value is counted by its parts: a part
that occurs twice counts twice, as ``hash``, ``==`` and ``repr`` go through it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_FREE: Final = 64
_PARTS_OF_A_STEP: Final = 8
_count: ContextVar[Callable[[int], None] | None] = ContextVar("count", default=None)


@contextmanager
def counted_by(count: Callable[[int], None]) -> Iterator[None]:
    """Have the work that is done in the body of the ``with`` counted.

    :param count: gets a number of steps
    """
    token = _count.set(count)
    try:
        yield
    finally:
        _count.reset(token)


def count_parts(parts: int) -> None:
    """Count what going through so many parts takes; a few are paid for by the step that goes through them."""
    if parts > _FREE and (count := _count.get()) is not None:
        count(parts // _PARTS_OF_A_STEP)
