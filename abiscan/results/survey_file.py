"""The answers of a survey in a file that grows, so that an interrupted survey resumes where it stopped.

Answers are added as they are found. A survey that ends puts them in order, so that the same targets make the same file,
whatever the number of processes, and however often it was interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from abiscan.errors import InputError
from abiscan.inputs import destination
from abiscan.results.survey import SurveyEntry

_FIX = "pass another file with --output"


_BEGINNING: Final = b'{"version":1,'  # of each line: by that, one that was cut off is told from what is none
_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)  # no FIFO hangs
_BEYOND: Final = 1 << 40  # Windows locks bytes, which others then cannot read; these need not exist
_LOCKED: Final = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # the last two on Windows


def _lock_file(stream: IO[bytes]) -> bool:
    """Lock a file until it is closed; False if somebody else has.

    Some network folders have no locks (flock(2): ENOLCK, ENOSYS, EOPNOTSUPP). There, a survey does without.
    """
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:
        msvcrt = importlib.import_module("msvcrt")
        stream.seek(_BEYOND)
        lock = functools.partial(msvcrt.locking, stream.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        # The lock belongs to the open file and ends with it, however the process does (flock(2)).
        lock = functools.partial(fcntl.flock, stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        lock()
    except OSError as error:
        return error.errno not in _LOCKED
    return True


def _open_appending(path: Path) -> IO[bytes]:
    """Open a file for reading and appending, or make one.

    :raises InputError: it is not a regular file, which could not be read again
    :raises OSError: it cannot be written
    """
    # O_APPEND: answers go to the end, whatever was read in between, and a killed survey cuts off the last line alone.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "a+b")
    os.close(descriptor)
    raise InputError(str(path), "is not a regular file, and a survey reads its answers again", _FIX)


class SurveyFile:
    """The lines of a survey. Only one survey at a time writes to a file.

    :param stream: the file, open for reading and appending
    """

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self._path, self._stream = path, stream
        self._answered: dict[tuple[str, str], str | None] = {}
        for entry in self._read_entries(repair=True):
            # The last line for a target and torch counts: an answer that was found again follows the old one.
            self._answered[entry.target, entry.torch] = entry.sha256

    @classmethod
    @contextlib.contextmanager
    def open_answers(cls, path: Path) -> Iterator[SurveyFile]:
        """Open a file of answers, or begin one. A line that was cut off is removed: its answer is found again.

        :raises InputError: it cannot be written, another survey is writing to it, or it has something else in it
        """
        try:
            stream = _open_appending(path)
        except OSError as error:
            raise InputError(str(path), f"cannot be written: {error.strerror}", _FIX) from error
        with stream:
            if not _lock_file(stream):
                raise InputError(str(path), "another survey is writing to it", "wait until it ends")
            file = cls(path, stream)
            try:
                yield file
            finally:
                with contextlib.suppress(OSError):  # of what ``add_lines`` could not write
                    file._stream.close()

    def has_answer(self, target: str, torch: str) -> bool:
        """Whether there is an answer."""
        return (target, torch) in self._answered

    def answered_hash(self, target: str, torch: str) -> str | None:
        """Return that of the target, when the answer was found; None if it is not one file."""
        return self._answered[target, torch]

    def add_lines(self, lines: Sequence[str]) -> None:
        """Add the answers for one target.

        :raises InputError: the disk is full, or the like
        """
        try:
            self._stream.write("".join(lines).encode())
            self._stream.flush()
        except OSError as error:
            raise InputError(str(self._path), f"cannot be written: {error.strerror}", "then run it again") from error

    def read_entries(self) -> Iterator[SurveyEntry]:
        """Return all answers, the latest one for each target and torch last."""
        return self._read_entries(repair=False)

    def sort_answers(self, targets: Sequence[str], torches: Sequence[str]) -> None:
        """Put the answers in the order of the targets and torches; answers for others come first, as they are.

        Where the file cannot be replaced, it stays as it is.
        """
        ranks = {key: number for number, key in enumerate(itertools.product(targets, torches), 1)}
        places, start = list[tuple[int, int, int]](), 0
        for entry, length in self._entries_with_length(repair=False):
            places.append((ranks.get((entry.target, entry.torch), 0), start, length))
            start += length
        # A file that is in order stays as it is, byte for byte and with its date.
        if places == sorted(places):
            return
        with contextlib.suppress(OSError, InputError):
            with destination.write_whole(self._path) as stream:
                for _, start, length in sorted(places):
                    self._stream.seek(start)
                    stream.write(self._stream.read(length))
            # The lock ends with the old file; the new one has the same answers, and the survey is over.
            self._stream.close()
            self._stream = _open_appending(self._path)

    def _read_entries(self, *, repair: bool) -> Iterator[SurveyEntry]:
        return (entry for entry, _ in self._entries_with_length(repair=repair))

    def _entries_with_length(self, *, repair: bool) -> Iterator[tuple[SurveyEntry, int]]:
        """Yield each entry, and the length of its line."""
        self._stream.seek(0)
        start = 0
        for number, line in enumerate(self._stream, 1):
            is_whole = line.endswith(b"\n")
            if not is_whole and _BEGINNING.startswith(line[: len(_BEGINNING)]):
                if repair:
                    os.ftruncate(self._stream.fileno(), start)
                return
            start += len(line)
            try:
                yield SurveyEntry.read(line.decode() if is_whole else ""), len(line)
            except (ValueError, RecursionError) as error:
                problem = f"line {number} is not an answer of a survey by this version of abiscan"
                raise InputError(str(self._path), problem, _FIX) from error
