"""The process of a command: its standard streams, and its end when the user or the system stops it.

A signal ends it at once, without an exception that would travel through whatever is being done: neither code of other
libraries nor ours has to survive being interrupted anywhere. What has to be cleaned up is on record (``temporary``).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

import click

from abiscan.inputs import temporary
from abiscan.words import clean_lines, without_commands

SIGNALS: Final = tuple(
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows lacks the last
"""Those with which a user, a terminal or a supervisor stops a command."""

_NEEDED: Final = tuple(signal.Signals[name] for name in ("SIGCHLD", "SIGXCPU") if hasattr(signal, name))
"""Those without which processes cannot be waited for, or have no limit on their processor time."""

_LARGE_FRAME: Final = 1 + (256 << 10) // 8
"""Words: the next power of two leaves as many to other frames, which is a thousand of them."""
_SHOW_CURSOR: Final = b"\r\x1b[K\x1b[?25h"


def print_notice(line: str, *, nl: bool = True) -> None:
    """Print a line for the user on stderr, if anything can be written there.

    :param line: or several
    """
    try:
        click.echo(clean_notice(line), nl=nl, err=True)
    except OSError:
        # What is left in the buffer would be written again in the end, and the exit code become 120.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)


def clean_notice(text: str) -> str:
    """Return lines that steer neither the terminal nor, in a job of GitHub's, the runner."""
    cleaned = clean_lines(text)
    return without_commands(cleaned) if is_on_github() else cleaned


def is_on_github() -> bool:
    """Whether what is printed goes to GitHub's runner, which obeys some lines."""
    return bool(os.environ.get("GITHUB_ACTIONS"))


def is_own() -> bool:
    """Whether this process was started for the command: nobody has put something else in the place of its streams."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__


def begin_command() -> None:
    """Open the standard streams that are closed, and end on signals as commands do: with 128 and the signal's number.

    A signal that is ignored, as after ``nohup``, stays so; but not one that is no word to this process.
    """
    _open_streams()
    for number in _NEEDED:
        # execve(2): what the parent ignores or blocks, this process does. waitpid(2): of a process whose parent ignores
        # SIGCHLD, there is no status.
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _NEEDED)
    for number in SIGNALS:
        # POSIX shells ignore SIGINT for background jobs, and nohup SIGHUP; a command must leave it so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end_on_signal)
    temporary.adopt_orphans(orphans=True)


@contextlib.contextmanager
def scratch_folder() -> Iterator[None]:
    """Make all temporary files in a folder that is gone when this process ends, however it does."""
    if not is_own():
        yield
        return
    of_user = os.environ.get("TMPDIR")
    with temporary.temporary_folder() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = None
            del os.environ["TMPDIR"]
            if of_user is not None:  # the installer that takes the place of this process has its own use for it
                os.environ["TMPDIR"] = of_user


def call_deep(function: Callable[[], None]) -> None:
    """Call a function, with room for the frames of its calls in one piece.

    From Python 3.11 on, frames lie in chunks of 16 kB. The call for which there is no room in the last chunk maps
    another, and unmaps it as it returns (``push_chunk`` and ``_PyThreadState_PopFrame`` in CPython,
    Python/pystate.c): where a loop calls from there, that is a tenth of a check. A frame that needs more gets a larger
    chunk, and leaves what is behind it to the calls inside; memory that no frame uses is never touched.
    """

    def call() -> None:
        function()

    if sys.version_info >= (3, 11):
        call.__code__ = call.__code__.replace(co_stacksize=_LARGE_FRAME)
    call()


def leave_process(code: object) -> None:
    """End this process as the interpreter does, but do not take its objects apart: that is a tenth of a first check.

    Returns if that is better left to the interpreter: a thread goes on, or something cannot be written.
    """
    if not is_own() or threading.active_count() > 1 or not isinstance(code, int | None):
        return
    # What was registered still has to happen, as logging.shutdown; only taking objects apart is left out.
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code or 0)


def follow_signals() -> None:
    """Let signals end this process, forked from the one that has begun, without a word: that one cleans up."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def end_process(number: int) -> NoReturn:
    """End as a signal wants it: with all processes that were started, and without anything unfinished."""
    for item in SIGNALS:
        signal.signal(item, signal.SIG_IGN)  # an impatient second one must not keep this from being done
    # Processes first: they may still write into the folders that are removed next.
    temporary.stop_processes()
    temporary.remove_all()
    if os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb":
        os.write(2, _SHOW_CURSOR)  # which a display of progress has hidden
    os._exit(128 + number)


def _end_on_signal(number: int, _frame: FrameType | None) -> None:
    end_process(number)


def _open_streams() -> None:
    """Put something in the place of standard streams that are closed.

    A file that is opened later would take their numbers, and receive what is printed. What is written to stdout is an
    error then; nobody waits for what is written to stderr.
    """
    for number in range(3):
        if not _is_open(number):
            # POSIX, open(): the lowest descriptor that is free, so in this order each gets the number that is missing.
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]
    if sys.stderr is None:
        sys.stderr = sys.__stderr__ = os.fdopen(2, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
