"""The process that reads targets, as seen from inside: what it may use, and what it tells the process that watches it.

A command reads targets in a process of its own, so that an error in a parser costs one result and nothing else. From
the first target on, this process can write nowhere but in its scratch folder, in the cache and next to the reports that
the user asked for, and it cannot connect to anything. Landlock enforces that where the kernel has it (Linux 5.13; TCP
from 6.7, signals and abstract sockets from 6.12). The limits on processor time and memory do not need it.

Without ``enter_isolation``, as in the Python API, nothing of this happens. Some commands do not give up everything: see
``Confinement``.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import signal
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from abiscan.errors import AbiscanError, InternalError, StoppedError
from abiscan.inputs import observed_fs

CPU_SECONDS: Final = 1_800
"""The processor time that a target may take on one torch, or on all that are compared."""

MEMORY: Final = 8 << 30
"""The memory that the process may take, files that it maps not counted."""

_LIMITS: Final[dict[int, int]] = {}
try:
    import resource
except ImportError:  # Windows, where nothing is limited
    pass
else:
    _LIMITS.update({resource.RLIMIT_DATA: MEMORY, resource.RLIMIT_FSIZE: 8 << 30, resource.RLIMIT_CORE: 0})
_SECONDS_TO_REPORT: Final = 600

# The numbers of the calls are the same on all machines (Documentation/userspace-api/landlock.rst).
# include/uapi/linux/landlock.h: what changes files; making, removing and writing any kind.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_WRITE_FILE: Final = 1 << 1
_CHANGES: Final = _WRITE_FILE | 0b1_1111_1111 << 4
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_TCP: Final = 0b11  # bind, connect
_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 0b11
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_SIGKILL: Final = 9


class Confinement(enum.Enum):
    """What the process gives up from the first target on, besides time and memory without limits."""

    OFFLINE = "it writes only where it may, and connects to nothing"
    ONLINE = "it writes only where it may"
    NONE = "nothing: other programs do their work in it"


class _Worker:
    """This process.

    :param pipe: is read by the process that watches this one
    :param stopped: the targets that ended an earlier such process, and why
    """

    def __init__(self, pipe: int, stopped: Mapping[str, str], scratch: Path, confinement: Confinement) -> None:
        self.pipe = pipe
        self.stopped = stopped
        self.writable = {scratch}
        self.confinement = confinement
        self.confined = confinement is Confinement.NONE
        self.is_branch = False

    def send_message(self, message: object) -> None:
        os.write(self.pipe, json.dumps(message).encode() + b"\n")


_worker: _Worker | None = None  # a process has one fate, so it is no field of anything


def enter_isolation(
    pipe: int,
    stopped: Mapping[str, str],
    scratch: Path,
    confinement: Confinement = Confinement.OFFLINE,
    *,
    parent: int,
) -> None:
    """Make this process the one that reads targets.

    :param pipe: for the names of the targets, one line of JSON each before it is read; null once all are; a list has
        the temporary files that this process makes elsewhere than in ``scratch``
    :param stopped: the targets that are not to be read, and why
    :param scratch: the folder for temporary files
    :param parent: the process that watches this one, and with which it ends
    """
    global _worker  # noqa: PLW0603
    _worker = _Worker(pipe, stopped, scratch, confinement)
    tempfile.tempdir = str(scratch)
    os.environ["TMPDIR"] = str(scratch)
    limit_memory()
    die_with(parent)


def die_with(parent: int) -> None:
    """Have the system kill this process once another one ends, or the thread of it that started this one (Linux).

    :param parent: the process that has started this one, and may have ended since
    """
    if sys.platform == "linux":
        _call_prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        # prctl(2), PR_SET_PDEATHSIG: no signal comes for a parent that has ended before.
        if os.getppid() != parent:  # it ended before the system was told
            os.kill(os.getpid(), _SIGKILL)


def is_apart() -> bool:
    """Whether this process is the one that reads targets, which may split its work."""
    return _worker is not None and not _worker.is_branch


def is_first() -> bool:
    """Whether no earlier process of this command was ended by a target."""
    return _worker is None or not _worker.stopped


def enter_branch(parent: int) -> None:
    """Give this process, forked from the one that reads targets, limits of its own.

    :param parent: that process
    """
    if _worker is not None:
        _worker.is_branch = True
    die_with(parent)
    limit_time(CPU_SECONDS)


def die_of(number: int, target: str) -> None:
    """End as another process did that was reading a target."""
    if _worker is not None:
        _worker.send_message(target)
    with contextlib.suppress(OSError, ValueError):  # some signals cannot be handled in the first place
        # Python ignores some signals, SIGPIPE for one, and then the process would survive its own.
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def limit_memory() -> None:
    """Bound the memory of this process, and the size of files that it writes."""
    for limit, most in _LIMITS.items():
        _set_limit(limit, most)


def limit_time(seconds: int) -> None:
    """Let the system end this process after some more seconds of processor time."""
    if not _LIMITS:
        return
    # RLIMIT_CPU counts from the start of the process, so what it has used is added.
    used = resource.getrusage(resource.RUSAGE_SELF)
    _set_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds)


def inherited_seconds() -> int | None:
    """Return the processor time after which the system kills any process of this user's shell; None without limit."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1] if _LIMITS else -1
    return hard if hard >= 0 else None


def _set_limit(limit: int, most: int) -> None:
    # An administrator's limit may be lower; nobody but root can raise a hard limit again.
    hard = resource.getrlimit(limit)[1]
    resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def may_write(path: Path, *, make: bool = False) -> None:
    """Let this process write into a folder, or to a file or device, since the user asked for it.

    :param make: whether to make the folder, which is not possible later
    """
    if _worker is not None:
        _worker.writable.add(path)
        if make:
            with contextlib.suppress(OSError):
                path.mkdir(parents=True, exist_ok=True)


def tell_temporary(path: Path) -> None:
    """Announce a temporary file: the process that watches this one removes it if this one is killed."""
    if _worker is not None:
        _worker.send_message([os.fsdecode(path)])


def begin_target(target: str) -> None:
    """Announce that a target is read from now on.

    :raises StoppedError: it has ended an earlier process
    """
    if _worker is None:
        return
    if target in _worker.stopped:
        observed_fs.look_once()  # it may get further on another day
        raise StoppedError(target, _worker.stopped[target], "run it with abiscan --no-isolation to see where")
    # Not in ``enter_isolation``: imports, the cache folder and downloads come before the first target, and need more.
    if not _worker.confined:
        _worker.confined = True
        confine_process(_worker.writable, online=_worker.confinement is Confinement.ONLINE)
    _worker.send_message(target)
    limit_time(CPU_SECONDS)


@contextlib.contextmanager
def turn_of(target: str) -> Iterator[None]:
    """Turn what ends the work on a target into an error about it, so that the others have their turn.

    :param target: as the user named it
    :raises InputError: it cannot be read, takes too much memory, or meets a bug
    """
    try:
        yield
    # The last is about whoever reads what this process writes.
    except (AbiscanError, BrokenPipeError):
        raise
    # Only this target is given up: its memory is free for the others.
    except MemoryError:
        observed_fs.look_once()  # another day, there may be more
        raise StoppedError(target, "it needs more memory than is available") from None
    except Exception as error:
        from abiscan.inputs.installation import describe_damage, describe_fault

        if describe_damage(error):
            raise  # no target is to blame, and no answer can be trusted
        observed_fs.look_once()  # a bug is no answer to keep
        raise InternalError(target, describe_fault(error), "abiscan --trace FILE has the traceback") from error


def finish_targets() -> None:
    """Announce that all targets have been read."""
    if _worker is not None:
        _worker.send_message(None)
        limit_time(_SECONDS_TO_REPORT)


def landlock_version() -> int:
    """Return the version of the kernel's Landlock; less than 1 if it has none."""
    import ctypes

    nothing = ctypes.c_size_t(0)
    return int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, nothing, ctypes.c_uint32(_VERSION)))


def confine_process(writable: Collection[Path], *, online: bool = False) -> int:
    """Give up for good what reading files does not need: to write outside of some folders and files, and to connect.

    :param online: whether it may connect nevertheless
    :return: the version of Landlock that enforces it; 0 where the kernel has none
    """
    import ctypes

    libc, version = ctypes.CDLL(None), landlock_version()
    if version < 1:
        return 0
    changes = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    # Each version of Landlock has more rights; the kernel rejects those that it does not know (EINVAL, E2BIG). So the
    # struct is cut off behind what version 1, 4 or 6 has: files, TCP, then abstract sockets and signals.
    handled = (changes, 0 if online else _TCP, _ABSTRACT_SOCKETS_AND_SIGNALS)[
        : 1 if version < 4 else 2 if version < 6 else 3
    ]
    attributes = (ctypes.c_uint64 * len(handled))(*handled)
    rules = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(ctypes.sizeof(attributes)), ctypes.c_uint32(0))
    if rules < 0:
        return 0
    # A rule for a file must not name rights that only folders have (landlock_add_rule(2), EINVAL).
    on_file = _WRITE_FILE | (changes & _TRUNCATE)
    for path in (*writable, Path(os.devnull)):
        allowed = changes if path.is_dir() else on_file
        with contextlib.suppress(OSError):  # what does not exist cannot be written
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            # struct landlock_path_beneath_attr is packed: 8 bytes of rights, 4 of a descriptor.
            beneath = allowed.to_bytes(8, "little") + descriptor.to_bytes(4, "little")
            libc.syscall(_ADD_RULE, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), beneath, ctypes.c_uint32(0))
            os.close(descriptor)
    # Required of a process without CAP_SYS_ADMIN: or else it could confine a setuid program that it starts.
    _call_prctl(_PR_SET_NO_NEW_PRIVS, 1)
    done = libc.syscall(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    os.close(rules)
    return version if done == 0 else 0


def _call_prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(*map(ctypes.c_ulong, (option, value, 0, 0, 0)))
