"""A cache that is damaged, full, read-only, or not the user's own: results are the same."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import pytest

from abiscan.cache import cache_folder, result_cache
from abiscan.errors import InputError
from abiscan.index import remote
from abiscan.index.remote import RemoteFile
from abiscan.index.web import Web
from abiscan.inputs import observed_fs
from tests.commands.processes import run
from tests.hostile.servers import Server, content, serving, wheel

pytestmark = pytest.mark.hostile

DATA = random.Random(3).randbytes(1_300_000)
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        server.pages["/x.whl"] = content(DATA)
        yield server


def opened(server: Server, folder: Path, sha256: str | None = DIGEST, *, offline: bool = False) -> RemoteFile:
    return RemoteFile(Web(folder, pause=0.0, offline=offline), f"{server.url}/x.whl", sha256, folder)


def some(file: RemoteFile) -> bool:
    """Whether some parts of a file are what they should be."""
    for start, size in ((0, 30_000), (400_000, 90_000), (1_250_000, 50_000)):
        file.seek(start)
        if file.read(size) != DATA[start : start + size]:
            return False
    return True


@pytest.mark.parametrize("sha256", [DIGEST, None])
@pytest.mark.parametrize("suffix", [".data", ".parts"])
def test_a_flipped_bit_changes_nothing(server: Server, tmp_path: Path, suffix: str, sha256: str | None) -> None:
    assert some(opened(server, tmp_path, sha256))
    (path,) = tmp_path.glob(f"*{suffix}")
    whole, choice = path.read_bytes(), random.Random(suffix)
    for _ in range(25):
        bit = choice.randrange(len(whole) * 8)
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert some(opened(server, tmp_path, sha256)), bit
    assert some(opened(server, tmp_path, sha256, offline=True)), "it was made anew"


def test_what_is_damaged_is_read_again_and_nothing_else(server: Server, tmp_path: Path) -> None:
    opened(server, tmp_path).read()
    (path,) = tmp_path.glob("*.data")
    damaged = bytearray(DATA)
    damaged[700_000] ^= 1
    path.write_bytes(damaged)
    web = Web(tmp_path)
    assert RemoteFile(web, f"{server.url}/x.whl", DIGEST, tmp_path).read() == DATA
    assert 0 < web.bytes_read < len(DATA)
    assert path.read_bytes() == DATA


@pytest.mark.parametrize("size", [0, 10, 700_000])
def test_a_file_that_was_cut_off(server: Server, tmp_path: Path, size: int) -> None:
    opened(server, tmp_path).read()
    (path,) = tmp_path.glob("*.data")
    os.truncate(path, size)
    assert opened(server, tmp_path).read() == DATA


def test_without_a_folder_for_it_fit_reads_as_it_does_with_one(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = opened(server, tmp_path / "file" / "cache")
    assert file.read() == DATA
    assert some(file)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_disk_that_fills_up(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, ranges: bool) -> None:
    """Writes are short at first, and then fail, as they do at the end of a disk; the temporary folder has space."""
    write, cache = remote._write_all, tmp_path / "cache"

    def nearly_full(file: IO[bytes], at: int, part: bytes) -> None:
        is_cached = any(os.path.samestat(os.fstat(file.fileno()), path.stat()) for path in cache.iterdir())
        if at + len(part) > 600_000 and is_cached:
            file.seek(at)
            file.write(part[: len(part) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, at, part)

    server.pages["/x.whl"] = content(DATA, ranges=ranges)
    monkeypatch.setattr(remote, "_write_all", nearly_full)
    file = opened(server, cache)
    assert file.read(500_000) == DATA[:500_000]
    assert file.read() == DATA[500_000:]
    assert list(cache.iterdir()) == [], "what cannot be continued does not take space"


def test_short_writes_are_continued(tmp_path: Path) -> None:
    class Nearly(io.FileIO):
        def write(self, data: Any) -> int:
            return super().write(data[:7])

    with Nearly(tmp_path / "x", "w+") as file:
        remote._write_all(cast("IO[bytes]", file), 3, b"a text that is longer")
    assert (tmp_path / "x").read_bytes() == b"\0\0\0a text that is longer"


def test_a_disk_that_is_full_everywhere(server: Server, tmp_path: Path) -> None:
    """Nothing at all may be written: the message says so, and is no internal error."""
    server.lists("x", [server.serves(wheel(tmp_path, "x-1.0-py3-none-any.whl"))])
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    words = ("fit", "x", "--torch", "2.13.0", "--index-url", server.index)
    read, write = os.pipe()
    with os.fdopen(read, "rb"), os.fdopen(write, "wb") as stream:
        done = run(*words, before=limit, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}, stderr=stream, stdout=stream)
        stream.close()
        said = os.read(read, 1 << 16).decode()
    assert done.code == 2, said
    assert "the folder for temporary files: cannot be written" in said
    assert "name another folder in TMPDIR" in said
    assert "internal error" not in said


# What else is kept: answers, operators, headers, layouts, pages, the limit.


def asked(folder: Path, found: list[str]) -> str:
    def find() -> str:
        found.append("once")
        return "found"

    return result_cache.answer_by_content(folder, "0" * 64, ["question"], find)


def test_every_bit_of_a_kept_answer_counts(tmp_path: Path) -> None:
    runs: list[str] = []
    asked(tmp_path, runs)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert asked(tmp_path, runs) == "found"
        assert path.read_bytes() == whole, "made anew"
    assert len(runs) == 1 + len(whole) * 8


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def elsewhere(path: Path) -> None:
    """A link to a sound file of somebody else."""
    cache_folder.write_checked(path.with_name("elsewhere"), b"[[], [], [[0]]]")
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [pipe, zero, elsewhere, Path.mkdir])
def test_what_is_no_file_of_ours_is_not_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    runs: list[str] = []
    asked(tmp_path, runs)
    (path,) = tmp_path.iterdir()
    path.unlink()
    make(path)
    assert asked(tmp_path, runs) == "found"
    assert len(runs) == 2


@pytest.mark.parametrize("make", [pipe, zero, Path.mkdir])
@pytest.mark.parametrize("suffix", [".data", ".parts"])
def test_nor_in_the_folder_of_wheels(server: Server, tmp_path: Path, make: Callable[[Path], None], suffix: str) -> None:
    opened(server, tmp_path).read()
    (path,) = tmp_path.glob(f"*{suffix}")
    path.unlink()
    make(path)
    assert opened(server, tmp_path).read() == DATA


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_a_file_of_another_user_is_not_ours(tmp_path: Path) -> None:
    cache_folder.write_checked(tmp_path / "x", b"theirs")
    os.chown(tmp_path / "x", 65_534, 65_534)
    with pytest.raises(PermissionError, match="another user's"):
        cache_folder.read_checked(tmp_path / "x")


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 100])
def test_a_page_that_is_damaged_is_none(server: Server, tmp_path: Path, damage: bytes) -> None:
    Web(tmp_path).get(f"{server.url}/x.whl")
    (path,) = tmp_path.glob("*.page")
    assert Web(tmp_path, offline=True).get(f"{server.url}/x.whl").content == DATA
    path.write_bytes(damage)
    with pytest.raises(InputError, match="is not in the cache"):
        Web(tmp_path, offline=True).get(f"{server.url}/x.whl")
    assert Web(tmp_path).get(f"{server.url}/x.whl").content == DATA
    assert Web(tmp_path, offline=True).get(f"{server.url}/x.whl").content == DATA


def test_no_kind_of_kept_file_is_read_without_its_hash() -> None:
    """Only ``cache_folder`` and ``remote`` open files of the cache."""
    package = Path(observed_fs.__file__).parents[1]
    openers = {"read_bytes()", "read_text(", ".open("}
    for name, reader in {
        "torches/operator_store.py": "get_or_compute(",
        "torches/unlisted_torch_headers.py": "get_or_compute(",
        "torches/unlisted_torch_layouts.py": "get_or_compute(",
        "cache/computed.py": "cache_folder.read_checked(",
        "cache/result_cache.py": "computed.get_or_compute(",
    }.items():
        text = (package / name).read_text("utf-8")
        assert reader in text
        assert not [word for word in openers if word in text], name


def test_a_wheel_without_its_gpu_code_is_no_other_file() -> None:
    """A library read in part is not taken for the file that consists of these parts."""
    from abiscan.inputs.files import _write_sparse
    from abiscan.inputs.trimmed import Trimmed

    sample = (Path(__file__).parents[2] / "sample_binaries" / "loads" / "loads.so").read_bytes()
    _, digest = _write_sparse(Trimmed(beginning=sample, end=b""), len(sample) + 10, "x")
    assert digest != hashlib.sha256(sample).hexdigest()
