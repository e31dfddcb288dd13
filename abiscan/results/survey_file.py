"""The answers of a survey in a file that only grows, so that an interrupted survey resumes where it stopped."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from abiscan.errors import InputError
from abiscan.results.survey import SurveyEntry

_FIX = "pass another file with --output"

_BEGINNING: Final = b'{"version":1,'  # of each line: by that, one that was cut off is told from what is none
_FLAGS: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)  # no FIFO hangs
_BEYOND: Final = 1 << 40  # Windows locks bytes, which others then cannot read; these need not exist


def _lock(stream: io.FileIO) -> None:
    """Lock a file until it is closed.

    :raises OSError: it is locked
    """
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:
        msvcrt = importlib.import_module("msvcrt")
        stream.seek(_BEYOND)
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _appending(path: Path) -> io.FileIO:
    """Open a file for reading and appending, or make one.

    :raises InputError: it is no regular file, which could not be read again
    :raises OSError: it cannot be written
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return io.FileIO(descriptor, "a+")
    os.close(descriptor)
    raise InputError(str(path), "is no regular file, and a survey reads its answers again", _FIX)


class SurveyFile:
    """The lines of a survey. Only one survey at a time writes to a file.

    :param stream: the file, open for reading and appending
    """

    def __init__(self, path: Path, stream: io.FileIO) -> None:
        self._path, self._stream = path, stream
        self._answered: dict[tuple[str, str], str | None] = {}
        for entry in self._read(repair=True):
            self._answered[entry.target, entry.torch] = entry.sha256

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: Path) -> Iterator[SurveyFile]:
        """Open a file of answers, or begin one. A line that was cut off is removed: its answer is found again.

        :raises InputError: it cannot be written, another survey is writing to it, or it has something else in it
        """
        try:
            stream = _appending(path)
        except OSError as error:
            raise InputError(str(path), f"cannot be written: {error.strerror}", _FIX) from error
        with stream:
            try:
                _lock(stream)
            except OSError as error:
                raise InputError(str(path), "another survey is writing to it", "wait until it ends") from error
            yield cls(path, stream)

    def has(self, target: str, torch: str) -> bool:
        """Whether there is an answer."""
        return (target, torch) in self._answered

    def sha256(self, target: str, torch: str) -> str | None:
        """That of the target, when the answer was found; None if it is not one file."""
        return self._answered[target, torch]

    def add(self, lines: Sequence[str]) -> None:
        """Add the answers for one target.

        :raises InputError: the disk is full, or the like
        """
        try:
            rest = memoryview("".join(lines).encode())
            while rest:
                rest = rest[self._stream.write(rest) or 0 :]
        except OSError as error:
            raise InputError(str(self._path), f"cannot be written: {error.strerror}", "then run it again") from error

    def entries(self) -> Iterator[SurveyEntry]:
        """All answers, the latest one for each target and torch last."""
        return self._read(repair=False)

    def _read(self, *, repair: bool) -> Iterator[SurveyEntry]:
        self._stream.seek(0)
        lines = io.BufferedReader(self._stream)
        try:
            start = 0
            for number, line in enumerate(lines, 1):
                is_whole = line.endswith(b"\n")
                if not is_whole and _BEGINNING.startswith(line[: len(_BEGINNING)]):
                    if repair:
                        os.ftruncate(self._stream.fileno(), start)
                    return
                start += len(line)
                yield self._entry(number, line if is_whole else b"")
        finally:
            lines.detach()

    def _entry(self, number: int, line: bytes) -> SurveyEntry:
        try:
            return SurveyEntry.read(line.decode())
        except (ValueError, RecursionError) as error:
            problem = f"line {number} is not an answer of a survey by this version of abiscan"
            raise InputError(str(self._path), problem, _FIX) from error
