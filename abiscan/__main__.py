"""The command ``abiscan``, which is ``python -m abiscan``, too."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from typing import Final, NoReturn

_YOUNG_OBJECTS: Final = 1_000_000
_LEAST: Final = (
    ("RLIMIT_NOFILE", 64, "open files", "ulimit -n 1024"),
    ("RLIMIT_STACK", 256 << 10, "bytes of stack", "ulimit -s 8192"),
)
"""The limits below which Python fails in other words, or finds folders empty that are not."""


def main() -> None:
    """Run the command line. A signal while it is still being imported ends the process without a traceback.

    There is almost no garbage collection, from the imports on: what a command creates lives until the process ends, so
    collecting garbage among a million objects is wasted time.
    """
    gc.set_threshold(_YOUNG_OBJECTS)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: os._exit(128 + number))
    _require_limits()
    try:
        from abiscan.cli import main, process

        process.call_deep(lambda: main(prog_name="abiscan"))
    except SystemExit as end:
        process.leave_process(end.code)
        raise
    except MemoryError:  # of the imports
        _refuse("the system gives it no more memory (free some, or raise the limit: ulimit -v, ulimit -d)")


def _require_limits() -> None:
    try:
        import resource
    except ImportError:  # Windows, which has none
        return
    for name, least, things, command in _LEAST:
        limit = resource.getrlimit(getattr(resource, name))[0]
        if 0 <= limit < least:  # -1 is none
            _refuse(f"the limit of {limit} {things} is too low (raise it: {command})")


def _refuse(problem: str) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, f"abiscan: {problem}\n".encode())
    os._exit(2)


if __name__ == "__main__":
    main()
