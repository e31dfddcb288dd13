"""Which parts of a file are asked for, which are kept, and what a server may answer: no server is needed for that."""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from abiscan.errors import InputError
from abiscan.index import remote
from abiscan.index.hashes import sound_hash
from abiscan.index.remote import RemoteFile
from abiscan.index.web import Web

URL = "https://index.example/files/demo-1.0-py3-none-any.whl"
KIB, MIB = 1 << 10, 1 << 20
CONTENT = random.Random(3).randbytes(3 * MIB)


Answer = Callable[[int, dict[str, str], bytes], tuple[int, dict[str, str], bytes]]


def unchanged(status: int, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
    return status, headers, body


class Served:
    """A server of one file.

    ``answer`` may change the status, headers and body of an answer; ``chunk`` is how much of a body comes at once.
    """

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content, self.chunk = content, 100_000
        self.asked: list[str] = []
        self.answer: Answer = unchanged

    @contextlib.contextmanager
    def get_stream(self, url: str, *, headers: Mapping[str, str]) -> Iterator[httpx2.Response]:
        assert url.partition("#")[0].partition("?")[0] == URL
        assert headers["Accept-Encoding"] == "identity"
        asked = headers.get("Range", "")
        self.asked.append(asked)
        status, sent, body = 200, {"Content-Length": str(len(self.content))}, self.content
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(self.content) - int(last))
            end = int(last) + 1 if first else len(self.content)
            body = self.content[start:end]
            status, sent = 206, {"Content-Range": f"bytes {start}-{end - 1}/{len(self.content)}", "ETag": '"1"'}
        status, sent, body = self.answer(status, sent, body)
        response = httpx2.Response(status, headers=sent)
        response.extensions["body"] = body
        yield response

    def receive_body(self, response: httpx2.Response, _: str) -> Iterator[bytes]:
        body = response.extensions["body"]
        return (body[at : at + self.chunk] for at in range(0, len(body), self.chunk))

    def file(self, folder: Path, *, url: str = URL, sha256: str | None = None) -> RemoteFile:
        return RemoteFile(cast("Web", self), url, sha256, folder)


def ranges(served: Served) -> list[tuple[int, int]]:
    """The parts that were asked for, by start and end, without the last bytes."""
    parts = (asked.removeprefix("bytes=").split("-") for asked in served.asked if not asked.startswith("bytes=-"))
    return [(int(first), int(last) + 1) for first, last in parts]


def test_a_reader_that_goes_on_gets_twice_as_much_each_time(tmp_path: Path) -> None:
    served = Served()
    file = served.file(tmp_path)
    assert b"".join(iter(lambda: file.read(1_000), b"")) == CONTENT
    expected, start, length = [], 0, 64 * KIB  # who begins at the beginning is taken for one that goes on
    while start < len(CONTENT) - 32 * KIB:  # the last bytes come with the size
        end = min(start + length, len(CONTENT) - 32 * KIB)
        expected.append((start, end))
        start, length = end, min(2 * length, 2 * MIB)
    assert (served.asked[0], ranges(served)) == ("bytes=-32768", expected)


def test_a_reader_that_jumps_gets_a_block_each_time(tmp_path: Path) -> None:
    served = Served()
    file = served.file(tmp_path)
    for start in (1_000_000, 2_000_000, 100):
        file.seek(start)
        assert file.read(10) == CONTENT[start : start + 10]
    assert ranges(served) == [(start, start + 32 * KIB) for start in (1_000_000, 2_000_000, 100)]
    file.seek(2_000_000 + 32 * KIB - 5)
    assert file.read(10) == CONTENT[file.tell() - 10 : file.tell()]
    assert ranges(served)[3:] == [(2_000_000 + 32 * KIB, 2_000_000 + 64 * KIB)], "what is there is not asked for again"


@pytest.mark.parametrize(
    ("size", "rest"), [(10_000, []), (500 * KIB, [(0, 468 * KIB)]), (600 * KIB, []), (32 * KIB, []), (1, [])]
)
def test_a_small_file_is_read_whole(size: int, rest: list[tuple[int, int]], tmp_path: Path) -> None:
    served = Served(CONTENT[:size])
    assert served.file(tmp_path).size == size
    assert ranges(served) == rest


@pytest.mark.parametrize(("size", "block"), [(3 * MIB, 32 * KIB), (64 * MIB, 256 * KIB), (1 << 30, MIB)])
def test_larger_parts_of_larger_files(size: int, block: int, tmp_path: Path) -> None:
    """A 256th of it, between 32 KiB and 1 MiB."""
    assert block == min(max(size // 256, 32 * KIB), MIB)
    served = Served()

    def answer(status: int, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        start = int(headers["Content-Range"].split()[1].partition("-")[0])
        end = size if served.asked[-1].startswith("bytes=-") else start + len(body)
        return status, {**headers, "Content-Range": f"bytes {end - len(body)}-{end - 1}/{size}"}, body

    served.answer = answer
    file = served.file(tmp_path)
    file.seek(MIB)
    file.read(1)
    assert ranges(served) == [(MIB, MIB + block)]


def test_the_position(tmp_path: Path) -> None:
    """As the documentation of ``io.IOBase.seek`` has it."""
    with Served().file(tmp_path) as file:
        assert file.readable()
        assert file.seekable()
        assert file.name == "demo-1.0-py3-none-any.whl"
        assert [file.seek(100), file.seek(-30, io.SEEK_CUR), file.seek(-5, io.SEEK_END)] == [100, 70, len(CONTENT) - 5]
        assert (file.read(), file.tell(), file.read(10), file.read()) == (CONTENT[-5:], len(CONTENT), b"", b"")
        assert (file.seek(10, io.SEEK_END), file.read(3)) == (len(CONTENT) + 10, b"")
        assert file.seek(-10) == 0
    assert file.closed
    file.close()


def test_what_an_earlier_run_has_read(tmp_path: Path) -> None:
    """The same file, whatever the credentials; with a hash, whatever the query, which may be a signature."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    for sha256, other_query in ((None, True), (digest, False)):
        served = Served()
        with served.file(tmp_path, sha256=sha256) as file:
            file.seek(1_000_000)
            file.read(10)
        asked = len(served.asked)
        with served.file(tmp_path, sha256=sha256) as file:
            file.seek(1_000_000)
            assert (file.read(10), len(served.asked)) == (CONTENT[1_000_000:1_000_010], asked)
        with served.file(tmp_path, url=f"{URL}?signature=2", sha256=sha256) as file:
            file.seek(1_000_000)
            file.read(10)
            assert (len(served.asked) > asked) is other_query
    with served.file(tmp_path, sha256="f" * 64) as file:
        asked = len(served.asked)
        assert file.size == len(CONTENT)
        assert len(served.asked) > asked, "another hash is that of another file"
    keys = {remote._key_of(f"https://{user}index.example/f.whl", digest) for user in ("", "user:secret@")}
    assert len(keys) == 1


def test_a_part_that_is_damaged_in_the_cache_is_read_again(tmp_path: Path) -> None:
    served = Served()
    with served.file(tmp_path) as file:
        file.prefetch([(0, 1_000), (1_000_000, 1_001_000)])
    (data,) = tmp_path.glob("*.data")
    with data.open("r+b") as stream:
        stream.seek(1_000_500)
        stream.write(b"damaged")
    asked = len(served.asked)
    with served.file(tmp_path) as file:
        assert file.read(1_000) == CONTENT[:1_000]
        assert len(served.asked) == asked, "only what is needed is checked"
        file.seek(1_000_000)
        assert file.read(1_000) == CONTENT[1_000_000:1_001_000]
    assert ranges(served)[-1][0] == 1_000_000


def test_what_is_cut_in_the_cache_while_it_is_read(tmp_path: Path) -> None:
    served = Served()
    with served.file(tmp_path) as file:
        assert file.read(1_000) == CONTENT[:1_000]
        (data,) = tmp_path.glob("*.data")
        data.write_bytes(b"")
        file.seek(0)
        with pytest.raises(InputError, match="was changed in the cache while it was read"):
            file.read(1_000)
        assert file.read(1_000) == CONTENT[:1_000]


@pytest.mark.parametrize("chunk", [1_000, 100_000, MIB - 1, MIB, MIB + 1, 4 * MIB])
def test_a_body_in_pieces(chunk: int, tmp_path: Path) -> None:
    served = Served()
    served.chunk = chunk
    with served.file(tmp_path) as file:
        file.prefetch([(0, len(CONTENT))])
        assert file.read() == CONTENT
        asked = len(served.asked)
    with served.file(tmp_path, sha256=None) as file:
        assert (file.read(), len(served.asked)) == (CONTENT, asked)


def other(status: int = 206, body: Callable[[bytes], bytes] = bytes, **headers: str | None) -> Answer:
    """An answer in which some things are other ones; a header that is None is left out."""

    def answer(_: int, sent: dict[str, str], content: bytes) -> tuple[int, dict[str, str], bytes]:
        changed = {**sent, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return status, {name: value for name, value in changed.items() if value is not None}, body(content)

    return answer


HUGE = f"bytes {1 << 32}-{1 << 32}/{(1 << 32) + 1}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (other(Content_Range="bytes 0-9/*"), r"a wrong Content-Range: bytes 0-9/\*"),
        (other(Content_Range=None), "a wrong Content-Range: None"),
        (other(Content_Range="bytes 10-9/3145728"), "a wrong Content-Range: bytes 10-9/3145728"),
        (other(Content_Range="bytes 9-10/10"), "a wrong Content-Range: bytes 9-10/10"),
        (other(Content_Range="bytes 0-9/100"), "the bytes from 0 to 10 instead of the last ones"),
        (other(Content_Encoding="gzip"), "encoded with gzip"),
        (other(Content_Range=HUGE, body=lambda _: b"x"), r"is larger than any wheel \(4 GiB\)"),
        (other(200, Content_Length="30", body=lambda _: b"x" * 20), "the server sent 20 bytes instead of 30"),
        (other(404, body=lambda _: b""), "the server answers 404: Not Found"),
    ],
)
def test_what_a_server_may_not_answer(answer: Answer, said: str, tmp_path: Path) -> None:
    """RFC 9110, 14.4: the first byte, the last, and the size of the file."""
    served = Served()
    served.answer = answer
    with served.file(tmp_path) as file, pytest.raises(InputError, match=said):
        _ = file.size


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (other(ETag='"2"'), "has changed on the server"),
        (other(Content_Range="bytes 0-65535/9999999"), "has changed on the server"),
        (other(Content_Range="bytes 1-65535/3145728"), "the bytes from 1 to 65536 instead of 0 to 65536"),
        (other(Content_Range="bytes 0-65536/3145728"), "the bytes from 0 to 65537 instead of 0 to 65536"),
        (other(body=lambda body: body + b"x"), "the server sent more than it said"),
        (other(body=lambda _: b""), "the server sent 0 bytes instead of 65536"),
        (other(416, body=lambda _: b""), "the server answers 416"),
    ],
)
def test_a_part_that_is_another(answer: Answer, said: str, tmp_path: Path) -> None:
    served = Served()
    with served.file(tmp_path) as file:
        assert file.size == len(CONTENT)
        served.answer = answer
        with pytest.raises(InputError, match=said):
            file.read(1)
        served.answer = unchanged
        assert file.read(1) == CONTENT[:1], "nothing of the other one is kept"


def test_a_body_that_ends_early_is_continued_where_it_ended(tmp_path: Path) -> None:
    """Three attempts of each part; what came stays."""
    served = Served()
    with served.file(tmp_path) as file:
        assert file.size == len(CONTENT)
        served.answer = lambda status, headers, body: (status, headers, body[: len(body) // 2])
        with pytest.raises(InputError, match="the server sent 8192 bytes instead of 16384"):
            file.read(64 * KIB)
        assert ranges(served) == [(0, 64 * KIB), (32 * KIB, 64 * KIB), (48 * KIB, 64 * KIB)]
        served.answer = unchanged
        assert file.read(56 * KIB) == CONTENT[: 56 * KIB]
        assert len(ranges(served)) == 3


def test_a_whole_file_is_kept_only_if_it_is_that_of_the_hash(tmp_path: Path) -> None:
    served = Served(CONTENT[:100_000])
    served.answer = lambda *_: (200, {}, served.content)
    with served.file(tmp_path, sha256="f" * 64) as file, pytest.raises(InputError, match="its hash differs"):
        file.read()
    digest = hashlib.sha256(served.content).hexdigest()
    with served.file(tmp_path, sha256=digest.upper()) as file:
        assert file.read() == served.content
    asked = len(served.asked)
    with served.file(tmp_path, sha256=digest) as file:
        assert (file.read(), len(served.asked)) == (served.content, asked)


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [*lines, b'00000000 {"size": 5, "tag": null}\n'],  # not its checksum
        lambda lines: [line for line in lines if b"size" not in line],
        lambda lines: [line[:-3] for line in lines],
        lambda lines: [b"\xff\xfe\n", *lines],
    ],
)
def test_a_list_of_parts_that_is_damaged(damage: Callable[[list[bytes]], list[bytes]], tmp_path: Path) -> None:
    served = Served()
    with served.file(tmp_path) as file:
        file.read(1_000)
    (parts,) = tmp_path.glob("*.parts")
    parts.write_bytes(b"".join(damage(parts.read_bytes().splitlines(keepends=True))))
    with served.file(tmp_path) as file:
        assert (file.size, file.read(1_000)) == (len(CONTENT), CONTENT[:1_000])


def test_without_a_cache_the_file_is_a_temporary_one(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    served = Served()
    with served.file(blocked / "cache") as file:
        assert file.read() == CONTENT
        file.seek(5)
        asked = len(served.asked)
        assert (file.read(3), len(served.asked)) == (CONTENT[5:8], asked)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_disk_that_is_full_while_it_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is read so far moves to a temporary file; where that cannot be written either, it is said."""
    write, room = remote._write_all, [2 * MIB]

    def limited(file: Any, at: int, part: bytes) -> None:
        if at + len(part) > room[0] and file is cached:
            raise OSError(28, "No space left on device")
        write(file, at, part)

    served = Served()
    with served.file(tmp_path) as file:
        file.read(1_000)
        cached = file._data
        monkeypatch.setattr(remote, "_write_all", limited)
        file.seek(0)
        assert file.read() == CONTENT
        assert file._data is not cached
        assert not list(tmp_path.iterdir())
        cached, room[0] = file._data, 0
        monkeypatch.setattr(file, "_parts", [])
        file.seek(0)
        with pytest.raises(InputError, match=r"the folder for temporary files: cannot be written: No space left"):
            file.read()


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("a" * 64, "a" * 64),
        ("A1" * 32, "a1" * 32),
        ("0" * 64, None),  # no file is known to have it: an index that has no hash
        ("a" * 63, None),
        ("a" * 65, None),
        ("g" * 64, None),
        (None, None),
        (7, None),
    ],
)
def test_the_hash_that_an_index_states(stated: object, expected: str | None) -> None:
    assert sound_hash(stated) == expected


def test_what_is_kept_is_not_reached_through_a_link(tmp_path: Path) -> None:
    """Whoever may write to the folder cannot have another file of the user read, or written to."""
    served, cache = Served(), tmp_path / "cache"
    with served.file(cache) as file:
        file.read(1_000)
    kept = sorted(cache.iterdir())
    assert [path.suffix for path in kept] == [".data", ".parts"]
    for path in kept:
        other = path.rename(tmp_path / "other")
        path.symlink_to(other)
        before, asked = other.read_bytes(), len(served.asked)
        with served.file(cache) as file:
            assert file.read(1_000) == CONTENT[:1_000]
        assert len(served.asked) > asked
        assert other.read_bytes() == before
        other.replace(path)
