"""A package index on the loopback interface, over a folder of wheels: with and without ranges, and with faults."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import http.server
import json
import re
import threading
import urllib.parse
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from abiscan.inputs.variants import without_label

_STUCK_AFTER = 2 << 20


class LocalIndex:
    """What the server serves, how, and what it was asked.

    ``fault`` is what goes wrong with the files: ``short``, ``long``, ``other-range``, ``changing``, ``416``, ``500``,
    ``stuck`` (the server sends 2 MB of them, and then nothing), ``dribbling`` (a byte now and then), ``encoded``;
    ``body`` replaces the pages of packages, if it is not None;
    ``failures`` is how many requests for files fail before one succeeds, with 429; ``password`` is wanted for all;
    ``hashes`` says whether the index states those of the files; ``sizes``, by package, are what a HEAD request is told;
    ``metadata`` says whether the index has those of the wheels (PEP 658), ``html`` whether its pages are HTML.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.ranges = True
        self.fault = ""
        self.body: bytes | None = None
        self.failures = 0
        self.password = ""
        self.metadata = False
        self.html = False
        self.redirect = False
        self.wrong_hash = False
        self.hashes = True
        self.requires_python: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.yanked: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.stuck, self.freed = threading.Event(), threading.Event()

    def wheels_asked(self) -> set[str]:
        """The wheels that parts were asked of."""
        return {path.rpartition("/")[2] for path, _ in self.asked if path.endswith(".whl")}

    def page(self, name: str) -> tuple[str, bytes] | None:
        """The page of a package and its type."""
        files = [file for file in sorted(self.folder.glob("*.whl")) if _name_of(file) == name]
        files += sorted(self.folder.glob(f"{name.replace('-', '_')}-*-variants.json"))
        files += sorted(self.folder.glob(f"{name}-*.tar.gz"))
        if not files:
            return None
        if self.html:
            anchors = (f'<a href="../../files/{file.name}#sha256={_hash(file)}">{file.name}</a>' for file in files)
            return "text/html", f"<!DOCTYPE html><html><body>{''.join(anchors)}</body></html>".encode()
        entries = [self._entry(file) for file in files]
        document = {"meta": {"api-version": "1.0"}, "name": name, "files": entries}
        return "application/vnd.pypi.simple.v1+json", json.dumps(document).encode()

    def _entry(self, file: Path) -> dict[str, Any]:
        digest = "1" * 64 if self.wrong_hash else _hash(file)
        return {
            "filename": file.name,
            "url": f"../../files/{file.name}",
            "hashes": {"sha256": digest} if self.hashes else {},
            "requires-python": self.requires_python.get(file.name),
            "yanked": file.name in self.yanked,
            **({"core-metadata": True} if self.metadata else {}),
        }


def _name_of(file: Path) -> str:
    return parse_wheel_filename(without_label(file.name))[0]


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    index: LocalIndex
    protocol_version = "HTTP/1.0"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Say nothing."""

    def do_GET(self) -> None:
        index, path = self.index, urllib.parse.urlsplit(self.path).path
        index.asked.append((path, self.headers.get("Range", "")))
        if index.password:
            expected = f"Basic {base64.b64encode(f'user:{index.password}'.encode()).decode()}"
            if self.headers.get("Authorization") != expected:
                self._send(401, {}, b"")
                return
        if path.startswith("/simple/"):
            page = index.page(canonicalize_name(path.split("/")[2]))
            page = page if index.body is None else ("application/vnd.pypi.simple.v1+json", index.body)
            self._send(*(200, {"Content-Type": page[0]}, page[1]) if page else (404, {}, b""))
            return
        if path.endswith(".metadata"):
            self._send(200, {"Content-Type": "text/plain"}, _metadata(index.folder / Path(path).stem))
            return
        self._file(index.folder / Path(urllib.parse.unquote(path)).name)  # pip writes + as %2B

    def do_HEAD(self) -> None:
        """State the size of a file that the index gives one (the sizes of the others are not known)."""
        size = self.index.sizes.get(Path(urllib.parse.unquote(self.path)).name.partition("-")[0])
        self.send_response(405 if size is None else 200)
        if size is not None:
            self.send_header("Content-Length", str(size))
        self.end_headers()

    def _file(self, file: Path) -> None:
        index = self.index
        if index.redirect and not self.path.startswith("/elsewhere/"):
            self._send(302, {"Location": f"/elsewhere/{file.name}"}, b"")
            return
        if index.failures:
            index.failures -= 1
            self._send(429, {"Retry-After": "0"}, b"")
            return
        if index.fault in ("416", "500"):
            self._send(int(index.fault), {}, b"")
            return
        content = file.read_bytes()
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None or not index.ranges:
            self._send(200, {"ETag": '"1"'}, content)
            return
        start, end = max(0, len(content) - int(asked[2])), len(content)
        if asked[1]:
            start, end = int(asked[1]), min(int(asked[2]) + 1, len(content))
        part = content[start:end]
        stated = (start + 1, end) if index.fault == "other-range" and asked[1] else (start, end - 1)
        tag = f'"{len(index.asked)}"' if index.fault == "changing" else '"1"'
        headers = {"Content-Range": f"bytes {stated[0]}-{stated[1]}/{len(content)}", "ETag": tag}
        self._send(206, headers, part)

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        is_part = status == http.HTTPStatus.PARTIAL_CONTENT
        if self.index.fault == "long" and is_part:
            body += b"more"
        if self.index.fault == "encoded" and (is_part or body.startswith(b"PK")):
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            if self.index.fault == "stuck" and len(body) > _STUCK_AFTER:
                self.wfile.write(body[:_STUCK_AFTER])
                self.index.stuck.set()
                self.index.freed.wait(60)
                return
            if self.index.fault == "dribbling" and (is_part or body.startswith(b"PK")):
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    if self.index.freed.wait(0.05):
                        return
            cut = self.index.fault == "short" and (is_part or body.startswith(b"PK"))
            self.wfile.write(body[: len(body) // 2] if cut else body)


def _metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")))


@contextlib.contextmanager
def listening(handler: type[http.server.BaseHTTPRequestHandler], over: threading.Event) -> Iterator[str]:
    """Serve on a port of the loopback interface, and yield the address.

    :param over: is set at the end, for handlers that wait
    """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[LocalIndex]:
    """An index of the wheels in a folder."""
    index = LocalIndex(folder)
    with listening(type("Handler", (_Handler,), {"index": index}), index.freed) as address:
        index.url = f"{address}/simple"
        yield index
