"""The files that a lock names: found on an index where it has no addresses, fetched several at a time, kept by hash.

Which packages use torch is known before anything is fetched: indexes have the metadata of a wheel next to it (PEP 658).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final, TypeAlias, TypeVar, cast

import msgspec.json
import msgspec.structs
from packaging.requirements import InvalidRequirement, Requirement

from abiscan.cache import cache_folder
from abiscan.errors import AbiscanError, InputError, raise_together
from abiscan.index.client import Index, Settings, settings_of_pip
from abiscan.index.remote import RemoteFile
from abiscan.index.system import System
from abiscan.index.web import Web
from abiscan.inputs import observed_fs
from abiscan.inputs.files import Wheel
from abiscan.inputs.packages import FetchedWheel, RemoteWheel, path_of_url
from abiscan.inputs.requirement import required_by
from abiscan.inputs.session import Session
from abiscan.inputs.spreading import find_metadata
from abiscan.locks.model import FromWhere, LockedFile, LockedPackage

_FOLDER: Final = "wheels"
_THREADS: Final = 8
_WHOLE: Final = 64 << 20
"""A wheel up to this size is fetched whole, and its hash compared; of a larger one, only what is needed is read."""

_LARGEST_METADATA: Final = 8 << 20
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


LockedSource: TypeAlias = Path | FetchedWheel | RemoteWheel
"""A file of a lock, as a target."""


class _LaterWeb:
    """Connections that are made as they are used: what is kept needs none."""

    def __init__(self, connect: Callable[[], Web]) -> None:
        self._connect = connect

    def __getattr__(self, name: str) -> object:
        web = self._connect()
        self.__dict__.update({key: getattr(web, key) for key in ("get", "get_stream", "receive_body")})
        return getattr(web, name)


class LockStore:
    """The files of locks, for one run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folder = session.folder / _FOLDER
        self._own = threading.local()
        self._asking = threading.Lock()
        self._settings_known: Settings | None = None
        self._open: dict[tuple[int, str], IO[bytes]] = {}
        self._located: dict[tuple[LockedPackage, System], LockedFile | InputError | None] = {}
        self._requires: dict[LockedFile, tuple[str, ...] | None] = {}

    @property
    def _settings(self) -> Settings:
        with self._asking:  # one of the threads asks pip
            self._settings_known = self._settings_known or settings_of_pip(None, self._session.index)
            return self._settings_known

    def locate(self, packages: Sequence[LockedPackage], system: System) -> dict[LockedPackage, LockedFile | None]:
        """Return the file of each package that is installed on a system; None where nothing but source code is.

        :raises AbiscanError: an index cannot be read, or has other files than the lock
        """
        wanted = [package for package in packages if (package, system) not in self._located]
        named = {package: package.choose_file(system) for package in wanted}
        asked = [item for item in wanted if named[item] is None and _is_on_index(item)]
        if asked:
            self._session.progress(f"asking the index for {len(asked)} packages")
        files = dict(zip(asked, self._map_in_threads(asked, lambda item: self._ask_index(item, system)), strict=True))
        self._located |= {(item, system): files.get(item, named[item]) for item in wanted}
        located = {item: self._located[item, system] for item in packages}
        raise_together([error for error in located.values() if isinstance(error, AbiscanError)])
        return {item: file for item, file in located.items() if not isinstance(file, InputError)}

    def _ask_index(self, package: LockedPackage, system: System) -> LockedFile | InputError | None:
        """Return the file that an index has for a package, as an earlier run found it if the lock has its hash: of what
        has another one, there cannot be more.
        """
        question = package.name, package.version, sorted(package.hashes), package.index, system.python, system.platforms
        path = self._folder / f"{hashlib.sha256(repr(question).encode()).hexdigest()}.page"
        if package.hashes:
            with contextlib.suppress(OSError, ValueError):
                return msgspec.json.decode(cache_folder.read_checked(path), type=LockedFile | None)
        file = self._find_on_index(package, system)
        if package.hashes and not isinstance(file, InputError):
            with contextlib.suppress(OSError):
                cache_folder.write_checked(path, msgspec.json.encode(file))
        return file

    def _find_on_index(self, package: LockedPackage, system: System) -> LockedFile | InputError | None:
        try:
            index = self._index_for(package.index, system)
            (candidate, *_) = index.candidates(Requirement(f"{package.name}=={package.version}"))
            if candidate.unfit:
                return None
            url, sha256 = index.origin(candidate)
        except (InputError, InvalidRequirement) as error:
            if isinstance(error, InputError) and "only source code" in error.problem:
                return None
            return error if isinstance(error, InputError) else InputError(str(package), f"cannot be asked for: {error}")
        if package.hashes and sha256 is not None and sha256 not in package.hashes:
            problem = f"the index has another {candidate.wheel} than the lock: its SHA-256 is {sha256}"
            return InputError(str(package), problem, "lock the project again, or use the index that it was locked with")
        path = path_of_url(url) if url.startswith("file:") else None
        only = next(iter(package.hashes)) if len(package.hashes) == 1 else None
        return LockedFile(name=candidate.wheel, url=None if path else url, path=path, sha256=sha256 or only)

    def requirements(self, files: Mapping[LockedFile, bool]) -> Mapping[LockedFile, tuple[str, ...] | None]:
        """Return what the metadata of wheels require; None for those that have none next to them.

        :param files: the wheels, and whether the end of one may be read that has no metadata next to it
        :raises AbiscanError: a server cannot be reached
        """
        wanted = [file for file in files if file not in self._requires]
        if wanted:
            self._session.progress(f"reading what {len(wanted)} packages require")
        read = self._map_in_threads(wanted, lambda file: self._read_requirements(file, inside=files[file]))
        self._requires |= zip(wanted, read, strict=True)
        return self._requires

    def _read_requirements(self, file: LockedFile, *, inside: bool) -> tuple[str, ...] | None:
        if file.url is None:
            return _required_in(Wheel(Path(file.path or file.name)), file.name)
        key = hashlib.sha256(f"{file.url} {file.sha256}".encode()).hexdigest()
        path = self._folder / f"{key}.page"
        try:
            content = cache_folder.read_checked(path)
        except (OSError, ValueError):
            page = self._web.get(f"{file.url}.metadata", largest=_LARGEST_METADATA)
            content = b"" if page.is_error else page.content
            if file.sha256:  # that there are none is kept, too
                with contextlib.suppress(OSError):
                    cache_folder.write_checked(path, content)
        if not content and inside:
            with self._remote(file) as remote:
                return _required_in(Wheel(Path(file.name), cast("IO[bytes]", remote)), file.name)
        return required_by(content.decode("utf-8", "replace"), f"{file.name}.metadata") if content else None

    def fetch(self, files: Iterable[LockedFile]) -> dict[LockedFile, LockedSource]:
        """Return files as targets: each is what the lock says that it is.

        :raises AbiscanError: one is not, or cannot be had
        """
        wanted = list(dict.fromkeys(files))
        self._session.progress(f"downloading {len(wanted)} packages that use torch")
        errors = [error for error in self._map_in_threads(wanted, self._fetch) if error is not None]
        raise_together(errors)
        return {file: self._source_of(file) for file in wanted}

    def _fetch(self, file: LockedFile) -> InputError | None:
        try:
            if file.url is None:
                return _compare_local(file)
            with self._remote(file) as remote:
                size = remote.size
                if file.size is not None and size != file.size:
                    return InputError(
                        file.name, f"has {size:,} bytes on the server, and {file.size:,} in the lock", _AGAIN
                    )
                if size <= _WHOLE or file.name.endswith(_CONDA_SUFFIXES):
                    remote.prefetch([(0, size)])
        except InputError as error:
            return error
        return None

    def _remote(self, file: LockedFile) -> RemoteFile:
        return RemoteFile(self._web, file.url or "", file.sha256, self._folder)

    def _source_of(self, file: LockedFile) -> LockedSource:
        if file.url is not None and not file.name.endswith(_CONDA_SUFFIXES):
            return RemoteWheel(path=Path(file.name), stream=functools.partial(self._stream, file))
        if file.url is not None:
            path = Path(tempfile.mkdtemp(prefix="abiscan-"), file.name)
            with self._remote(file) as remote, path.open("wb") as copy:
                shutil.copyfileobj(remote, copy)
        else:
            path = Path(file.path or file.name)
        return FetchedWheel(path=path) if path.suffix == ".whl" else path

    def _stream(self, file: LockedFile) -> IO[bytes]:
        # Each process that shares the work opens the file for itself: its position is its own.
        key = os.getpid(), file.url or ""
        if key not in self._open:
            self._open[key] = cast("IO[bytes]", self._remote(file))
        return self._open[key]

    @property
    def _web(self) -> Web:
        """The connections of this thread, in this process: made as the first of them is used."""
        if getattr(self._own, "process", None) != os.getpid():
            self._own.process, self._own.indexes = os.getpid(), {}
            self._own.web = cast("Web", _LaterWeb(self._connect))
        web: Web = self._own.web
        return web

    def _connect(self) -> Web:
        settings = self._settings
        return Web(
            self._folder,
            index_urls=settings.index_urls,
            trusted_hosts=settings.trusted_hosts,
            verify=settings.certificates,
            proxy=settings.proxy,
        )

    def _index_for(self, url: str | None, system: System) -> Index:
        _ = self._web  # which makes what is this thread's own
        indexes: dict[object, Index] = self._own.indexes
        if (url, system) not in indexes:
            urls = (url,) if url else self._settings.index_urls
            indexes[url, system] = Index(msgspec.structs.replace(self._settings, index_urls=urls), system, self._folder)
        return indexes[url, system]

    def _map_in_threads(self, items: Sequence[_Item], find: Callable[[_Item], _Found]) -> list[_Found]:
        """Call a function for each item, several at a time: most of it is waiting for servers."""
        if len(items) < 2:
            return [find(item) for item in items]
        with ThreadPoolExecutor(min(_THREADS, len(items))) as pool:
            return list(pool.map(find, items))


_AGAIN: Final = "lock the project again; the file is not the one that was locked"
_CONDA_SUFFIXES: Final = (".conda", ".tar.bz2")


def _required_in(wheel: Wheel, subject: str) -> tuple[str, ...] | None:
    name = find_metadata(wheel.list_members())
    return required_by(wheel.read_text(name), subject) if name else None


def _is_on_index(package: LockedPackage) -> bool:
    """Whether the lock leaves it to an index which files there are."""
    return package.origin is FromWhere.INDEX and package.version is not None and not (package.files or package.sources)


def _compare_local(file: LockedFile) -> InputError | None:
    path = Path(file.path or file.name)
    if not observed_fs.is_file(path):
        return InputError(str(path), "does not exist, and the lock names it", "lock the project again")
    if file.sha256 is not None and observed_fs.hash_file(path) != file.sha256:
        return InputError(str(path), "is not the file that the lock names: its hash differs", _AGAIN)
    return None
