"""Read files on a server in place, over HTTP ranges, and keep what was read in a cache of limited size.

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
from abiscan.cache.cache_folder import list_oldest
from abiscan.errors import InputError, UnreachableError
from abiscan.index.hashes import sound_hash
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
_AGAIN: Final = "run it again; if that does not help, the server is at fault"


class RemoteFile(io.RawIOBase):
    """A file on a server, for reading.

    :param sha256: of the whole file, as the index states it; None if it does not
    :param folder: of the cache
    """

    def __init__(self, web: Web, url: str, sha256: str | None, folder: Path) -> None:
        super().__init__()
        # Two lists of parts: those that this run has received or checked, and those that an earlier run has noted.
        self._web = web
        self._url = url
        self._sha256 = sound_hash(sha256)
        self.name = url.rpartition("/")[2].partition("#")[0]
        key = _key_of(url, self._sha256)
        self._folder, self._data_path = folder, folder / f"{key}.data"
        self._parts_path: Path | None = folder / f"{key}.parts"  # None for a temporary file
        self._position = 0
        self._size = -1
        self._tag: str | None = None
        self._kept: list[tuple[int, int, str]] = []  # what an earlier run read: not checked yet, with hashes
        self._parts: list[tuple[int, int]] = []  # what is there, and sound
        self._next = 0  # where a sequential reader goes on
        self._ahead = _BLOCK
        self._data = self._open_data()

    def _open_data(self) -> IO[bytes]:
        """Open the file of the cache, or a temporary one."""
        if self._parts_path is None:
            return self._open_temporary()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            data_file = os.fdopen(os.open(self._data_path, _DATA, 0o600), "r+b", buffering=0)
            try:
                regular.require_regular(os.fstat(data_file.fileno()), own=True)
                os.utime(self._data_path)  # the time of its last use
                self._read_parts()
            except BaseException:
                data_file.close()
                raise
        except OSError:
            return self._open_temporary()
        return data_file

    def _open_temporary(self) -> IO[bytes]:
        """Make a file that goes with this process.

        :raises InputError: it cannot be made, either
        """
        self._parts_path = None
        try:
            return tempfile.TemporaryFile(buffering=0)
        except OSError as error:
            raise _unwritable_error(error) from error

    def _read_parts(self) -> None:
        """Read the list of parts that earlier runs have noted; they are checked when they are used."""
        assert self._parts_path is not None
        try:
            with regular.open_regular(self._parts_path, own=True) as stream:
                lines = stream.read().decode("ascii", "replace").splitlines()
        except FileNotFoundError:
            lines = []
        for line in lines:
            # A line that cannot be read is from a run that was killed, or damaged.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                check, _, text = line.partition(" ")
                if check != _check_of(text):
                    continue
                noted = json.loads(text)
                if isinstance(noted, dict):
                    self._size, self._tag = int(noted["size"]), noted["tag"]
                else:
                    start, end, digest = noted
                    self._kept.append((int(start), int(end), str(digest)))
        # A list that contradicts itself is ignored.
        if not 0 <= self._size <= _LARGEST or any(not 0 <= start < end <= self._size for start, end, _ in self._kept):
            self._kept, self._size = [], -1

    def readable(self) -> bool:
        """Return true, as ``io`` asks."""
        return True

    def seekable(self) -> bool:
        """Return true, as ``io`` asks."""
        return True

    def tell(self) -> int:
        """Return the position."""
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
            self._fetch_end()
        return self._size

    @property
    def _block(self) -> int:
        """How much is read at once, at least."""
        return min(max(self.size // _BLOCKS, _BLOCK), _LARGEST_BLOCK)

    def read(self, size: int = -1, /) -> bytes:
        """Read up to ``size`` bytes; fewer only at the end."""
        end = self.size if size < 0 else min(self._position + size, self.size)
        if end <= self._position:
            return b""
        self._require_bytes(self._position, end)
        content = self._read_cached(self._position, end)
        if len(content) != end - self._position:
            self._start_over()
            raise InputError(self.name, "was changed in the cache while it was read", "run it again")
        self._position = end
        return content

    def prefetch(self, parts: Iterable[tuple[int, int]]) -> None:
        """Fetch these parts, by their starts and ends: in few requests, and nothing that is in the cache."""
        gaps = [gap for start, end in sorted(parts) for gap in self._missing_ranges(start, min(end, self.size))]
        joined: list[tuple[int, int]] = []
        # Invariant: ``joined`` is in order, and its parts are further apart than a request is worth.
        for start, end in gaps:
            first, last = joined.pop() if joined and start - joined[-1][1] < _APART else (start, end)
            joined.append((first, max(last, end)))
        for start, end in joined:
            self._fetch_missing(start, end)

    def close(self) -> None:
        """Close the file of the cache."""
        if not self.closed:
            self._data.close()
        super().close()

    def _fetch_end(self) -> None:
        """Ask for the size and the end of the file; take all of it where the server knows no ranges."""
        with self._web.get_stream(self._url, headers=_headers_for(f"bytes=-{_TAIL}")) as response:
            if response.status_code == httpx2.codes.PARTIAL_CONTENT:
                # RFC 9110, 14.1.2: a suffix range asks for the last bytes, whatever the size is.
                start, end, size = self._range_of(response)
                if end != size:
                    raise self._make_error(f"the server sent the bytes from {start} to {end} instead of the last ones")
                self._note_size(size, response.headers.get("ETag"))
                with contextlib.suppress(_BrokenOffError):  # what is still missing is asked for again
                    self._receive_range(response, start, end)
                if size <= _SMALL:
                    self._fetch_missing(0, size)
                return
            if response.status_code == httpx2.codes.OK:
                self._receive_whole(response)
                return
        # Neither: the range was refused, so the file is asked for without one.
        with self._web.get_stream(self._url, headers=_headers_for(None)) as response:
            if response.status_code != httpx2.codes.OK:
                raise self._make_error(f"the server answers {response.status_code}: {response.reason_phrase}")
            self._receive_whole(response)

    def _require_bytes(self, start: int, end: int) -> None:
        """Fetch these bytes unless they are there, and some more if they are read one after the other."""
        gap = next(iter(self._find_gaps(start, end)), None) and next(iter(self._missing_ranges(start, end)), None)
        if gap is None:
            return
        # A reader that goes on where it stopped gets twice as much each time.
        self._ahead = min(2 * self._ahead, _LONGEST) if gap[0] == self._next else self._block
        self._fetch_missing(gap[0], min(self._size, max(end, gap[0] + self._ahead)))
        self._next = self._parts[bisect.bisect_right(self._parts, (gap[0], self._size + 1)) - 1][1]

    def _fetch_missing(self, start: int, end: int) -> None:
        """Fetch what is missing of these bytes; a body that ends early is continued."""
        for first, last in self._missing_ranges(start, end):
            # Each attempt begins where the last one broke off.
            for left in reversed(range(_TRIES)):
                here = next(self._find_gaps(first, last), None)
                if here is None:
                    break
                try:
                    self._fetch_range(*here)
                except _BrokenOffError as error:
                    if not left:
                        raise self._make_error(str(error)) from error

    def _fetch_range(self, start: int, end: int) -> None:
        """Fetch these bytes in one request."""
        with self._web.get_stream(self._url, headers=_headers_for(f"bytes={start}-{end - 1}")) as response:
            if response.status_code == httpx2.codes.OK:  # it changed its mind about ranges
                self._receive_whole(response)
                return
            if response.status_code != httpx2.codes.PARTIAL_CONTENT:
                raise self._make_error(f"the server answers {response.status_code}: {response.reason_phrase}")
            sent = self._range_of(response)
            # A different size or tag is a different file: nothing of the old one may be mixed with it.
            if sent[2] != self._size or response.headers.get("ETag") != self._tag:
                self._start_over()
                raise self._make_error("has changed on the server while it was read")
            if sent[0] != start or sent[1] > end:
                raise self._make_error(
                    f"the server sent the bytes from {sent[0]} to {sent[1]} instead of {start} to {end}"
                )
            self._receive_range(response, start, sent[1])

    def _receive_range(self, response: httpx2.Response, start: int, end: int) -> None:
        """Keep the body of a response, which is these bytes of the file.

        :raises _BrokenOffError: it is shorter; what came is kept
        """
        self._check_encoding(response)
        # Invariant: what is before ``at`` is written, and what is before ``noted`` is on the list of parts, too.
        at, noted, broken = start, start, None
        parts = self._web.receive_body(response, self._url)
        while True:
            try:
                part = next(parts, None)
            except UnreachableError as error:
                broken = error
                break
            if part is None:
                break
            if at + len(part) > end:
                raise self._make_error("the server sent more than it said")
            self._write_part(at, part, noted)
            at += len(part)
            if at - noted >= _NOTED and at < end:  # in case the run is killed
                self._note_part(noted, at)
                noted = at
        self._note_part(noted, at)
        if broken is not None:
            raise _BrokenOffError(broken.problem) from broken
        if at != end:
            raise _BrokenOffError(f"the server sent {at - start} bytes instead of {end - start}")

    def _receive_whole(self, response: httpx2.Response) -> None:
        """Keep a body that is the whole file; what cannot be continued does not stay."""
        self._check_encoding(response)
        self._start_over()
        try:
            self._receive_all(response)
        except BaseException:
            self._start_over()
            raise

    def _receive_all(self, response: httpx2.Response) -> None:
        """Write the body, then note its size and its parts: before that, nothing of it counts."""
        stated = response.headers.get("Content-Length", "")
        at = 0
        for part in self._web.receive_body(response, self._url):
            if at + len(part) > _LARGEST:
                raise self._too_large()
            self._write_part(at, part, 0)
            at += len(part)
        if stated.isdigit() and int(stated) != at:
            raise self._make_error(f"the server sent {at} bytes instead of {stated}")
        self._note_size(at, response.headers.get("ETag"))
        for start in range(0, at, _NOTED):
            self._note_part(start, min(start + _NOTED, at))

    def _check_encoding(self, response: httpx2.Response) -> None:
        """Reject a body that is encoded: a range of it is no range of the file."""
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise self._make_error(f"the server sent it encoded with {encoding}, which was not asked for")

    def _read_cached(self, start: int, end: int) -> bytes:
        """Read these bytes of the file of the cache; fewer if it is shorter."""
        try:
            self._data.seek(start)
            return self._data.read(end - start)
        except OSError:
            return b""

    def _write_part(self, at: int, part: bytes, since: int) -> None:
        """Write a part of the file; where the cache takes no more, go on in a temporary file.

        :param since: where what has just been received begins, and is not noted yet
        """
        try:
            _write_all(self._data, at, part)
        except OSError as error:
            if self._parts_path is None:
                raise _unwritable_error(error) from error
            # The disk is full: what this run has read so far moves to a temporary file, which may be elsewhere.
            with self._data as cached:
                parts = [*self._parts, (since, at)]
                self._kept = []
                self._delete_cached()
                self._data = self._open_temporary()
                try:
                    for start, end in parts:
                        cached.seek(start)
                        for here in range(start, end, _NOTED):
                            _write_all(self._data, here, cached.read(min(_NOTED, end - here)))
                    _write_all(self._data, at, part)
                except OSError as copy_error:
                    raise _unwritable_error(copy_error) from copy_error

    def _note_size(self, size: int, tag: str | None) -> None:
        """Note the size of the file, and the tag of this version of it."""
        if size > _LARGEST:
            raise self._too_large()
        self._size, self._tag = size, tag
        self._append_line({"size": size, "tag": tag})

    def _note_part(self, start: int, end: int) -> None:
        """Note a part that is written; once the file is complete, check its hash."""
        if start < end:
            self._add_part(start, end)
            self._append_line([start, end, hashlib.sha256(self._read_cached(start, end)).hexdigest()])
        bytes_there = sum(stop - begin for begin, stop, _ in self._kept) + sum(
            stop - begin for begin, stop in self._parts
        )
        if self._sha256 is not None and bytes_there >= self._size and not self._missing_ranges(0, self._size):
            # Complete: only now can the hash be compared that the index states for the whole file.
            digest = hashlib.sha256()
            for at in range(0, self._size, _NOTED):
                digest.update(self._read_cached(at, min(at + _NOTED, self._size)))
            if digest.hexdigest() != self._sha256:
                self._start_over()
                raise self._make_error("is not the file that the index describes: its hash differs")

    def _append_line(self, entry: object) -> None:
        """Add a line to the list of parts; one that is not whole is read as none."""
        if self._parts_path is not None:
            text = json.dumps(entry)
            with contextlib.suppress(OSError):
                descriptor = os.open(self._parts_path, _DATA | os.O_APPEND, 0o600)
                try:
                    regular.require_regular(os.fstat(descriptor), own=True)
                    os.write(descriptor, f"{_check_of(text)} {text}\n".encode())
                finally:
                    os.close(descriptor)

    def _start_over(self) -> None:
        """Begin again: what is there is not, or no longer, of this file."""
        self._parts, self._kept, self._size, self._tag = [], [], -1, None
        self._data.close()
        self._delete_cached()  # another run may read the same file: it goes on with what it has open
        self._data = self._open_data()

    def _delete_cached(self) -> None:
        """Delete what is in the cache."""
        if self._parts_path is not None:
            for path in (self._parts_path, self._data_path):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def _missing_ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """List what of these bytes is to be read, once what an earlier run has kept of them is checked."""
        gaps = list(self._find_gaps(start, end))
        if gaps and self._kept:
            # Checked only now: hashing all that is kept would take longer than what is needed of it.
            touched = [part for part in self._kept if any(part[0] < last and part[1] > first for first, last in gaps)]
            self._kept = [part for part in self._kept if part not in touched] if touched else self._kept
            for first, last, digest in touched:
                if hashlib.sha256(self._read_cached(first, last)).hexdigest() == digest:
                    self._add_part(first, last)
            gaps = list(self._find_gaps(start, end))
        return gaps

    def _add_part(self, start: int, end: int) -> None:
        """Add a part to those that are there, joined with those that it touches."""
        kept = [part for part in self._parts if part[1] < start or part[0] > end]
        touched = [part for part in self._parts if part not in kept]
        merged = (min([start, *(part[0] for part in touched)]), max([end, *(part[1] for part in touched)]))
        # Invariant: the parts are in order, and no two of them touch.
        bisect.insort(kept, merged)
        self._parts = kept

    def _find_gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what is not there of these bytes, in order."""
        # Invariant: what is before ``start`` is there, or was yielded.
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
        """Read the range that a response says it has: start, end, size of the file."""
        match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        start, last, size = map(int, match.groups()) if match else (0, 0, 0)
        if not start <= last < size:
            raise self._make_error(f"the server sent a wrong Content-Range: {response.headers.get('Content-Range')}")
        # Content-Range names the last byte; ranges end after it here.
        return start, last + 1, size

    def _too_large(self) -> UnreachableError:
        """Make the error for a file that no index should have."""
        return self._make_error(f"is larger than any wheel ({_LARGEST >> 30} GiB)")

    def _make_error(self, problem: str) -> UnreachableError:
        """Make an error about this file."""
        return UnreachableError(self.name, problem, _AGAIN)


class _BrokenOffError(Exception):
    """A body ended early."""


def _headers_for(part: str | None) -> dict[str, str]:
    """Return the headers of a request for a part, or for all of it."""
    return {"Accept-Encoding": "identity", **({"Range": part} if part else {})}


def _key_of(url: str, sha256: str | None) -> str:
    """Return what tells files apart: the address without credentials and signatures, and the stated hash."""
    parts = urlsplit(url)
    # With a hash, the query of a URL does not matter: signatures change. Without one, it may select the file.
    address = url if sha256 is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return hashlib.sha256(json.dumps([address, sha256]).encode()).hexdigest()


def _check_of(text: str) -> str:
    """Return the checksum of a line in the list of parts."""
    return f"{zlib.crc32(text.encode()):08x}"


def _write_all(file: IO[bytes], at: int, part: bytes) -> None:
    """Write at an offset: a disk that is nearly full takes less than it is given."""
    file.seek(at)
    view = memoryview(part)
    while view:
        view = view[file.write(view) :]


def _unwritable_error(error: OSError) -> InputError:
    """Make the error for a disk that takes nothing more."""
    problem = f"cannot be written: {error.strerror or error}"
    return InputError("the folder for temporary files", problem, "free some space, or name another folder in TMPDIR")


def delete_oldest_files(folder: Path, limit: int = CACHE_BYTES) -> None:
    """Delete what was not used for the longest time, until the cache is within its limit."""
    with contextlib.suppress(OSError):
        for file in list_oldest(folder, limit, (".data", ".page")):
            file.unlink(missing_ok=True)
            file.with_suffix(".parts").unlink(missing_ok=True)
