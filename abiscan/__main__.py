"""The command ``abiscan``, which is ``python -m abiscan``, too."""

from __future__ import annotations

import gc
import os
import signal
from typing import Final

_YOUNG_OBJECTS: Final = 1_000_000


def main() -> None:
    """Run the command line. A signal while it is still being imported ends the process without a traceback.

    There is almost no garbage collection, from the imports on: what a command creates lives until the process ends, so
    collecting garbage among a million objects is wasted time.
    """
    gc.set_threshold(_YOUNG_OBJECTS)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: os._exit(128 + number))
    from abiscan.cli import main, process

    try:
        process.call_deep(lambda: main(prog_name="abiscan"))
    except SystemExit as end:
        process.leave_process(end.code)
        raise


if __name__ == "__main__":
    main()
