"""What the emulator tells the logger ``abiscan.emulation``: which functions it ran, and what they registered."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from abiscan.emulation.emulator import Stop
from abiscan.emulation.loader import BASE
from abiscan.emulation.process import EmulatedProcess
from abiscan.emulation.recorder import Recorder
from abiscan.registrations import Library

_log = logging.getLogger("abiscan.emulation")
_UNSAID = frozenset({"order", "functions"})
_LAST = frozenset({"library", "phase"})


class Runner(Protocol):
    """What runs the functions of an object."""

    process: EmulatedProcess
    recorder: Recorder


_Runner = TypeVar("_Runner", bound=Runner)


def traced(
    run: Callable[[_Runner, int, Sequence[int], int], int | Stop],
) -> Callable[[_Runner, int, Sequence[int], int], int | Stop]:
    """Return the method that runs one function of an object, telling the logger what comes of it."""

    @functools.wraps(run)
    def telling(recovery: _Runner, address: int, arguments: Sequence[int], instructions: int) -> int | Stop:
        if not _log.isEnabledFor(logging.DEBUG):
            return run(recovery, address, arguments, instructions)
        recorder, place = recovery.recorder, _place(recovery, address)
        before, executed = recorder.count, recovery.process.machine.executed
        _log.debug("%s: runs %s", recorder.phase.value, place)
        result = run(recovery, address, arguments, instructions)
        for record in recorder.since(before):
            _log.debug("%s registers %s(%s)", place, type(record).__name__, ", ".join(_stated_fields(record)))
        count = recovery.process.machine.executed - executed
        if isinstance(result, int):
            _log.debug("%s returns after %d instructions", place, count)
        else:
            called = f" in {result.called}" if result.called else ""
            _log.debug(
                "%s stops at %s%s after %d instructions: %s",
                *(place, _place(recovery, result.address), called, count, result.reason),
            )
        return result

    return telling


def _place(recovery: Runner, address: int) -> str:
    """Return an address as in the file, and the symbol before it."""
    image = recovery.process.image
    if not image.contains(address):
        return f"{address:#x} (outside of the object)"
    symbol = image.nearest_symbol(address - BASE)
    return f"{address - BASE:#x}{f' ({symbol})' if symbol else ''}"


def _stated_fields(record: Any) -> Iterator[str]:
    for name in sorted(type(record).__struct_fields__, key=_LAST.__contains__):
        value = getattr(record, name)
        if name in _UNSAID or value in (None, (), False):
            continue
        if isinstance(value, Library):
            yield f"file={value.file}, line={value.line}"
        else:
            yield f"{name}={getattr(value, 'value', value)}"
