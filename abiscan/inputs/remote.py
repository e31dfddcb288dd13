"""Files on a server, read in place over HTTP ranges, and kept in a cache of limited size.

What was read stays in a sparse file; a list of its parts that are there is appended to only after they were written. So
an interrupted run is continued by the next one. A server that knows no ranges sends the file whole, once.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final

import httpx2

from abiscan.errors import InputError, UnreachableError
from abiscan.inputs.kept import allocated
from abiscan.inputs.web import Web
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

_NOTED: Final = 1 << 20
_TRIES: Final = 3
_RANGE: Final = regex(r"bytes (\d+)-(\d+)/(\d+)")
_AGAIN: Final = "run it again; if that does not help, the server is at fault"


class RemoteFile(io.RawIOBase):
    """A file on a server, for reading.

    :param sha256: of the whole file, as the index states it; None if it does not
    :param folder: of the cache
    """

    def __init__(self, web: Web, url: str, sha256: str | None, folder: Path) -> None:
        super().__init__()
        self._web = web
        self._url = url
        self._sha256 = sha256
        self.name = url.rpartition("/")[2].partition("#")[0]
        key = hashlib.sha256((sha256 or url).encode("utf-8", "backslashreplace")).hexdigest()
        self._data_path, self._parts_path = folder / f"{key}.data", folder / f"{key}.parts"
        self._position = 0
        self._size = -1
        self._tag: str | None = None
        self._parts: list[tuple[int, int]] = []
        self._next = 0  # where a sequential reader goes on
        self._ahead = _BLOCK
        self._data = self._opened(folder)

    def _opened(self, folder: Path) -> IO[bytes]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._read_parts()
            if not self._data_path.exists():
                self._forget()
                self._data_path.touch()
            self._data_path.touch()  # the time of its last use
            return self._data_path.open("r+b", buffering=0)
        except OSError as error:
            raise InputError(str(folder), f"cannot be written: {error.strerror or error}", "free some space") from error

    def _read_parts(self) -> None:
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            for line in self._parts_path.read_text("utf-8").splitlines():
                # A line that cannot be read is from a run that was killed.
                with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
                    known = json.loads(line)
                    if isinstance(known, dict):
                        self._size, self._tag = int(known["size"]), known["tag"]
                    else:
                        self._add(int(known[0]), int(known[1]))
        if self._size < 0 or any(end > self._size for _, end in self._parts):
            self._parts, self._size = [], -1

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
        self._data.seek(self._position)
        data = self._data.read(end - self._position)
        if len(data) != end - self._position:
            self._forget()
            raise InputError(self.name, "is damaged in the cache", "run it again")
        self._position = end
        return data

    def prefetch(self, parts: Iterable[tuple[int, int]]) -> None:
        """Have these parts, by their starts and ends: in few requests, and of what is elsewhere nothing."""
        wanted = [gap for start, end in sorted(parts) for gap in self._gaps(start, min(end, self.size))]
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
        gap = next(iter(self._gaps(start, end)), None)
        if gap is None:
            return
        self._ahead = min(2 * self._ahead, _LONGEST) if gap[0] == self._next else self._block
        self._missing(gap[0], min(self._size, max(end, gap[0] + self._ahead)))
        self._next = self._parts[bisect.bisect_right(self._parts, (gap[0], self._size + 1)) - 1][1]

    def _missing(self, start: int, end: int) -> None:
        for first, last in list(self._gaps(start, end)):
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
            self._write(at, part)
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
        """Keep a body that is the whole file."""
        self._check_encoding(response)
        self._forget()
        stated = response.headers.get("Content-Length", "")
        at = 0
        for part in self._web.received(response, self._url):
            if at + len(part) > CACHE_BYTES:
                raise self._error(f"is larger than the cache ({CACHE_BYTES >> 30} GiB)")
            self._write(at, part)
            at += len(part)
        if stated.isdigit() and int(stated) != at:
            raise self._error(f"the server sent {at} bytes instead of {stated}")
        self._know(at, response.headers.get("ETag"))
        self._have(0, at)

    def _check_encoding(self, response: httpx2.Response) -> None:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise self._error(f"the server sent it encoded with {encoding}, which was not asked for")

    def _write(self, at: int, part: bytes) -> None:
        try:
            self._data.seek(at)
            self._data.write(part)
        except OSError as error:
            problem = f"cannot be written: {error.strerror or error}"
            raise InputError(str(self._data_path.parent), problem, "free some space") from error

    def _know(self, size: int, tag: str | None) -> None:
        self._size, self._tag = size, tag
        self._note({"size": size, "tag": tag})

    def _have(self, start: int, end: int) -> None:
        if start < end:
            self._add(start, end)
            self._note([start, end])
        if self._sha256 is not None and self._parts == [(0, self._size)]:
            self._data.seek(0)
            digest = hashlib.sha256()
            while block := self._data.read(1 << 20):
                digest.update(block)
            if digest.hexdigest() != self._sha256:
                self._forget()
                raise self._error("is not the file that the index describes: its hash differs")

    def _note(self, what: object) -> None:
        with self._parts_path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(what) + "\n")

    def _forget(self) -> None:
        """Begin again: what is there is not, or no longer, of this file."""
        self._parts, self._size, self._tag = [], -1, None
        self._parts_path.unlink(missing_ok=True)

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

    def _error(self, problem: str) -> UnreachableError:
        return UnreachableError(self.name, problem, _AGAIN)


class _BrokenOffError(Exception):
    """A body ended early."""


def _asking(part: str | None) -> dict[str, str]:
    return {"Accept-Encoding": "identity", **({"Range": part} if part else {})}


def tidy(folder: Path, limit: int = CACHE_BYTES) -> None:
    """Delete what was not used for the longest time, until the cache is within its limit."""
    with contextlib.suppress(OSError):
        files = sorted(folder.glob("*.data"), key=lambda file: file.stat().st_mtime, reverse=True)
        total = 0
        for file in files:
            total += allocated(file.stat())
            if total > limit:
                file.unlink(missing_ok=True)
                file.with_suffix(".parts").unlink(missing_ok=True)
