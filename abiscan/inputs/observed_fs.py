"""What a run looks at on this machine: files, folders, links, variables. A ``Record`` writes it down.

An answer that is kept from an earlier run holds as long as everything that the run looked at is still as it was. So
whatever reads this machine asks here first, and never bypasses the record.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from abiscan import regular
from abiscan.errors import InputError

Seen: TypeAlias = str | list[int] | None
"""What was seen: None where there was nothing."""

StrPath: TypeAlias = str | os.PathLike[str]

_PYTHON_VARIABLES: Final = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "HOME")
_BLOCK: Final = 1 << 20
_SOURCES: Final = (".py", ".pyi")
_LISTING: Final = ("RECORD", "METADATA")
_COMPILED: Final = "__pycache__"
"""The folder that Python makes as it first imports a module next to it (PEP 3147): no answer depends on it."""
_SIZE: Final = 1  # where ``status_of`` has it
_HASHES: Final[dict[tuple[int, ...], str]] = {}  # by the versions of files: the same one is asked for by several rooms
_LARGE: Final = 64 << 20
"""Bytes: to hash such a library takes as long as to find out what is kept about it."""
_CLOCK_TICK: Final = 20_000_000  # nanoseconds: two changes of a file in one tick of the system's clock look like one


class Record:
    """What a run has looked at so far.

    ``is_final`` says that something was looked at which cannot be looked at again, such as a server.

    :param outer: the record around it, whose first observations count here, too
    """

    def __init__(self, outer: Record | None = None) -> None:
        self._outer = outer
        self.seen: dict[str, dict[str, Seen]] = {sense: {} for sense in _SENSES}
        self.is_final = False
        self._started = time.time_ns()

    def add_observation(self, sense: str, name: str) -> None:
        """Look at something, if that was not done before."""
        if name not in self.seen[sense]:
            self.seen[sense][name] = self._outer.observe(sense, name) if self._outer else _SENSES[sense](name)

    def observe(self, sense: str, name: str) -> Seen:
        """Look at something, if that was not done before, and return what was seen."""
        self.add_observation(sense, name)
        return self.seen[sense][name]

    def leave_out(self, folder: str) -> None:
        """Forget what was looked at below a folder: it decides on nothing that is not known otherwise."""
        beginning = f"{folder}/"
        self.seen = {
            sense: {name: seen for name, seen in items.items() if name != folder and not name.startswith(beginning)}
            for sense, items in self.seen.items()
        }

    @property
    def sizes(self) -> Mapping[str, int]:
        """The regular files that were looked at, with their sizes."""
        return {
            name: seen[_SIZE]
            for name, seen in self.seen["file"].items()
            if isinstance(seen, list) and len(seen) > _SIZE  # a folder has its kind alone
        }

    def still_holds(self) -> bool:
        """Whether a change from now on would show."""
        return self.shows_changes and is_unchanged(self.seen)

    @property
    def shows_changes(self) -> bool:
        """Whether a change since the first look would show."""
        # The last number of a status is the time of its last change. A file that changed as the run began, or later,
        # may have changed twice within a tick of the clock, after it was read and before: its status would be the same.
        statuses = (*self.seen["file"].values(), *self.seen["sources"].values())
        changed = (status[-1] for status in statuses if isinstance(status, list) and len(status) > 1)
        return not self.is_final and max(changed, default=0) < self._started - _CLOCK_TICK


_record: ContextVar[Record | None] = ContextVar("record", default=None)


@contextlib.contextmanager
def record_observations() -> Iterator[Record]:
    """Write down what is looked at in the meantime, for a surrounding record as well."""
    outer = _record.get()
    record = Record(outer)
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)
        if outer is not None:
            # The outer answer depends on everything that an inner one depends on.
            outer.is_final |= record.is_final
            add_observations(record.seen)


@contextlib.contextmanager
def nothing_recorded() -> Iterator[None]:
    """Write down nothing in the meantime: whoever asks knows what comes of it, or that it may be different tomorrow."""
    token = _record.set(None)
    try:
        yield
    finally:
        _record.reset(token)


def add_observations(seen: Mapping[str, Mapping[str, Seen]]) -> None:
    """Write down what was seen before, and still stands."""
    if record := _record.get():
        for sense, item in seen.items():
            # The first observation counts: if something has changed since then, the record must become invalid.
            record.seen[sense] = {**item, **record.seen[sense]}


def is_unchanged(seen: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether everything that was seen is still there, unchanged.

    :raises KeyError: it is not what a ``Record`` has
    """
    return all(_SENSES[sense](name) == before for sense, item in seen.items() for name, before in item.items())


def look_once() -> None:
    """Note that what is looked at now cannot be looked at again: the record does not stand for it."""
    if record := _record.get():
        record.is_final = True


def current_folder() -> str:
    """Return the current folder, by which relative paths go.

    :raises InputError: it has been deleted, or nothing in it can be reached
    """
    try:
        folder = os.getcwd()  # noqa: PTH109
        os.stat(os.path.join(os.curdir, os.curdir))  # noqa: PTH116, PTH118 - may what is in it be looked up?
    except OSError as error:
        problem = f"cannot be used: {error.strerror}"
        raise InputError("the current folder", problem, "change to another") from error
    return folder


def _add_observation(sense: str, name: StrPath) -> None:
    if record := _record.get():
        record.add_observation(sense, os.fspath(name))


def stat_file(path: StrPath) -> os.stat_result | None:
    """Return the status of a file or folder that is going to be read, or tested for; None if it cannot be had."""
    _add_observation("file", path)
    return _find_status(path)


def path_exists(path: StrPath) -> bool:
    """Whether there is a file or folder."""
    return stat_file(path) is not None


def is_file(path: StrPath) -> bool:
    """Whether there is a regular file."""
    status = stat_file(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def is_dir(path: StrPath) -> bool:
    """Whether there is a folder."""
    status = stat_file(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def read_file(path: StrPath) -> bytes:
    """Return the bytes of a file.

    :raises OSError: it cannot be read
    """
    with open_file(path) as stream:
        return stream.read()


def read_compiled(path: StrPath, size: int) -> bytes:
    """Return the first bytes of what Python has compiled, none if it has not; the record does not have it, since it
    only saves work that comes to the same.
    """
    with contextlib.suppress(OSError, ValueError), regular.open_regular(path, buffering=0) as stream:
        return stream.read(size)
    return b""


def open_file(path: StrPath, *, buffering: int = -1) -> BinaryIO:
    """Return a regular file, open for reading.

    :raises OSError: it cannot be opened, or is not a regular file
    """
    _add_observation("file", path)
    return regular.open_regular(path, buffering=buffering)


def hash_file(path: StrPath) -> str:
    """Return the hash of the bytes of a file, in hexadecimal: computed once, as long as the file does not change.

    :raises OSError: it cannot be read
    """
    with open_file(path) as stream:  # mapping it would take as much memory
        version = _settled_version(os.fstat(stream.fileno()))
        if version is not None and (kept_digest := _HASHES.get(version)):
            return kept_digest
        digest = hashlib.sha256()
        while block := stream.read(_BLOCK):
            digest.update(block)
    if version is not None:
        _HASHES[version] = digest.hexdigest()
    return digest.hexdigest()


def identify_content(path: StrPath) -> str:
    """Return what no other bytes have: the hash of a file; of a large one, what it has been since its last change.

    :raises OSError: it cannot be read
    """
    status = stat_file(path)
    version = _settled_version(status) if status is not None and status.st_size >= _LARGE else None
    return hash_file(path) if version is None else str(version)


def _settled_version(status: os.stat_result) -> tuple[int, ...] | None:
    """Return what tells versions of a file apart; None if it changed just now, since another change would not show."""
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    version = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return version if changed < time.time_ns() - _CLOCK_TICK else None


def list_names(folder: StrPath) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be read."""
    _add_observation("names", folder)
    return _sorted_names(folder)


def walk_folder(folder: StrPath) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield as ``os.walk`` does, in the order of names: that of the file system differs between copies of a folder."""
    _add_observation("names", folder)  # it may not be there
    # Sorted in place, so that a caller can still remove the subfolders that are not to be entered.
    for place, subfolders, files in os.walk(folder):
        _add_observation("names", place)
        subfolders.sort()
        files.sort()
        yield place, subfolders, files


def observe_packages(site: str) -> None:
    """Look at the names and versions of the packages that are installed in a folder."""
    _add_observation("packages", site)


def observe_sources(folder: StrPath) -> Seen:
    """Look at which Python files are below a folder, and return what tells their versions apart."""
    name = os.fspath(folder)
    if record := _record.get():
        return record.observe("sources", name)
    return _see_sources(name)


def list_sources(folder: StrPath) -> Iterator[os.DirEntry[str]]:
    """Yield the Python files and stubs below a folder, in no order; what it looks at is in ``observe_sources``."""
    waiting = [os.fspath(folder)]
    while waiting:
        with contextlib.suppress(OSError, ValueError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(_SOURCES):
                    yield entry
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def resolve_links(path: StrPath) -> str:
    """Return the path without links."""
    _add_observation("real", path)
    return os.path.realpath(path)


def find_program(program: str) -> str | None:
    """Return the path of a program on the search path, whose relative folders do not count."""
    _add_observation("which", program)
    return _search_programs(program)


def observe_python(executable: str, folders: Iterable[str] = ()) -> None:
    """Look at what an interpreter's answers depend on: itself, its configuration, and its path files in ``folders``."""
    # All that decides the sys.path of a Python: variables, links to its executable, pyvenv.cfg next to it or one folder
    # up (PEP 405), and the .pth files that the module site reads.
    for name in _PYTHON_VARIABLES:
        _add_observation("variable", name)
    _add_observation("file", executable)
    _add_observation("real", executable)
    for configuration in ("pyvenv.cfg", "../pyvenv.cfg"):
        _add_observation("file", os.path.join(os.path.dirname(executable), configuration))  # noqa: PTH118, PTH120
    for folder in folders:
        _add_observation("path files", folder)


def read_variable(name: str) -> str | None:
    """Return an environment variable."""
    _add_observation("variable", name)
    return os.environ.get(name)


def _find_status(path: StrPath) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - thousands of them
    except (OSError, ValueError):
        return None


def status_of(path: str) -> Seen:
    """Return what tells versions of a file apart: the time of the last change of its status cannot be set back."""
    status = _find_status(path)
    if status is None:
        return None
    if not stat.S_ISREG(status.st_mode):
        return [stat.S_IFMT(status.st_mode)]
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _sorted_names(folder: StrPath) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths
    except (OSError, ValueError):
        return []


def _search_programs(program: str) -> str | None:
    """Return the path of a program, which is not looked for in the current folder, nor in another relative one."""
    # An empty entry of PATH means the current folder, which may be a stranger's: it is not absolute either.
    folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    path = shutil.which(program, path=os.pathsep.join(folders))
    # Before Python 3.12, Windows looks there all the same.
    return path if path and Path(path).is_absolute() else None


def _see_names(folder: str) -> Seen:
    if os.path.basename(folder) == _COMPILED:  # noqa: PTH119 - thousands of them
        return _hash_texts(())
    return _hash_texts(name for name in _sorted_names(folder) if name != _COMPILED)


def _see_packages(site: str) -> Seen:
    """Return the metadata in a folder: where they change, an installer gives their folder a new one or a new name."""
    # An installer that replaces a package by the same version writes its RECORD anew; an editor, only what it edits.
    folders = (name for name in _sorted_names(site) if name.endswith((".dist-info", ".egg-info", ".egg-link")))
    files = (os.path.join(name, file) for name in folders for file in _LISTING)  # noqa: PTH118
    return _hash_texts(f"{name} {status_of(os.path.join(site, name))}" for name in files)  # noqa: PTH118


def _see_path_files(folder: str) -> Seen:
    files = (name for name in _sorted_names(folder) if name.endswith((".pth", ".egg-link")))
    return _hash_texts(f"{name} {status_of(os.path.join(folder, name))}" for name in files)  # noqa: PTH118


def _see_sources(folder: str) -> Seen:
    """Return a number for all paths and statuses, and the time of the last change."""
    digest, changed = hashlib.sha256(), 0
    for entry in sorted(list_sources(folder), key=lambda entry: entry.path):
        with contextlib.suppress(OSError):
            status = entry.stat()
            numbers = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            digest.update(f"{entry.path}\0{numbers}\0".encode("utf-8", "surrogateescape"))
            changed = max(changed, status.st_ctime_ns)
    return [int.from_bytes(digest.digest()[:6], "big"), changed]


def _hash_texts(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


_SENSES: Final[dict[str, Callable[[str], Seen]]] = {
    "file": status_of,
    "names": _see_names,
    "packages": _see_packages,
    "path files": _see_path_files,
    "sources": _see_sources,
    "real": os.path.realpath,
    "which": _search_programs,
    "variable": os.environ.get,
}
