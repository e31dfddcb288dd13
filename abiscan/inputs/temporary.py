"""What must not outlive this process: temporary files and folders, and the processes that it has started.

Code that finishes removes what it made itself. This is for a process that is ended before: the command line asks it to
clean up when a signal arrives, and for the process that reads targets, which cannot do so when it is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from abiscan.errors import InputError
from abiscan.inputs import isolation
from abiscan.regex import regex

_PROCESSES: Final = Path("/proc")
_PR_SET_CHILD_SUBREAPER: Final = 36
_SECONDS_TO_END: Final = 0.4
_SIGKILL: Final = 9

_PART: Final = regex(r"\.abiscan-[0-9a-f]{16}\.part")

_paths: set[Path] = set()


def part_of(path: Path) -> Path:
    """Return a name next to a file for what is to replace it, which nobody can foresee."""
    return path.with_name(f".abiscan-{os.urandom(8).hex()}.part")


def is_part(path: Path) -> bool:
    """Whether it is such a name."""
    return bool(_PART.fullmatch(path.name))


@contextlib.contextmanager
def note_temporary(path: Path) -> Iterator[None]:
    """Have a file or folder removed at the end of the block, or of this process if it is ended before."""
    _paths.add(path)
    # The watching process outlives this one even if it gets SIGKILL, and removes what it was told of.
    if is_part(path):  # everything else is in the folder that goes with this process
        isolation.tell_temporary(path)
    try:
        yield
    finally:
        _paths.discard(path)
        _remove_path(path)


def add_temporary(path: Path) -> None:
    """Have a file or folder removed that another process makes, if it is still there when ``remove_all`` is called."""
    _paths.add(path)


def remove_all() -> None:
    """Remove all that has been noted and is still there."""
    while _paths:
        _remove_path(_paths.pop())


def _remove_path(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def new_folder() -> Path:
    """Return a new temporary folder.

    :raises InputError: none can be made
    """
    try:
        return Path(tempfile.mkdtemp(prefix="abiscan-"))
    except OSError as error:
        raise unwritable_error(error) from error


def unwritable_error(error: OSError) -> InputError:
    """Return the error for a temporary file that cannot be written."""
    problem = f"cannot be written: {error.strerror or error}"
    fix = "free some space, lift the limit on the size of files, or name another folder in TMPDIR"
    return InputError("the folder for temporary files", problem, fix)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Provide a temporary folder."""
    path = new_folder()
    with note_temporary(path):
        yield path


def adopt_orphans(*, orphans: bool) -> None:
    """Tell whether processes become children of this one when those that started them end (Linux).

    Otherwise they would be nobody's, and ``stop_processes`` could not find them.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(*map(ctypes.c_ulong, (_PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)))


def stop_processes(roots: Collection[int] | None = None) -> None:
    """Ask processes to end, and if they do not so soon, kill them (Linux).

    They get SIGTERM whatever this one got: from a terminal, they have got that as well, and some would take a second
    SIGINT for an error.

    :param roots: these processes, and all that they have started; None for all that this one has started
    """
    if not _PROCESSES.is_dir():
        return
    deadline = time.monotonic() + _SECONDS_TO_END
    asked = set[int]()
    # In rounds: a process may start others until it has ended, and these are found by their parents, not by a group,
    # which a program can leave.
    while alive := _descendants(roots):
        is_late = time.monotonic() > deadline
        for pid in alive if is_late else alive - asked:
            with contextlib.suppress(OSError):
                os.kill(pid, _SIGKILL if is_late else signal.SIGTERM)
        asked |= alive
        if roots is None:
            _reap_children()
        if time.monotonic() > deadline + _SECONDS_TO_END:
            return  # it hangs in the kernel, as on a network disk that is gone
        time.sleep(0.005)


def _reap_children() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants(roots: Collection[int] | None) -> set[int]:
    """Return the processes that were started by this one, or by the roots and these themselves, and have not ended."""
    parents = dict[int, int]()
    for entry in _PROCESSES.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # proc_pid_stat(5): the name in brackets may contain spaces and brackets, so fields are counted from the
                # last ")".
                state, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    parents[int(entry.name)] = int(parent)
    started = set(roots).intersection(parents) if roots is not None else set()
    ancestors = {os.getpid()} if roots is None else set(started)
    # From generation to generation, until none has further children.
    while following := {pid for pid, parent in parents.items() if parent in ancestors} - started:
        started |= following
        ancestors = following
    return started
