"""How regular files are opened, and nothing else: a pipe or a device with the name of a library would never end."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO, Final

_FLAGS: Final = sum(
    getattr(os, name, 0) for name in ("O_RDONLY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT")
)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_KINDS: Final = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a disk", stat.S_IFSOCK: "a socket"}


def open_regular(path: str | os.PathLike[str], *, own: bool = False, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading.

    :param own: whether it must be this user's, and no link
    :raises OSError: it cannot be opened, or is something else
    """
    descriptor = os.open(path, _FLAGS | (_NO_LINK if own else 0))
    try:
        require_regular(os.fstat(descriptor), own=own)
        # What was checked is what is read: the descriptor, not the path, which may be another file by now.
        return open(descriptor, "rb", buffering)  # noqa: PTH123 - a descriptor, which the caller closes
    except BaseException:
        os.close(descriptor)
        raise


def require_regular(status: os.stat_result, *, own: bool = False) -> None:
    """Reject what is not a regular file.

    :param own: whether it must be this user's
    :raises OSError: it is something else
    """
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, and not a file; write its content to a file, and pass that")
    if own and hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is another user's")
