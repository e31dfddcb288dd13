"""How the time of something grows, on a machine of any speed that does other things as well."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_RESOLUTION: Final = 0.01  # seconds of processor time; less is noise


def grows_linearly(run: Callable[[int], Callable[[], object]], n: int) -> bool:
    """Whether something takes about twice the processor time for twice the input: four times would be quadratic.

    A measurement can be disturbed, and a step in the cost of memory can lie between two sizes, so one good pair of
    several, at two sizes, is enough.

    :param run: for a size, makes the input and returns what is to be timed
    """
    return any(_seconds(run(2 * size)) < 3 * _seconds(run(size)) + _RESOLUTION for size in (n, n, 2 * n, 2 * n))


def _seconds(run: Callable[[], object]) -> float:
    start = time.thread_time()
    run()
    return time.thread_time() - start
