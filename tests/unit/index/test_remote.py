"""Files on a server: read in place, kept, continued; and servers that fail."""

from __future__ import annotations

import http.server
import random
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.index.remote import RemoteFile, delete_oldest_files
from abiscan.index.web import Web
from abiscan.inputs.files import Wheel
from tests.index_server import LocalIndex, _hash, listening, serving

NAME = "big-1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of 3 MB: two large members and a small one between them."""
    folder = tmp_path_factory.mktemp("wheels")
    content = random.Random(17)
    with zipfile.ZipFile(folder / NAME, "w") as archive:
        archive.writestr("big/first.bin", content.randbytes(1_500_000))
        archive.writestr("big/small.txt", "words")
        archive.writestr("big/last.bin", content.randbytes(1_500_000))
    return folder


@pytest.fixture
def index(folder: Path) -> Iterator[LocalIndex]:
    with serving(folder) as index:
        yield index


def remote(index: LocalIndex, cache: Path, *, offline: bool = False, sha256: str | None = "") -> tuple[RemoteFile, Web]:
    # A server of a loaded machine may be slow: only one that never sends more is given up.
    web = Web(cache, offline=offline, pause=0.0, patience=0.5 if index.fault == "dribbling" else 60.0)
    stated = _hash(index.folder / NAME) if sha256 == "" else sha256
    return RemoteFile(web, index.url.replace("/simple", f"/files/{NAME}"), stated, cache), web


def test_a_small_member_costs_little(index: LocalIndex, tmp_path: Path) -> None:
    file, web = remote(index, tmp_path)
    assert Wheel(Path(NAME), file).read_content("big/small.txt") == b"words"  # type: ignore[arg-type]
    assert web.bytes_read < 300_000
    assert all(asked for _, asked in index.asked)


def test_all_members_are_what_they_are_on_disk(index: LocalIndex, tmp_path: Path, folder: Path) -> None:
    file, web = remote(index, tmp_path)
    there, here = Wheel(Path(NAME), file), Wheel(folder / NAME)  # type: ignore[arg-type]
    assert {name: there.read_content(name) for name in there.list_members()} == {
        name: here.read_content(name) for name in here.list_members()
    }
    assert web.bytes_read <= (folder / NAME).stat().st_size


@pytest.mark.parametrize("seed", range(5))
def test_any_part_in_any_order(index: LocalIndex, tmp_path: Path, folder: Path, seed: int) -> None:
    content, choice = (folder / NAME).read_bytes(), random.Random(seed)
    file, web = remote(index, tmp_path)
    for _ in range(30):
        start, length = choice.randrange(len(content) + 10), choice.randrange(200_000)
        file.seek(start)
        assert file.read(length) == content[start : start + length]
    assert web.bytes_read <= len(content)


def test_what_was_read_is_not_read_again_and_is_there_offline(index: LocalIndex, tmp_path: Path) -> None:
    file, _ = remote(index, tmp_path)
    Wheel(Path(NAME), file).read_content("big/small.txt")  # type: ignore[arg-type]
    asked = len(index.asked)
    again, web = remote(index, tmp_path, offline=True)
    wheel = Wheel(Path(NAME), again)  # type: ignore[arg-type]
    assert (wheel.read_content("big/small.txt"), web.bytes_read, len(index.asked)) == (b"words", 0, asked)
    with pytest.raises(InputError, match="is not in the cache"):
        wheel.read_content("big/last.bin")


def test_a_server_without_ranges_sends_it_once(index: LocalIndex, tmp_path: Path, folder: Path) -> None:
    index.ranges = False
    file, web = remote(index, tmp_path)
    wheel = Wheel(Path(NAME), file)  # type: ignore[arg-type]
    assert len(b"".join(wheel.read_content(name) for name in wheel.list_members())) == 3_000_005
    assert (len(index.asked), web.bytes_read) == (1, (folder / NAME).stat().st_size)


def test_an_interrupted_run_goes_on_where_it_was(index: LocalIndex, tmp_path: Path, folder: Path) -> None:
    content = (folder / NAME).read_bytes()
    index.fault = "short"
    file, web = remote(index, tmp_path)
    with pytest.raises(InputError, match="run it again"):
        file.read()
    before = web.bytes_read
    assert 0 < before < len(content)
    index.fault = ""
    file, web = remote(index, tmp_path)
    assert file.read() == content
    assert web.bytes_read == len(content) - before


def test_a_killed_run_goes_on_where_it_was(index: LocalIndex, tmp_path: Path, folder: Path) -> None:
    """Killed with SIGKILL while the server is sending, so nothing could be put in order."""
    content, url = (folder / NAME).read_bytes(), index.url.replace("/simple", f"/files/{NAME}")
    code = (
        "import sys; from pathlib import Path; from abiscan.index.remote import RemoteFile;"
        "from abiscan.index.web import Web; url, sha256, folder = sys.argv[1:];"
        "RemoteFile(Web(Path(folder)), url, sha256, Path(folder)).read()"
    )
    index.fault = "stuck"
    command = [sys.executable, "-c", code, url, _hash(folder / NAME), str(tmp_path)]
    with subprocess.Popen(command) as process:
        assert index.stuck.wait(60)
        deadline = time.monotonic() + 60
        while not any(file.read_text("utf-8").count("\n") > 2 for file in tmp_path.glob("*.parts")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
    index.fault = ""
    file, web = remote(index, tmp_path)
    assert file.read() == content
    assert web.bytes_read <= len(content) - (1 << 20)


@pytest.mark.parametrize(
    "torn", ['{"size": 30', '{"size": 3', "[0, 10", "", "{}", "[]", "null", "[5000000000, 5000000001]"]
)
def test_a_torn_line_in_the_list_of_parts(index: LocalIndex, tmp_path: Path, folder: Path, torn: str) -> None:
    file, _ = remote(index, tmp_path)
    file.seek(1000)
    file.read(1000)
    (parts,) = tmp_path.glob("*.parts")
    lines = parts.read_text("utf-8").splitlines(keepends=True)
    parts.write_text("".join([*lines[:1], torn, *lines[1:]]), encoding="utf-8")
    for _ in range(2):
        again, web = remote(index, tmp_path)
        assert again.read() == (folder / NAME).read_bytes()
    assert web.bytes_read == 0, "what was read after the torn line is known"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("short", "the server sent|broke off"),
        ("other-range", "instead of"),
        ("changing", "has changed on the server while it was read"),
        ("416", "the server answers 416"),
        ("encoded", "the server sent it encoded with gzip, which was not asked for"),
        ("dribbling", r"the server sent \d+ bytes in \d{1,2} s, and was given up"),
        ("500", "the server answers 500"),
    ],
)
def test_a_server_that_is_at_fault(index: LocalIndex, tmp_path: Path, fault: str, said: str) -> None:
    index.fault = fault
    file, _ = remote(index, tmp_path)
    with pytest.raises(InputError, match=said):
        file.read()


def test_a_server_without_ranges_that_is_at_fault(index: LocalIndex, tmp_path: Path) -> None:
    index.ranges = False
    for fault, said in (("encoded", "encoded with gzip"), ("dribbling", "was given up")):
        index.fault = fault
        with pytest.raises(InputError, match=said):
            remote(index, tmp_path)[0].read()
    index.fault = ""
    assert len(remote(index, tmp_path)[0].read()) == (index.folder / NAME).stat().st_size


def test_parts_are_read_in_few_requests(index: LocalIndex, tmp_path: Path, folder: Path) -> None:
    """Those that are near to each other in one; of what is between others, nothing."""
    file, web = remote(index, tmp_path)
    assert file.size > 0
    asked, before = len(index.asked), web.bytes_read
    file.prefetch([(700_000, 700_100), (100, 200), (300, 400), (100, 150), (700_050, 700_060), (0, 0)])
    assert [part for _, part in index.asked[asked:]] == ["bytes=100-399", "bytes=700000-700099"]
    assert web.bytes_read - before == 400
    file.seek(100)
    assert file.read(300) == (folder / NAME).read_bytes()[100:400]
    file.prefetch([(100, 400), (1 << 40, 1 << 41)])
    assert len(index.asked) == asked + 2, "they are there, or beyond the end"


def test_a_body_that_is_longer_than_its_range(index: LocalIndex, tmp_path: Path) -> None:
    index.fault = "long"
    file, _ = remote(index, tmp_path)
    with pytest.raises(InputError, match="the server sent more than it said"):
        file.read()


def test_a_whole_file_that_is_cut_off_is_not_kept(index: LocalIndex, tmp_path: Path, folder: Path) -> None:
    index.ranges, index.fault = False, "short"
    with pytest.raises(InputError, match=r"broke off|instead of"):
        remote(index, tmp_path)[0].read()
    index.fault = ""
    assert remote(index, tmp_path)[0].read() == (folder / NAME).read_bytes()


def test_a_server_that_changes_its_mind_about_ranges(index: LocalIndex, tmp_path: Path, folder: Path) -> None:
    file, _ = remote(index, tmp_path)
    assert file.size == (folder / NAME).stat().st_size
    index.ranges = False
    assert file.read() == (folder / NAME).read_bytes()


def test_another_file_than_the_index_describes(index: LocalIndex, tmp_path: Path) -> None:
    file, _ = remote(index, tmp_path, sha256="1" * 64)
    with pytest.raises(InputError, match="its hash differs"):
        file.read()
    file, web = remote(index, tmp_path, sha256="1" * 64)
    assert file.size > 0
    assert web.bytes_read > 0, "nothing of it was kept"


@pytest.mark.parametrize("ranges", [True, False])
def test_a_busy_server_and_a_redirect(index: LocalIndex, tmp_path: Path, folder: Path, *, ranges: bool) -> None:
    index.ranges, index.failures, index.redirect = ranges, 2, True
    file, _ = remote(index, tmp_path)
    assert file.read() == (folder / NAME).read_bytes()


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    file = RemoteFile(Web(tmp_path, pause=0.0), "http://user:secret@127.0.0.1:9/x.whl", None, tmp_path)
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9/x\.whl: cannot be reached") as caught:
        file.read()
    assert "secret" not in str(caught.value)


def test_a_damaged_list_of_parts_is_not_trusted(index: LocalIndex, tmp_path: Path, folder: Path) -> None:
    remote(index, tmp_path)[0].read()
    (parts,) = tmp_path.glob("*.parts")
    whole, size = parts.read_text("utf-8"), (folder / NAME).stat().st_size
    for damaged in (whole[:20], f'{whole}[7, 7, "{"0" * 64}"]\n', f'{whole}[0, {size + 1}, "{"0" * 64}"]\n'):
        parts.write_text(damaged, encoding="utf-8")
        assert remote(index, tmp_path)[0].read() == (folder / NAME).read_bytes()


def test_the_cache_has_a_limit(tmp_path: Path) -> None:
    for number in range(3):
        data = tmp_path / f"{number}.data"
        data.write_bytes(bytes([number + 1]) * 100_000)
        data.with_suffix(".parts").touch()
    delete_oldest_files(tmp_path, limit=250_000)
    assert len(list(tmp_path.glob("*.data"))) == len(list(tmp_path.glob("*.parts"))) == 2


OVER = threading.Event()
LENGTHS = {"/known": "1234", "/nonsense": "12 GB", "/endless": "9" * 30, "/stuck": "7"}


class Sizes(http.server.BaseHTTPRequestHandler):
    """Says how large files are; or nothing at all, for longer than anybody waits."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Say nothing."""

    def do_HEAD(self) -> None:
        if self.path == "/stuck":
            OVER.wait(5)
        self.send_response(200 if self.path in LENGTHS else 404)
        self.send_header("Content-Length", LENGTHS.get(self.path, "99"))
        self.end_headers()


def test_the_size_of_a_file_as_a_server_states_it(tmp_path: Path) -> None:
    with listening(Sizes, OVER) as url:
        web = Web(tmp_path, pause=0.0)
        assert web.size(f"{url}/known", 5.0) == 1234
        assert [web.size(f"{url}/{name}", 5.0) for name in ("nonsense", "endless", "absent")] == [None] * 3
        assert web.size(f"{url}/stuck", 0.3) is None, "nobody waits for a number"
        assert web.size("file:///etc/passwd", 5.0) is None
        assert Web(tmp_path, offline=True).size(f"{url}/known", 5.0) is None
