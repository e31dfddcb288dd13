"""How long servers are waited for, which of their answers are tried again, and what a page may be."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from abiscan.errors import InputError, UnreachableError
from abiscan.index import web
from abiscan.index.web import Web, _Watch

URL = "https://index.example/simple/demo/"


class Answers:
    """A client that gives one answer after the other: a response, or an error that is raised."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self._answers = itertools.cycle(answers)
        self.asked: list[tuple[str, str]] = []

    @contextlib.contextmanager
    def stream(self, method: str, url: str, **_: Any) -> Iterator[httpx2.Response]:
        yield self.request(method, url)

    def request(self, method: str, url: str, **_: Any) -> httpx2.Response:
        self.asked.append((method, url))
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def response(status: int = 200, content: bytes | Iterable[bytes] = b"", **headers: str) -> httpx2.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    # A body that comes in parts is counted, as one from a server.
    body = (content,) if isinstance(content, bytes) and content else content
    return httpx2.Response(status, headers=sent, content=body, request=httpx2.Request("GET", URL))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read no certificates, which takes longer than all of a test."""
    monkeypatch.setattr(web, "PyPIClient", lambda **_: Answers())


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that would have been made."""
    result: list[float] = []
    monkeypatch.setattr(time, "sleep", result.append)
    return result


def asking(monkeypatch: pytest.MonkeyPatch, folder: Path, *answers: httpx2.Response | Exception) -> tuple[Web, Answers]:
    result, client = Web(folder, pause=1.0), Answers(*answers)
    monkeypatch.setattr(result, "_client", client)
    return result, client


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_passes_is_tried_three_times(
    status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waits: list[float]
) -> None:
    asked, client = asking(monkeypatch, tmp_path, response(status), response(status), response(200, b"page"))
    assert asked.get(URL).content == b"page"
    assert (len(client.asked), waits) == (3, [1.0, 1.0])
    asked, client = asking(monkeypatch, tmp_path, response(status))
    reason = "too many requests" if status == 429 else httpx2.codes.get_reason_phrase(status)
    with pytest.raises(UnreachableError, match=f"the server answers {status}: {reason}"):
        asked.get(URL)
    assert (len(client.asked), waits[2:]) == (3, [1.0, 1.0])


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "the server answers 400: Bad Request"),
        (401, "the server answers 401: the index wants credentials"),
        (403, "the server answers 403: the index refuses access"),
        (404, ""),
        (410, "the server answers 410: Gone"),
        (416, ""),
        (501, "the server answers 501: Not Implemented"),
    ],
)
def test_what_does_not_pass_is_tried_once(
    status: int, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waits: list[float]
) -> None:
    asked, client = asking(monkeypatch, tmp_path, response(status))
    if said:
        with pytest.raises(UnreachableError, match=said):
            asked.get(URL)
    else:
        assert asked.get(URL).status_code == status
    assert (len(client.asked), waits) == (1, [])


@pytest.mark.parametrize(
    ("asks", "waited"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("20", 20.0),
        ("21", 20.0),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 1.0),
        ("-5", 1.0),
        ("", 1.0),
    ],
)
def test_how_long_a_server_asks_to_wait(
    asks: str, waited: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waits: list[float]
) -> None:
    """RFC 9110, ``Retry-After``: seconds, or a date, which counts as nothing; at most 20 seconds."""
    asked, _ = asking(monkeypatch, tmp_path, response(503, Retry_After=asks), response())
    asked.get(URL)
    assert waits == [waited]


def test_a_server_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waits: list[float]) -> None:
    asked, client = asking(monkeypatch, tmp_path, httpx2.ConnectError(""), httpx2.ConnectError("no route"), response())
    asked.get(URL)
    assert (len(client.asked), waits) == (3, [1.0, 1.0])
    for error, said in ((httpx2.ConnectError("no route"), "no route"), (httpx2.ReadTimeout(""), "ReadTimeout")):
        asked, client = asking(monkeypatch, tmp_path, error)
        with pytest.raises(UnreachableError, match=rf"index\.example/simple/demo/: cannot be reached: {said}"):
            asked.get(URL.replace("//", "//user:secret@"))
        assert len(client.asked) == 3
    asked, client = asking(monkeypatch, tmp_path, httpx2.InvalidURL("a bad port"))
    with pytest.raises(UnreachableError, match="is not a URL: a bad port"):
        asked.get(URL)
    assert len(client.asked) == 1


@pytest.mark.parametrize(
    "url", ["ftp://index.example/", "httpx://index.example/", "index.example", "", "data:text/html,"]
)
def test_an_address_of_another_kind(url: str, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="is neither an http nor an https address"):
        Web(tmp_path).get(url)
    assert Web(tmp_path).size(url, 1.0) is None


def test_a_page_that_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked, _ = asking(monkeypatch, tmp_path, response(200, b"page\nof two lines", Content_Type="text/html"))
    page = asked.get(URL)
    offline = Web(tmp_path, offline=True)
    again = offline.get(URL)
    for one in (page, again):
        assert (one.status_code, one.content, str(one.url)) == (200, b"page\nof two lines", URL)
        assert one.headers["Content-Type"] == "text/html"
    assert (asked.bytes_read, offline.bytes_read) == (17, 0)
    for unknown in (f"{URL}?", "https://user:secret@other.example/"):
        with pytest.raises(UnreachableError, match=r"is not in the cache \(run it without --offline\)") as caught:
            offline.get(unknown)
        assert "secret" not in str(caught.value)
    with pytest.raises(UnreachableError, match="is not in the cache"), offline.get_stream(URL):
        pass
    (file,) = tmp_path.glob("*.page")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UnreachableError, match="is not in the cache"):
        offline.get(URL)


@pytest.mark.parametrize(("size", "fits"), [(10, True), (11, False)])
def test_the_largest_page(size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, fits: bool) -> None:
    (tmp_path / "page.html").write_bytes(bytes(size))
    asked, _ = asking(monkeypatch, tmp_path, response(200, bytes(size)))
    for url in (URL, (tmp_path / "page.html").as_uri()):
        if fits:
            assert asked.get(url, largest=10).content == bytes(size)
        else:
            with pytest.raises(UnreachableError, match="is larger than 0 MiB, which no page of an index needs"):
                asked.get(url, largest=10)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_an_encoding_that_was_not_asked_for(encoding: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked, _ = asking(monkeypatch, tmp_path, response(200, iter((b"page",)), Content_Encoding=encoding))
    with pytest.raises(UnreachableError, match=f"encoded with {encoding}, which was not asked for"):
        asked.get(URL)


def test_a_transfer_that_breaks_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def body(error: Exception) -> Iterator[bytes]:
        yield b"begin"
        raise error

    for error, said in ((httpx2.ReadError("closed"), "closed"), (httpx2.ReadError(""), "ReadError")):
        asked, _ = asking(monkeypatch, tmp_path, response(200, body(error)))
        with pytest.raises(UnreachableError, match=rf"the transfer broke off: {said} \(run it again: it resumes"):
            asked.get(URL)
        assert not list(tmp_path.glob("*.page")), "half a page is none"


def test_pages_on_disk(tmp_path: Path) -> None:
    for name, kind in (("a.html", "text/html"), ("a.htm", "text/html"), ("a.json", "text/plain")):
        (tmp_path / name).write_bytes(b"page")
        page = Web(tmp_path).get((tmp_path / name).as_uri())
        assert (page.status_code, page.content, page.headers["Content-Type"]) == (200, b"page", kind)
    assert Web(tmp_path).get((tmp_path / "none.html").as_uri()).status_code == 404
    with pytest.raises(UnreachableError, match="cannot be read"):
        Web(tmp_path).get(tmp_path.as_uri())


@pytest.mark.parametrize(
    ("status", "length", "size"),
    [(200, "1234", 1234), (200, "0", 0), (206, "5", 5), (404, "1234", None), (500, "1234", None), (302, "1", None),
     (200, "", None), (200, "-5", None), (200, "1" * 15, int("1" * 15)), (200, "1" * 16, None)],
)  # fmt: skip
def test_the_size_that_a_server_states(
    status: int, length: str, size: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, client = asking(monkeypatch, tmp_path, response(status, Content_Length=length))
    assert asked.size(URL, 1.0) == size
    assert client.asked == [("HEAD", URL)]
    asked, _ = asking(monkeypatch, tmp_path, httpx2.ConnectError("no route"))
    assert asked.size(URL, 1.0) is None


def test_where_a_redirect_may_lead() -> None:
    def redirect(to: str) -> httpx2.Response:
        return response(302, Location=to)

    for address in ("https://other.example/", "http://other.example/", "/elsewhere", "?a", "https://[bad/"):
        web._stay_on_the_web(redirect(address))
    for address in ("file:///etc/passwd", "ftp://other.example/", "FILE:///etc/passwd"):
        with pytest.raises(httpx2.UnsupportedProtocol):
            web._stay_on_the_web(redirect(address))
    web._stay_on_the_web(response(200, Location="file:///etc/passwd"))


def test_certificates(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate", "utf-8")
    for path in (file, tmp_path / "absent"):
        with pytest.raises(InputError, match=r"cannot be read: .*\(check pip config list\)"):
            web._trust_certificates(str(path))
    context = web._trust_certificates(str(tmp_path))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens at once on an idle machine."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_request_without_progress_is_given_up() -> None:
    here, there = socket.socketpair()
    with here, there:
        watch = _Watch({here}, patience=0.05, most=1_000)
        watch.note_received(100)  # too little to count
        until(lambda: watch.given_up)
        assert watch.given_up == "the server sent 100 bytes in 0 s, and was given up"
        assert here.recv(1) == b"", "the connection is ended"
        watch.stop()


def test_progress_gives_a_request_more_time() -> None:
    watch = _Watch(set(), patience=1_000, most=2_000)
    began = watch._since
    watch.note_received(web._LEAST - 1)
    assert watch._since == began
    watch.note_received(web._LEAST)
    assert (watch._since > began, watch._bytes_before) == (True, web._LEAST)
    later = watch._since
    watch.note_received(2 * web._LEAST - 1)
    assert watch._since == later, "it has to send as much again"
    watch.stop()
    assert not watch.given_up


def test_all_servers_together_have_an_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    watch = _Watch(set(), patience=1_000, most=0.05)
    until(lambda: watch.given_up)
    assert watch.given_up == "the servers took too long altogether, so abiscan stopped waiting"
    watch.stop()
    asked = Web(tmp_path, most_seconds=10.0)
    made: list[float] = []

    class Noted(_Watch):
        def __init__(self, sockets: set[socket.socket], patience: float, most: float) -> None:
            made.append(most)
            super().__init__(sockets, patience, most)

    monkeypatch.setattr(web, "_Watch", Noted)
    clock = itertools.count(0.0, 3.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    for most in (None, 100.0, 0.5):
        with asked._watch_request(most):
            pass
    assert made[0] == 10.0
    assert 0.5 < made[1] < 10.0, "what was waited for is subtracted"
    assert made[2] <= 0.5


def test_a_server_that_is_given_up_is_the_cause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever error its closed connection leads to: it is not tried again."""
    asked, client = asking(monkeypatch, tmp_path, httpx2.ReadError("closed"))

    def stream(*arguments: Any, **options: Any) -> Any:
        assert asked._watch is not None
        asked._watch.given_up = "the server sent nothing"
        return Answers.stream(client, *arguments, **options)

    monkeypatch.setattr(client, "stream", stream)
    with pytest.raises(UnreachableError, match="the server sent nothing"):
        asked.get(URL)
    assert len(client.asked) == 1
