"""Where output goes that a user names: a file is replaced whole or not at all, everything else is written in place.

A symbolic link stays, and what it leads to is written. Devices, pipes and open descriptors (``/dev/stdout``) are no
files to replace: whoever named them wants them to receive the output.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from abiscan import regular
from abiscan.errors import InputError
from abiscan.inputs import isolation, temporary
from abiscan.regex import regex

_MOST_LINKS: Final = 40  # as many as Linux follows
_DESCRIPTOR: Final = regex(r"/dev/fd/(\d+)|/proc/(self|thread-self|\d+)(?:/task/\d+)?/fd/(\d+)")
_READ_ONLY: Final = "it is read-only"
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL
_IN_PLACE: Final = os.O_WRONLY | getattr(os, "O_NOCTTY", 0)
_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

# Errors of making a file, or of replacing one, that do not keep the same file from being written in place: its folder
# is read-only or another user's, or the file is a mount of its own, as in a container.
_ONLY_IN_PLACE: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV)

# ELF; ZIP (wheels, archives of torch); PE; Mach-O and its fat files, in both byte orders. No report begins so.
_INPUTS: Final = (
    *(b"\x7fELF", b"PK\x03\x04", b"MZ"),
    *(b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"),
)


class _Place(Struct, frozen=True, kw_only=True):
    """What a path leads to.

    ``path`` has no link left; ``status`` is None if nothing is there yet; ``descriptor`` is the one of this process
    that the path stands for.
    """

    path: Path
    status: os.stat_result | None
    descriptor: int | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is a file that can be replaced, or will be one."""
        return self.descriptor is None and (self.status is None or stat.S_ISREG(self.status.st_mode))


def check_writable(path: Path) -> None:
    """Find out whether a report can go to a path, as far as that is known before there is one.

    :raises InputError: it cannot, or would replace a library or an archive
    """
    with _errors_named(path):
        place = _follow_path(path)
        if place.status is not None and place.is_file:
            if not os.access(place.path, os.W_OK):
                raise PermissionError(errno.EACCES, _READ_ONLY)
            # A command line with the arguments swapped, ``--output my.whl``, must not cost the user a wheel.
            with contextlib.suppress(PermissionError), regular.open_regular(place.path) as stream:
                if stream.read(4).startswith(_INPUTS):
                    problem = "is a library or an archive, which the output would replace"
                    raise InputError(str(path), problem, "name another file")


def claim_right(path: Path) -> None:
    """Keep the right to write to a path, when this process gives up that to write at all."""
    with contextlib.suppress(OSError, InputError):  # which ``write_whole`` raises
        place = _follow_path(path)
        # A file is replaced by one that is made next to it, so its folder must be writable as well.
        if place.descriptor is None:
            isolation.may_write(place.path)
        if place.is_file:
            isolation.may_write(place.path.parent)


def lead_to_same_file(item: Path, second: Path) -> bool:
    """Whether two paths lead to one file; devices and the like are no files here.

    :raises InputError: output can go to neither of them
    """
    with _errors_named(item):
        place = _follow_path(item)
    with contextlib.suppress(OSError, InputError):
        counterpart = _follow_path(second)
        if place.is_file and counterpart.is_file:
            if place.status is not None and counterpart.status is not None:
                return os.path.samestat(place.status, counterpart.status)
            return place.path == counterpart.path
    return False


@contextlib.contextmanager
def write_whole(path: Path) -> Iterator[IO[bytes]]:
    """Provide a file to write to; if the block ends without an error, ``path`` receives what is in it.

    :raises InputError: it cannot be written; what was there before is still there, unless it is written in place
    """
    with _errors_named(path):
        place = _follow_path(path)
        # The new file is made in the same folder, since a rename is atomic inside of one file system only (rename(2)).
        part = temporary.part_of(place.path)
        with temporary.note_temporary(part):
            handle = _make_next_to(part, place) if place.is_file else None
            # What cannot be replaced is written at the very end, too: an error in the block then leaves it as it was.
            with tempfile.TemporaryFile() if handle is None else os.fdopen(handle, "w+b") as stream:
                yield stream
                stream.flush()
                if handle is None:
                    _write_in_place(stream, place)
            if handle is not None:
                _replace_file(part, place)


def _make_next_to(part: Path, place: _Place) -> int | None:
    """Make a file next to the one that it is to replace; None if only that file itself can be written."""
    if place.status is not None and not os.access(place.path, os.W_OK):
        raise PermissionError(errno.EACCES, _READ_ONLY)
    try:
        descriptor = os.open(part, _NEW_FILE | _FLAGS, 0o666)  # less the umask, as for any new file
    except OSError as error:
        # Without a file to write in place, there is no second way: the error says why.
        if place.status is not None and error.errno in _ONLY_IN_PLACE:
            return None
        raise
    if place.status is not None:
        # chown first: it clears the bits for setuid and setgid (chown(2)), which chmod then restores.
        with contextlib.suppress(OSError, AttributeError):  # only root may, and Windows has no such function
            os.chown(part, place.status.st_uid, place.status.st_gid)
        with contextlib.suppress(OSError):  # some disks keep no permissions
            part.chmod(stat.S_IMODE(place.status.st_mode))
    return descriptor


def _replace_file(part: Path, place: _Place) -> None:
    try:
        part.replace(place.path)
    except OSError as error:
        if place.status is None or error.errno not in _ONLY_IN_PLACE:
            raise
        with part.open("rb") as stream:
            _write_in_place(stream, place)


def _write_in_place(stream: IO[bytes], place: _Place) -> None:
    """Write in place what a file contains."""
    stream.seek(0)
    if place.descriptor is None:
        # A pipe or a device is not truncated: some devices do not allow it.
        truncating = os.O_TRUNC if place.is_file else 0
        target = os.open(place.path, _IN_PLACE | truncating | _FLAGS)
    else:
        target = os.dup(place.descriptor)
    with os.fdopen(target, "wb", buffering=0) as raw:
        while chunk := memoryview(stream.read(1 << 20)):
            while chunk:
                # A write to a pipe may take a part only.
                chunk = chunk[raw.write(chunk) or 0 :]


def _follow_path(path: Path) -> _Place:
    """Return what a path leads to.

    :raises OSError: it leads nowhere
    :raises InputError: it is nothing to write to
    """
    current = os.fspath(path)
    for _ in range(_MOST_LINKS):
        # Links are followed one by one, and only the folder by ``realpath``, since /dev/stdout leads to
        # /proc/self/fd/1, which must be seen: ``realpath`` would go on to the file or pipe that is open there.
        folder, name = os.path.split(current)
        current = os.path.join(os.path.realpath(folder or "."), name)  # noqa: PTH118 - a name may be "..", or none
        match = _DESCRIPTOR.fullmatch(current)
        if match:
            # The descriptor of another process may be opened with other rights, and written at another position.
            if match[2] not in (None, "self", "thread-self", str(os.getpid())):
                raise InputError(str(path), "is a descriptor of another process", "name a file")
            number = int(match[1] or match[3])
            return _Place(path=path, status=os.fstat(number), descriptor=number)
        if not os.path.islink(current):  # noqa: PTH114
            break
        current = os.path.join(os.path.dirname(current), os.readlink(current))  # noqa: PTH115, PTH118, PTH120
    else:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    try:
        status = os.stat(current)  # noqa: PTH116
    except FileNotFoundError:
        status = None
    if status is None and not os.path.isdir(os.path.dirname(current)):  # noqa: PTH112, PTH120
        folder = os.path.dirname(current)  # noqa: PTH120
        raise InputError(str(path), f"cannot be written: the folder {folder} does not exist", f"mkdir -p {folder}")
    if status is not None:
        _refuse_kind(path, status.st_mode)
    return _Place(path=Path(current), status=status)


def _refuse_kind(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        problem = "cannot be written: it is a folder"
        raise InputError(str(path), problem, f"name a file in it, such as {path / 'report'}")
    if stat.S_ISBLK(mode):
        raise InputError(str(path), "is a disk, which the output would damage", "name a file")
    if stat.S_ISSOCK(mode):
        raise InputError(str(path), "is a socket", "name a file, or a pipe to a program that writes to the socket")


@contextlib.contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror or error}") from error
