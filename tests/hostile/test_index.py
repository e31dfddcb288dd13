"""An index that lies, has no bounds, or never ends: the next one is read as it is, and each limit has its message."""

from __future__ import annotations

import hashlib
import http.server
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from abiscan.binary.elf import Machine
from abiscan.errors import InputError, UnreachableError
from abiscan.index import client as index_module
from abiscan.index.client import Index, Settings
from abiscan.index.remote import RemoteFile
from abiscan.index.system import System
from abiscan.index.web import Web
from abiscan.inputs.session import Session
from abiscan.pipelines import version_search
from abiscan.pipelines.fit import fit_packages
from abiscan.torches.platforms import LinuxPlatform
from tests.commands.processes import run
from tests.hostile.servers import JSON, Answer, Server, content, page, redirect, serving, wheel

pytestmark = pytest.mark.hostile

NAME = "x-1.0-py3-none-any.whl"
SYSTEM = System.of((3, 11), "linux_x86_64")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def opened(server: Server, folder: Path) -> Index:
    return Index(Settings(index_urls=(server.index,)), SYSTEM, folder)


def candidates(server: Server, folder: Path) -> list[tuple[str, str]]:
    return [(str(one.version), one.unfit) for one in opened(server, folder).candidates(Requirement("x"))]


# What one index says is not what another one says.


def test_an_index_cannot_say_what_is_in_the_wheel_of_another(server: Server, tmp_path: Path) -> None:
    """It states the hash of the other's wheel, and serves another one by ranges."""
    victim = wheel(tmp_path / "victim", NAME, "Requires-Dist: torch==2.9.1\n")
    liar = wheel(tmp_path / "liar", NAME, "Requires-Dist: torch==2.0.0\n", seed=1)
    with serving() as other:
        other.lists("x", [other.serves(liar, sha256=hashlib.sha256(victim.read_bytes()).hexdigest())])
        server.lists("x", [server.serves(victim)])
        for its, required in ((other, "torch==2.0.0"), (server, "torch==2.9.1")):
            index = opened(its, tmp_path / "cache")
            (candidate,) = index.candidates(Requirement("x"))
            assert str(index.metadata(candidate).requires_torch) == required


def test_the_same_host_has_another_file_at_another_path(server: Server, tmp_path: Path) -> None:
    data, lie = b"true" * 300_000, b"lies" * 300_000
    digest = hashlib.sha256(data).hexdigest()
    server.pages |= {"/a/x.whl": content(lie), "/b/x.whl": content(data)}
    for path, expected in (("/a/x.whl", lie), ("/b/x.whl", data)):
        file = RemoteFile(Web(tmp_path), server.url + path, digest, tmp_path)
        file.seek(4000)
        assert file.read(4) == expected[:4]


@pytest.mark.parametrize("stated", ["0" * 64, "", "abc", "z" * 64, "1" * 65, "../" * 21 + "a"])
def test_what_is_no_hash_identifies_nothing(server: Server, tmp_path: Path, stated: str) -> None:
    server.lists("x", [server.serves(wheel(tmp_path, NAME), sha256=stated)])
    index = opened(server, tmp_path / "cache")
    (candidate,) = index.candidates(Requirement("x"))
    assert index.origin(candidate) == (f"{server.url}/files/{NAME}", None)
    assert index.wheel(candidate).stream().read(4) == b"PK\3\4"


# Limits: what is beyond them is left out, or said.


def file_entry(server: Server, name: str, **more: object) -> dict[str, object]:
    return {"filename": name, "url": f"{server.url}/files/{name}", "hashes": {}, **more}


MANY = ".".join(f"t{number}" for number in range(300))
WRONG_NAMES = {
    "tags": f"x-2.0-{MANY}-{MANY}-{MANY}.whl",
    "short tags": f"x-2.0-{'.'.join('a' * 40)}-{'.'.join('b' * 40)}-{'.'.join('c' * 40)}.whl",
    "digits": f"x-{'9' * 20_000}-py3-none-any.whl",
    "build": f"x-2.0-{'9' * 20_000}-py3-none-any.whl",
}


@pytest.mark.parametrize("html", [False, True])
@pytest.mark.parametrize("name", WRONG_NAMES.values(), ids=WRONG_NAMES)
def test_a_name_that_no_file_has_costs_one_file(server: Server, tmp_path: Path, name: str, *, html: bool) -> None:
    if html:
        anchors = "".join(f'<a href="/files/{each}">{each}</a>' for each in (name, NAME))
        server.pages["/simple/x/"] = page(f"<html>{anchors}".encode(), {"Content-Type": "text/html"})
    else:
        server.lists("x", [file_entry(server, name), file_entry(server, NAME)])
    assert candidates(server, tmp_path) == [("1.0", "")]


def test_a_time_that_is_none_and_a_requirement_without_end_cost_one_file(server: Server, tmp_path: Path) -> None:
    other = NAME.replace("1.0", "2.0")
    long = {"requires-python": ",".join(f"!=3.{number}" for number in range(10_000))}
    server.lists("x", [file_entry(server, NAME, **{"upload-time": "soon"}), file_entry(server, other, **long)])
    assert candidates(server, tmp_path) == [("2.0", "is described wrongly by the index"), ("1.0", "")]


@pytest.mark.parametrize("html", [False, True])
def test_a_page_with_too_many_files(server: Server, tmp_path: Path, *, html: bool) -> None:
    names = (f"x-{number}-py3-none-any.whl" for number in range(50_001))
    if html:
        body, kind = "".join(f"<a href={name}>" for name in names).encode(), "text/html"
    else:
        body, kind = f'{{"files":[{",".join(f"""{{"url":"{name}"}}""" for name in names)}]}}'.encode(), JSON
    server.pages["/simple/x/"] = page(body, {"Content-Type": kind})
    with pytest.raises(UnreachableError, match="lists more than 50,000 files"):
        candidates(server, tmp_path)


def test_a_page_of_html_that_parsers_take_long_for(server: Server, tmp_path: Path) -> None:
    """Unclosed comments, quotes and tags, of which each would be looked for to the end of the page."""
    hard = b'<!-- <![CDATA[ <a x=\'"<a href="' * 20_000
    body = f'<a href="/files/{NAME}">{NAME}</a>'.encode() + hard
    server.pages["/simple/x/"] = page(body, {"Content-Type": "text/html"})
    assert candidates(server, tmp_path) == [("1.0", "")]


def test_anchors_as_indexes_have_them(server: Server, tmp_path: Path) -> None:
    body = (
        b"<!DOCTYPE html><html><head><base href='../../files/'></head>"
        b'<A data-requires-python="&gt;=3.9" data-core-metadata="sha256=abc" HREF = "x-1.0-py3-none-any.whl#sha256='
        + b"ab"
        * 32
        + b'">x</A><a\nhref=x-2.0-py3-none-any.whl data-yanked>x</a><a data-requires-python="&lt;3" '
        b"href='x-3.0-py3-none-any.whl'>x</a><abbr href='x-4.0-py3-none-any.whl'>"
    )
    server.pages["/simple/x/"] = page(body, {"Content-Type": "text/html; charset=utf-8"})
    index = opened(server, tmp_path)
    newest, oldest = index.candidates(Requirement("x"))
    assert (str(newest.version), newest.unfit) == ("3.0", "requires Python <3")
    assert index.origin(oldest) == (f"{server.url}/files/{NAME}", "ab" * 32)
    with pytest.raises(InputError, match=r"x-1\.0-py3-none-any\.whl"):
        index.metadata(oldest)
    assert f"/files/{NAME}.metadata" in server.asked


def test_metadata_without_end(server: Server, tmp_path: Path) -> None:
    entry = file_entry(server, NAME, **{"core-metadata": True})
    server.lists("x", [entry])
    server.pages[f"/files/{NAME}.metadata"] = page(b"Name: x\n" + b"Requires-Dist: y\n" * 600_000)
    index = opened(server, tmp_path)
    (candidate,) = index.candidates(Requirement("x"))
    with pytest.raises(InputError, match=r"is larger than 8 MiB.*check the index settings"):
        index.metadata(candidate)
    server.pages[f"/files/{NAME}.metadata"] = page(b"Name: x\n" + b"Requires-Dist: y\n" * 5_001)
    with pytest.raises(InputError, match=r"has 5,001 requirements, more than 5,000 \(choose another version"):
        index.metadata(candidate)


@pytest.mark.parametrize("line", ["torch==" + "1" * 20_000, "torch>=" + "1." * 6_000 + "1", "y; " + "(" * 9_000])
def test_a_requirement_that_nobody_can_read_is_none(server: Server, tmp_path: Path, line: str) -> None:
    server.lists("x", [file_entry(server, NAME, **{"core-metadata": True})])
    server.pages[f"/files/{NAME}.metadata"] = page(
        f"Name: x\nRequires-Dist: {line}\nRequires-Dist: torch>=2\n".encode()
    )
    index = opened(server, tmp_path)
    (candidate,) = index.candidates(Requirement("x"))
    assert str(index.metadata(candidate).requires_torch) == "torch>=2"


def fitted(server: Server, folder: Path, *names: str) -> object:
    choices = [LinuxPlatform(Machine.X86_64).build_of("2.13.0")]
    wanted = [Requirement(name) for name in names]
    return fit_packages(wanted, choices, opened(server, folder), Session(folder=folder), installed=False)


def test_versions_without_end(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_MOST_READ", 20)
    files = [file_entry(server, f"x-{number}-py3-none-any.whl", **{"core-metadata": True}) for number in range(30)]
    server.lists("x", files)
    server.pages |= {
        f"/files/x-{number}-py3-none-any.whl.metadata": page(b"Requires-Dist: torch<2\n") for number in range(30)
    }
    with pytest.raises(InputError, match=r"x: more than 20 versions would have to be looked at \(narrow it down"):
        fitted(server, tmp_path, "x")


def test_combinations_without_end(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_search, "_MOST_COMPARED", 100)
    for name, other in (("x", "y"), ("y", "x")):
        names = [f"{name}-{number}-py3-none-any.whl" for number in range(30)]
        server.lists(name, [file_entry(server, each, **{"core-metadata": True}) for each in names])
        metadata = page(f"Requires-Dist: {other}==99\n".encode())
        server.pages |= {f"/files/{each}.metadata": metadata for each in names}
    with pytest.raises(InputError, match=r"more than 100 pairs of versions would have to be compared \(narrow it down"):
        fitted(server, tmp_path, "x", "y")


# Servers that never end: ``patience`` is a minute otherwise.


def drips(server: Server, before: bytes, forever: bytes) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(before)
        while not server.over.wait(0.02):
            handler.wfile.write(forever)

    return answer


OK = b"HTTP/1.1 200 OK\r\n"
SLOW: dict[str, tuple[bytes, bytes]] = {
    "status": (b"HTTP/1.1 200 ", b"O"),
    "header": (OK + b"X: ", b"x"),
    "headers": (OK, b"X: x\r\n"),
    "body": (OK + b"Content-Type: text/html\r\nContent-Length: 9999999\r\n\r\n", b"x" * 26),
    "chunk": (OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "nothing": (b"", b""),
}


@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
def test_a_server_that_drips_is_given_up(server: Server, tmp_path: Path, slow: tuple[bytes, bytes]) -> None:
    server.pages["/page"] = drips(server, *slow)
    web = Web(tmp_path, pause=0.0, patience=0.3)
    with pytest.raises(UnreachableError, match=r"the server sent \d+ bytes in \d+ s, and was given up \(run it again"):
        web.get(f"{server.url}/page")
    assert server.asked == ["/page"], "a slow server is asked once"


def test_all_servers_together_have_a_limit(server: Server, tmp_path: Path) -> None:
    server.pages["/page"] = drips(server, *SLOW["header"])
    server.pages["/quick"] = page(b"quick")
    web = Web(tmp_path, pause=0.0, most_seconds=0.3)
    assert web.get(f"{server.url}/quick").content == b"quick"
    for _ in range(2):
        with pytest.raises(UnreachableError, match="the servers took too long altogether, so abiscan stopped waiting"):
            web.get(f"{server.url}/page")


def endless(server: Server) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(OK + b"\r\n")
        for _ in itertools.takewhile(lambda _: not server.over.is_set(), itertools.count()):
            handler.wfile.write(bytes(1 << 20))

    return answer


def test_a_file_without_end_leaves_nothing_behind(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abiscan.index.remote._LARGEST", 8 << 20)
    server.pages["/x.whl"] = endless(server)
    with pytest.raises(UnreachableError, match="is larger than any wheel"):
        RemoteFile(Web(tmp_path), f"{server.url}/x.whl", None, tmp_path).read()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == 0


def test_a_file_that_claims_to_be_endless(server: Server, tmp_path: Path) -> None:
    headers = {"Content-Range": f"bytes {10**18 - 4}-{10**18 - 1}/{10**18}"}
    server.pages["/x.whl"] = page(b"PK\5\6", headers, 206)
    with pytest.raises(UnreachableError, match="is larger than any wheel"):
        RemoteFile(Web(tmp_path), f"{server.url}/x.whl", None, tmp_path).read()


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
def test_an_encoding_that_may_be_a_bomb(server: Server, tmp_path: Path, encoding: str) -> None:
    server.pages["/page"] = page(b"x", {"Content-Encoding": encoding})
    with pytest.raises(UnreachableError, match=f"encoded with {encoding}, which was not asked for"):
        Web(tmp_path).get(f"{server.url}/page")


def test_pages_count_in_the_size_of_the_cache(server: Server, tmp_path: Path) -> None:
    from abiscan.index.remote import delete_oldest_files

    for number in range(3):
        server.pages[f"/{number}"] = page(bytes(100_000))
        Web(tmp_path).get(f"{server.url}/{number}")
    delete_oldest_files(tmp_path, limit=250_000)
    assert len(list(tmp_path.glob("*.page"))) == 2


# Redirections, and what an index may name.


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("to", ["file:///etc/passwd", "file:///dev/zero", "FILE:///etc/passwd", "ftp://x/y", "data:,x"])
def test_a_redirection_stays_on_the_web(server: Server, tmp_path: Path, to: str, ways: int) -> None:
    server.pages |= {"/page": redirect(to if ways == 1 else "/next"), "/next": redirect(to)}
    with pytest.raises(UnreachableError, match=r"redirects to an address that is neither http|is not a URL"):
        Web(tmp_path, pause=0.0).get(f"{server.url}/page")
    with pytest.raises(UnreachableError, match=r"redirects to an address that is neither http|is not a URL"):
        RemoteFile(Web(tmp_path, pause=0.0), f"{server.url}/page", None, tmp_path).read()


def test_a_redirection_on_the_web_is_followed(server: Server, tmp_path: Path) -> None:
    server.pages |= {"/page": redirect("/next"), "/next": page(b"there")}
    assert Web(tmp_path).get(f"{server.url}/page").content == b"there"


@pytest.mark.parametrize("url", ["file:///dev/zero", "file:///dev/stdin", "ftp://127.0.0.1/x", "x:y", ""])
def test_only_files_and_the_web_are_read(tmp_path: Path, url: str) -> None:
    with pytest.raises(UnreachableError, match=r"it is a (device|pipe)|is neither an http|cannot be read"):
        Web(tmp_path).get(url)


def test_what_the_user_reads(server: Server, tmp_path: Path) -> None:
    """A limit is a message, with what to type, and exit code 2."""
    server.pages["/simple/x/"] = page(bytes(33 << 20), {"Content-Type": JSON})
    words = ("fit", "x", "--torch", "2.13.0", "--index-url", server.index)
    done = run(*words, cwd=tmp_path, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert (done.code, done.out) == (2, "")
    assert "/simple/x/: is larger than 32 MiB, which no page of an index needs (check the index settings)" in done.err
