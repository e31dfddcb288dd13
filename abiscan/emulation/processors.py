"""icicle's processors, each lent to one machine after the other.

To make one takes icicle longer than to run the initialisers of most extensions: it compiles the specification of the
architecture anew. To clear one takes microseconds.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from icicle import Icicle  # type: ignore[import-untyped]

_BACKTRACES: Final = "RUST_LIB_BACKTRACE"


class _Idle(threading.local):
    """The processors that nobody has, by architecture. One can be used in no thread but that which made it."""

    def __init__(self) -> None:
        self.processors: defaultdict[str, list[Icicle]] = defaultdict(list)


_IDLE: Final = _Idle()


def take(architecture: str) -> Icicle:
    """A processor as it is when it has just been switched on, without memory."""
    idle = _IDLE.processors[architecture]
    if idle:
        return idle.pop()
    # Most code runs once: translating it to host code, or optimising it, costs more than interpreting it as it is.
    with _without_backtraces():
        return Icicle(architecture, jit=False, jit_mem=False, optimize_instructions=False, recompilation=False)


def give_back(processor: Icicle) -> None:
    """Leave a processor to whoever takes the next one. Breakpoints stay in it."""
    processor.reset()
    _IDLE.processors[processor.architecture].append(processor)


@contextlib.contextmanager
def _without_backtraces() -> Iterator[None]:
    """Where RUST_BACKTRACE is set, icicle takes one, for twice as long, of each construct that it cannot compile."""
    before = os.environ.get(_BACKTRACES)
    os.environ[_BACKTRACES] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_BACKTRACES]
        else:
            os.environ[_BACKTRACES] = before
