"""Servers on the loopback interface that answer what they like."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import threading
import urllib.parse
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from tests.index_server import listening

JSON = "application/vnd.pypi.simple.v1+json"

Answer: TypeAlias = Callable[[http.server.BaseHTTPRequestHandler], None]


class Server:
    """A server: ``pages`` are answered by the paths that they are asked for with.

    ``over`` is set once the server is no longer wanted, for answers that do not end.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.pages: dict[str, Answer] = {}
        self.over = threading.Event()

    @property
    def index(self) -> str:
        """The address of its index."""
        return f"{self.url}/simple"

    def lists(self, name: str, files: list[dict[str, Any]]) -> None:
        """Have a page for a package."""
        content = {"meta": {"api-version": "1.0"}, "name": name, "files": files}
        self.pages[f"/simple/{name}/"] = page(json.dumps(content).encode(), {"Content-Type": JSON})

    def serves(self, file: Path, *, ranges: bool = True, sha256: str | None = None) -> dict[str, Any]:
        """Serve a file; what the page of its package has about it."""
        data = file.read_bytes()
        self.pages[f"/files/{file.name}"] = content(data, ranges=ranges)
        digest = hashlib.sha256(data).hexdigest() if sha256 is None else sha256
        return {"filename": file.name, "url": f"{self.url}/files/{file.name}", "hashes": {"sha256": digest}}


def page(body: bytes, headers: Mapping[str, str] | None = None, status: int = 200) -> Answer:
    """An answer with this body."""

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    return answer


def content(data: bytes, *, ranges: bool = True) -> Answer:
    """A file, or the part of it that is asked for."""

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range", "").removeprefix("bytes=")
        if not asked or not ranges:
            page(data)(handler)
            return
        first, _, last = asked.partition("-")
        start, end = (
            (int(first), min(int(last) + 1, len(data))) if first else (max(0, len(data) - int(last)), len(data))
        )
        page(data[start:end], {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}, 206)(handler)

    return answer


def redirect(to: str) -> Answer:
    """A redirection."""
    return page(b"", {"Location": to}, 302)


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A server, on a port of its own."""
    server = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Say nothing."""

        def do_GET(self) -> None:
            path = urllib.parse.urlsplit(self.path).path
            server.asked.append(path)
            with contextlib.suppress(OSError):
                server.pages.get(path, page(b"", status=404))(self)

        def do_HEAD(self) -> None:
            """Answer what uv asks first."""
            with contextlib.suppress(OSError):
                server.pages.get(urllib.parse.urlsplit(self.path).path, page(b"", status=404))(self)

    with listening(Handler, server.over) as server.url:
        yield server


def wheel(folder: Path, name: str, requires: str = "", *, size: int = 700_000, seed: int = 0) -> Path:
    """A wheel that is too large to be fetched whole, and its metadata lie before the rest."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    package, version = name.split("-")[:2]
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{requires}"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{package}-{version}.dist-info/METADATA", metadata)
        archive.writestr(f"{package}/data.bin", Random(seed).randbytes(size))
    return path
