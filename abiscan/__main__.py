"""The command ``abiscan``, which is ``python -m abiscan``, too."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run the command line. A signal while it is still being imported ends the process without a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: os._exit(128 + number))
    from abiscan.cli import main, process

    try:
        main(prog_name="abiscan")
    except SystemExit as end:
        process.leave(end.code)
        raise


if __name__ == "__main__":
    main()
