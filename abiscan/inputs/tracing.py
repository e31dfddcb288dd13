"""The trace of a run: the decisions that lead to a verdict, in order, one line each.

Each room has a logger of the standard library below ``abiscan``: ``abiscan.linkage``, ``abiscan.python``, and so on. A
traced run decides everything anew, in one process after the other: it uses no answer that is kept from an earlier run,
and its results are those of any other run.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from abiscan.errors import InputError
from abiscan.inputs import destination as writable
from abiscan.words import clean

if TYPE_CHECKING:
    from logging import LogRecord

STDERR: Final = "-"
"""What users write for stderr."""

_FIX: Final = "pass another file with --trace"
_LONGEST: Final = 2_000
_destination: str | None = None  # there is one stream of decisions, so it is no field of anything


def is_on() -> bool:
    """Whether anybody wants to know the decisions."""
    logging = sys.modules.get("logging")  # whoever wants to know them has imported it; importing it takes time
    return logging is not None and logging.getLogger("abiscan").isEnabledFor(logging.DEBUG)


def trace_destination() -> str | None:
    """Return the file that the trace goes to; None if there is no trace."""
    return _destination


@contextlib.contextmanager
def trace_to(name: str) -> Iterator[None]:
    """Write the decisions of the meantime into a file; see ``begin_trace``."""
    global _destination
    begin_trace(name)
    try:
        yield
    finally:
        import logging

        logger, _destination = logging.getLogger("abiscan"), None
        for handler in [item for item in logger.handlers if isinstance(item, logging.StreamHandler)]:
            logger.removeHandler(handler)
            if handler.stream is not sys.stderr:
                handler.stream.close()
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


def begin_trace(name: str, *, anew: bool = True) -> None:
    """Write the decisions of this process, and of those that are forked from it, into a file, from now on.

    :param name: the file, or ``-`` for stderr
    :param anew: whether to drop what the file has
    :raises InputError: it cannot be written
    """
    import logging

    class Formatter(logging.Formatter):
        def format(self, record: LogRecord) -> str:
            return format_line(record.name, record.getMessage())

    class Handler(logging.StreamHandler):  # type: ignore[type-arg]
        def handleError(self, record: LogRecord) -> None:  # noqa: ARG002, N802 - the name in logging
            # A full disk must not end the run, nor print a traceback for each decision (logging.raiseExceptions).
            logger.removeHandler(self)
            print(f"abiscan: {name}: the trace ends here: {sys.exc_info()[1]}", file=sys.stderr)  # noqa: T201

    global _destination  # noqa: PLW0603
    if anew and name != STDERR:
        try:
            writable.check_writable(Path(name))  # a trace would destroy a library, or a wheel, as a report would
        except InputError as error:
            raise InputError(name, error.problem, _FIX) from error
    try:
        file = None if name == STDERR else Path(name).open("w" if anew else "a", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise InputError(name, f"cannot be written: {error.strerror}", _FIX) from error
    logger, handler = logging.getLogger("abiscan"), Handler(file or sys.stderr)
    handler.setFormatter(Formatter())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    # An application's own handlers do not get these lines a second time.
    logger.propagate = False
    _destination = name


def format_line(logger: str, message: str) -> str:
    """Return the line for a message: the room and the text, without what could steer a terminal or begin
    another line.
    """
    text = message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"
    return f"{logger.removeprefix('abiscan.')}: {clean(text)}"
