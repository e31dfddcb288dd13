"""Files on a server, read in place over HTTP ranges, and kept in a cache of limited size.

What was read stays in a sparse file; a list of its parts that are there, with their hashes, is appended to only after
they were written. So an interrupted run is continued by the next one, and a part that is damaged is read again. The two
belong to one address and one stated hash: what another server says of a file with the same hash is not believed. A
server that knows no ranges sends the file whole, once. Where the cache cannot be written, the file is a temporary one.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import io
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

import httpx2

from abiscan import regular
from abiscan.cache.kept import allocated
from abiscan.errors import InputError, UnreachableError
from abiscan.index.web import Web
from abiscan.regex import regex

CACHE_BYTES: Final = 4 << 30
"""The size of the cache on disk, beyond which the files that were not used for the longest time are deleted."""

_TAIL: Final = 32 << 10
"""Read first: the directory of a zip file is at its end, and the metadata of most wheels are just before it."""

_APART: Final = 4 << 10
"""Parts that lie closer together are asked for at once, with what is between them."""

_BLOCK: Final = 32 << 10
_LARGEST_BLOCK: Final = 1 << 20
_BLOCKS: Final = 256
"""Of a large file, larger parts are read, so that it does not take hundreds of requests."""

_LONGEST: Final = 2 << 20
_SMALL: Final = 512 << 10
"""A file of this size takes less time to fetch whole than in parts."""

_LARGEST: Final = 4 << 30
"""No wheel is larger: the largest of torch has 3 GB."""

_NOTED: Final = 1 << 20
_TRIES: Final = 3
_RANGE: Final = regex(r"bytes (\d+)-(\d+)/(\d+)")
_DATA: Final = (
    os.O_RDWR
    | os.O_CREAT
    | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"))
)
_SHA256: Final = regex(r"[0-9a-f]{64}")
_AGAIN: Final = "run it again; if that does not help, the server is at fault"


def sound_hash(stated: object) -> str | None:
    """A SHA-256 as an index states it, in lower case; None if it is none, or cannot be that of anything."""
    text = stated.lower() if isinstance(stated, str) else ""
    return text if _SHA256.fullmatch(text) and text.strip("0") else None


class RemoteFile(io.RawIOBase):
    """A file on a server, for reading.

    :param sha256: of the whole file, as the index states it; None if it does not
    :param folder: of the cache
    """

    def __init__(self, web: Web, url: str, sha256: str | None, folder: Path) -> None:
        super().__init__()
        self._web = web
        self._url = url
        self._sha256 = sound_hash(sha256)
        self.name = url.rpartition("/")[2].partition("#")[0]
        key = _key(url, self._sha256)
        self._folder, self._data_path = folder, folder / f"{key}.data"
        self._parts_path: Path | None = folder / f"{key}.parts"  # None for a temporary file
        self._position = 0
        self._size = -1
        self._tag: str | None = None
        self._kept: list[tuple[int, int, str]] = []  # what an earlier run read: not checked yet, with hashes
        self._parts: list[tuple[int, int]] = []  # what is there, and sound
        self._next = 0  # where a sequential reader goes on
        self._ahead = _BLOCK
        self._data = self._opened()

    def _opened(self) -> IO[bytes]:
        """The file of the cache, or a temporary one."""
        if self._parts_path is None:
            return self._temporary()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            data = os.fdopen(os.open(self._data_path, _DATA, 0o600), "r+b", buffering=0)
            try:
                regular.require_regular(os.fstat(data.fileno()), own=True)
                os.utime(self._data_path)  # the time of its last use
                self._read_parts()
            except BaseException:
                data.close()
                raise
        except OSError:
            return self._temporary()
        return data

    def _temporary(self) -> IO[bytes]:
        """A file that goes with this process.

        :raises InputError: it cannot be made, either
        """
        self._parts_path = None
        try:
            return tempfile.TemporaryFile(buffering=0)
        except OSError as error:
            raise _unwritable(error) from error

    def _read_parts(self) -> None:
        assert self._parts_path is not None
        try:
            with regular.opened(self._parts_path, own=True) as stream:
                lines = stream.read().decode("ascii", "replace").splitlines()
        except FileNotFoundError:
            lines = []
        for line in lines:
            # A line that cannot be read is from a run that was killed, or damaged.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                check, _, text = line.partition(" ")
                if check != _check_of(text):
                    continue
                known = json.loads(text)
                if isinstance(known, dict):
                    self._size, self._tag = int(known["size"]), known["tag"]
                else:
                    start, end, digest = known
                    self._kept.append((int(start), int(end), str(digest)))
        if not 0 <= self._size <= _LARGEST or any(not 0 <= start < end <= self._size for start, end, _ in self._kept):
            self._kept, self._size = [], -1

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move the position."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size if whence == io.SEEK_END else 0}
        self._position = max(0, start[whence] + offset)
        return self._position

    @property
    def size(self) -> int:
        """Its size in bytes."""
        if self._size < 0:
            self._begin()
        return self._size

    @property
    def _block(self) -> int:
        """How much is read at once, at least."""
        return min(max(self.size // _BLOCKS, _BLOCK), _LARGEST_BLOCK)

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""
        end = self.size if size < 0 else min(self._position + size, self.size)
        if end <= self._position:
            return b""
        self._require(self._position, end)
        data = self._there(self._position, end)
        if len(data) != end - self._position:
            self._forget()
            raise InputError(self.name, "was changed in the cache while it was read", "run it again")
        self._position = end
        return data

    def prefetch(self, parts: Iterable[tuple[int, int]]) -> None:
        """Have these parts, by their starts and ends: in few requests, and of what is elsewhere nothing."""
        wanted = [gap for start, end in sorted(parts) for gap in self._lacking(start, min(end, self.size))]
        joined: list[tuple[int, int]] = []
        for start, end in wanted:
            first, last = joined.pop() if joined and start - joined[-1][1] < _APART else (start, end)
            joined.append((first, max(last, end)))
        for start, end in joined:
            self._missing(start, end)

    def close(self) -> None:
        """Close the file of the cache."""
        if not self.closed:
            self._data.close()
        super().close()

    def _begin(self) -> None:
        """The size and the end of the file; or all of it."""
        with self._web.get_stream(self._url, headers=_asking(f"bytes=-{_TAIL}")) as response:
            if response.status_code == httpx2.codes.PARTIAL_CONTENT:
                start, end, size = self._range_of(response)
                if end != size:
                    raise self._error(f"the server sent the bytes from {start} to {end} instead of the last ones")
                self._know(size, response.headers.get("ETag"))
                with contextlib.suppress(_BrokenOffError):  # what is still missing is asked for again
                    self._receive(response, start, end)
                if size <= _SMALL:
                    self._missing(0, size)
                return
            if response.status_code == httpx2.codes.OK:
                self._receive_whole(response)
                return
        with self._web.get_stream(self._url, headers=_asking(None)) as response:
            if response.status_code != httpx2.codes.OK:
                raise self._error(f"the server answers {response.status_code}: {response.reason_phrase}")
            self._receive_whole(response)

    def _require(self, start: int, end: int) -> None:
        """Have these bytes in the cache, and some more if they are read one after the other."""
        gap = next(iter(self._gaps(start, end)), None) and next(iter(self._lacking(start, end)), None)
        if gap is None:
            return
        self._ahead = min(2 * self._ahead, _LONGEST) if gap[0] == self._next else self._block
        self._missing(gap[0], min(self._size, max(end, gap[0] + self._ahead)))
        self._next = self._parts[bisect.bisect_right(self._parts, (gap[0], self._size + 1)) - 1][1]

    def _missing(self, start: int, end: int) -> None:
        for first, last in self._lacking(start, end):
            for left in reversed(range(_TRIES)):
                here = next(self._gaps(first, last), None)
                if here is None:
                    break
                try:
                    self._fetch(*here)
                except _BrokenOffError as error:
                    if not left:
                        raise self._error(str(error)) from error

    def _fetch(self, start: int, end: int) -> None:
        with self._web.get_stream(self._url, headers=_asking(f"bytes={start}-{end - 1}")) as response:
            if response.status_code == httpx2.codes.OK:  # it changed its mind about ranges
                self._receive_whole(response)
                return
            if response.status_code != httpx2.codes.PARTIAL_CONTENT:
                raise self._error(f"the server answers {response.status_code}: {response.reason_phrase}")
            got = self._range_of(response)
            if got[2] != self._size or response.headers.get("ETag") != self._tag:
                self._forget()
                raise self._error("has changed on the server while it was read")
            if got[0] != start or got[1] > end:
                raise self._error(f"the server sent the bytes from {got[0]} to {got[1]} instead of {start} to {end}")
            self._receive(response, start, got[1])

    def _receive(self, response: httpx2.Response, start: int, end: int) -> None:
        """Keep the body of a response, which is these bytes of the file.

        :raises _BrokenOffError: it is shorter; what came is kept
        """
        self._check_encoding(response)
        at, noted, broken = start, start, None
        parts = self._web.received(response, self._url)
        while True:
            try:
                part = next(parts, None)
            except UnreachableError as error:
                broken = error
                break
            if part is None:
                break
            if at + len(part) > end:
                raise self._error("the server sent more than it said")
            self._write(at, part, noted)
            at += len(part)
            if at - noted >= _NOTED and at < end:  # in case the run is killed
                self._have(noted, at)
                noted = at
        self._have(noted, at)
        if broken is not None:
            raise _BrokenOffError(broken.problem) from broken
        if at != end:
            raise _BrokenOffError(f"the server sent {at - start} bytes instead of {end - start}")

    def _receive_whole(self, response: httpx2.Response) -> None:
        """Keep a body that is the whole file; what cannot be continued does not stay."""
        self._check_encoding(response)
        self._forget()
        try:
            self._receive_all(response)
        except BaseException:
            self._forget()
            raise

    def _receive_all(self, response: httpx2.Response) -> None:
        stated = response.headers.get("Content-Length", "")
        at = 0
        for part in self._web.received(response, self._url):
            if at + len(part) > _LARGEST:
                raise self._too_large()
            self._write(at, part, 0)
            at += len(part)
        if stated.isdigit() and int(stated) != at:
            raise self._error(f"the server sent {at} bytes instead of {stated}")
        self._know(at, response.headers.get("ETag"))
        for start in range(0, at, _NOTED):
            self._have(start, min(start + _NOTED, at))

    def _check_encoding(self, response: httpx2.Response) -> None:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise self._error(f"the server sent it encoded with {encoding}, which was not asked for")

    def _there(self, start: int, end: int) -> bytes:
        """These bytes of the file of the cache; fewer if it is shorter."""
        try:
            self._data.seek(start)
            return self._data.read(end - start)
        except OSError:
            return b""

    def _write(self, at: int, part: bytes, since: int) -> None:
        """Write a part of the file; where the cache takes no more, go on in a temporary file.

        :param since: where what has just been received begins, and is not noted yet
        """
        try:
            _write_all(self._data, at, part)
        except OSError as error:
            if self._parts_path is None:
                raise _unwritable(error) from error
            with self._data as cached:
                parts = [*self._parts, (since, at)]
                self._kept = []
                self._delete()
                self._data = self._temporary()
                try:
                    for start, end in parts:
                        cached.seek(start)
                        for here in range(start, end, _NOTED):
                            _write_all(self._data, here, cached.read(min(_NOTED, end - here)))
                    _write_all(self._data, at, part)
                except OSError as another:
                    raise _unwritable(another) from another

    def _know(self, size: int, tag: str | None) -> None:
        if size > _LARGEST:
            raise self._too_large()
        self._size, self._tag = size, tag
        self._note({"size": size, "tag": tag})

    def _have(self, start: int, end: int) -> None:
        if start < end:
            self._add(start, end)
            self._note([start, end, hashlib.sha256(self._there(start, end)).hexdigest()])
        known = sum(stop - begin for begin, stop, _ in self._kept) + sum(stop - begin for begin, stop in self._parts)
        if self._sha256 is not None and known >= self._size and not self._lacking(0, self._size):
            digest = hashlib.sha256()
            for at in range(0, self._size, _NOTED):
                digest.update(self._there(at, min(at + _NOTED, self._size)))
            if digest.hexdigest() != self._sha256:
                self._forget()
                raise self._error("is not the file that the index describes: its hash differs")

    def _note(self, what: object) -> None:
        """Add a line to the list of parts; one that is not whole is read as none."""
        if self._parts_path is not None:
            text = json.dumps(what)
            with contextlib.suppress(OSError):
                descriptor = os.open(self._parts_path, _DATA | os.O_APPEND, 0o600)
                try:
                    regular.require_regular(os.fstat(descriptor), own=True)
                    os.write(descriptor, f"{_check_of(text)} {text}\n".encode())
                finally:
                    os.close(descriptor)

    def _forget(self) -> None:
        """Begin again: what is there is not, or no longer, of this file."""
        self._parts, self._kept, self._size, self._tag = [], [], -1, None
        self._data.close()
        self._delete()  # another run may read the same file: it goes on with what it has open
        self._data = self._opened()

    def _delete(self) -> None:
        """Delete what is in the cache."""
        if self._parts_path is not None:
            for path in (self._parts_path, self._data_path):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def _lacking(self, start: int, end: int) -> list[tuple[int, int]]:
        """What of these bytes is to be read, once what an earlier run has kept of them is checked."""
        wanted = list(self._gaps(start, end))
        if wanted and self._kept:
            touched = [part for part in self._kept if any(part[0] < last and part[1] > first for first, last in wanted)]
            self._kept = [part for part in self._kept if part not in touched] if touched else self._kept
            for first, last, digest in touched:
                if hashlib.sha256(self._there(first, last)).hexdigest() == digest:
                    self._add(first, last)
            wanted = list(self._gaps(start, end))
        return wanted

    def _add(self, start: int, end: int) -> None:
        kept = [part for part in self._parts if part[1] < start or part[0] > end]
        touched = [part for part in self._parts if part not in kept]
        merged = (min([start, *(part[0] for part in touched)]), max([end, *(part[1] for part in touched)]))
        bisect.insort(kept, merged)
        self._parts = kept

    def _gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for first, last in list(self._parts):
            if first >= end:
                break
            if last > start:
                if first > start:
                    yield start, first
                start = last
        if start < end:
            yield start, end

    def _range_of(self, response: httpx2.Response) -> tuple[int, int, int]:
        match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        start, last, size = map(int, match.groups()) if match else (0, 0, 0)
        if not start <= last < size:
            raise self._error(f"the server sent a wrong Content-Range: {response.headers.get('Content-Range')}")
        return start, last + 1, size

    def _too_large(self) -> UnreachableError:
        return self._error(f"is larger than any wheel ({_LARGEST >> 30} GiB)")

    def _error(self, problem: str) -> UnreachableError:
        return UnreachableError(self.name, problem, _AGAIN)


class _BrokenOffError(Exception):
    """A body ended early."""


def _asking(part: str | None) -> dict[str, str]:
    return {"Accept-Encoding": "identity", **({"Range": part} if part else {})}


def _key(url: str, sha256: str | None) -> str:
    """What tells files apart: the address without credentials and signatures, and the hash that is stated there."""
    parts = urlsplit(url)
    address = url if sha256 is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return hashlib.sha256(json.dumps([address, sha256]).encode()).hexdigest()


def _check_of(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _write_all(file: IO[bytes], at: int, part: bytes) -> None:
    """Write at an offset: a disk that is nearly full takes less than it is given."""
    file.seek(at)
    view = memoryview(part)
    while view:
        view = view[file.write(view) :]


def _unwritable(error: OSError) -> InputError:
    problem = f"cannot be written: {error.strerror or error}"
    return InputError("the folder for temporary files", problem, "free some space, or name another folder in TMPDIR")


def tidy(folder: Path, limit: int = CACHE_BYTES) -> None:
    """Delete what was not used for the longest time, until the cache is within its limit."""
    with contextlib.suppress(OSError):
        files = [*folder.glob("*.data"), *folder.glob("*.page")]
        total = 0
        for file in sorted(files, key=lambda file: file.lstat().st_mtime, reverse=True):
            total += allocated(file.lstat())
            if total > limit:
                file.unlink(missing_ok=True)
                file.with_suffix(".parts").unlink(missing_ok=True)
