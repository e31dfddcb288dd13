"""icicle's processors, which machines use one after the other.

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

from icicle import Icicle, MemoryException  # type: ignore[import-untyped]

_BACKTRACES: Final = "RUST_LIB_BACKTRACE"


# Rust makes this exception, and panics if it cannot: that is what became of a KeyboardInterrupt in its constructor,
# which is Python code. That of Exception is C code, in which none can arise.
if "__init__" in vars(MemoryException):
    del MemoryException.__init__
    MemoryException.__str__ = lambda error: f"{error.args[0]} ({error.args[1]})"
    MemoryException.code = property(lambda error: error.args[1])


class _Idle(threading.local):
    """The free processors, by architecture. A processor can only be used in the thread that created it."""

    def __init__(self) -> None:
        self.processors: defaultdict[str, list[Icicle]] = defaultdict(list)


_IDLE: Final = _Idle()


def take(architecture: str) -> Icicle:
    """A processor in its initial state, without memory."""
    idle = _IDLE.processors[architecture]
    if idle:
        return idle.pop()
    # Most code runs once: translating it to host code, or optimising it, takes longer than interpreting it.
    with _without_backtraces():
        return Icicle(architecture, jit=False, jit_mem=False, optimize_instructions=False, recompilation=False)


def give_back(processor: Icicle) -> None:
    """Return a processor for reuse. Breakpoints stay in it."""
    processor.reset()
    _IDLE.processors[processor.architecture].append(processor)


@contextlib.contextmanager
def _without_backtraces() -> Iterator[None]:
    """If RUST_BACKTRACE is set, icicle takes a backtrace for each construct that it cannot compile: twice as slow."""
    before = os.environ.get(_BACKTRACES)
    os.environ[_BACKTRACES] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_BACKTRACES]
        else:
            os.environ[_BACKTRACES] = before
