"""The folder of what is kept between runs: each file is written whole, and together they stay within a limit.

What was not used for the longest time goes first; the time of the last use is the modification time of the file. If the
folder cannot be written (full disk, read-only home), runs take longer, but results are the same. Each file begins with
the hash of the rest: one that is damaged, a link, or no file of this user's counts as none, and is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from abiscan import regular
from abiscan.errors import InputError

DEFAULT_LIMIT: Final = 10**9
"""Bytes, unless the user sets another limit."""

_LIMIT: Final = "limit"  # the name of the file that has the user's
_KINDS: Final = (
    "*.operators",
    "*.headers",
    "*.layouts",
    "*.sources",
    "*.answer",
    "*.content",
    "*.plan",
    "*.plan.html",
    "*.part",
)
_DIGEST_SIZE: Final = 32
_WHEELS: Final = "wheels/*"  # which have a limit of their own
_DAY: Final = 24 * 3600  # the time of the last use need not be exact, and writing it takes time, too
_ABANDONED: Final = 3600  # a run that writes a file does not take longer


def measure_usage(folder: Path) -> tuple[int, int]:
    """Return the number of files, and the space that they take, in bytes."""
    sizes = [_size_of(file) for file in _files_of_kinds(folder, *_KINDS, _WHEELS)]
    return len(sizes), sum(sizes)


def delete_all(folder: Path) -> None:
    """Delete everything that is kept.

    :raises InputError: a file cannot be deleted
    """
    try:
        for file in _files_of_kinds(folder, *_KINDS, _WHEELS):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(str(folder), f"cannot be cleared: {error.strerror or error}") from error


def read_limit(folder: Path) -> int:
    """Return how many bytes are kept at most, without wheels."""
    with contextlib.suppress(OSError, ValueError):
        return int(read_checked(folder / _LIMIT))
    return DEFAULT_LIMIT


def set_limit(folder: Path, size: int) -> None:
    """Keep at most so many bytes, from now on.

    :raises InputError: the folder cannot be written
    """
    try:
        write_checked(folder / _LIMIT, str(size).encode())
    except OSError as error:
        raise InputError(str(folder), f"cannot be written: {error.strerror or error}") from error
    delete_oldest(folder)


def delete_oldest(folder: Path) -> None:
    """Delete what was not used for the longest time, until the rest is within the limit."""
    with contextlib.suppress(OSError):
        for path in list_oldest(folder, read_limit(folder), tuple(kind.removeprefix("*") for kind in _KINDS)):
            path.unlink(missing_ok=True)


def list_oldest(folder: Path, limit: int, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files of some kinds that were not used for the longest time, without which the rest is within a limit.

    :raises OSError: the folder cannot be read
    """
    total, now = 0, time.time()
    # Newest first: once the limit is passed, everything older goes. An abandoned part is removed at any age.
    for last_use, path, size in sorted(_listed(folder, suffixes), reverse=True):
        total += size
        if total > limit or (path.endswith(".part") and now - last_use > _ABANDONED):
            yield Path(path)


def note_use(file: Path) -> None:
    """Note that a file was used."""
    with contextlib.suppress(OSError):
        if time.time() - file.stat().st_mtime > _DAY:
            os.utime(file)


def read_checked(path: Path) -> bytes:
    """Read what was written.

    :raises OSError: there is no file of this user's
    :raises ValueError: it is damaged
    """
    with regular.open_regular(path, own=True) as stream:
        digest, content = stream.read(_DIGEST_SIZE), stream.read()
    if hashlib.sha256(content).digest() != digest:
        raise ValueError(f"{path} is damaged")
    return content


def write_checked(path: Path, content: bytes) -> None:
    """Write a file whole, or not at all.

    :raises OSError: it cannot be written
    """
    with replace_whole(path) as part:
        part.write_bytes(hashlib.sha256(content).digest() + content)


@contextlib.contextmanager
def replace_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary file next to ``path``: it replaces ``path`` at the end, or is deleted after an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        # Atomic in one folder: a reader sees the old file or the new one, whole.
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _files_of_kinds(folder: Path, *kinds: str) -> list[Path]:
    """List the files of some kinds, sorted by name."""
    return sorted(file for kind in kinds for file in folder.glob(kind)) if folder.is_dir() else []


def _listed(folder: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[float, str, int]]:
    """Yield the last use, the path and the size of each file of some kinds. There are thousands of them."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(suffixes):
                with contextlib.suppress(OSError):  # another run may delete it
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime, entry.path, allocated_size(status)


def _size_of(file: Path) -> int:
    """Return the space that a file takes, 0 if it is gone."""
    with contextlib.suppress(OSError):  # another run may delete it
        return allocated_size(file.stat())
    return 0


def allocated_size(status: os.stat_result) -> int:
    """Return how much of the disk a file takes, in bytes: those of wheels are sparse. Windows does not tell."""
    blocks = getattr(status, "st_blocks", None)
    return status.st_size if blocks is None else min(status.st_size, blocks * 512)
