"""What a server may answer: wrong statuses, ranges, lengths, types, pages, and connections that break."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import socket
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from packaging.requirements import Requirement

from abiscan.binary.elf import Machine
from abiscan.index.client import Index, Settings
from abiscan.index.system import System
from abiscan.inputs.session import Session
from abiscan.pipelines.fit import fit_packages
from abiscan.torches.platforms import LinuxPlatform
from tools.fuzz.model import EDGES, SAMPLES, Case, damaged
from tools.fuzz.texts import changed

_WHEEL: Final = "x-1.0-py3-none-linux_x86_64.whl"
_SYSTEM: Final = System.of((3, 11), "linux_x86_64")
_PAGES: Final = (
    "application/vnd.pypi.simple.v1+json",
    "text/html",
    "text/html; charset=nonsense",
    "application/json",
    "",
    "x/y",
)


@functools.cache
def _wheel() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(SAMPLES / "loads" / "loads.so", "x/_C.so")
        archive.writestr("x/__init__.py", "import torch\nfrom x import _C\n")
        archive.writestr(
            "x-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\nRequires-Dist: torch\n"
        )
        archive.writestr("x/pad.txt", Random(0).randbytes(700_000))  # larger than what is fetched whole
    return stream.getvalue()


def _page(random: Random) -> tuple[str, bytes]:
    digest = hashlib.sha256(_wheel()).hexdigest() if random.random() < 0.5 else "0"
    name = (
        _WHEEL
        if random.random() < 0.8
        else random.choice(("x.whl", "../" * 9 + _WHEEL, _WHEEL.replace("1.0", "9" * 999), "x-1.0.tar.gz", "\0"))
    )
    if random.random() < 0.4:
        base = random.choice(("", "//", "file:///", "x:y"))
        anchor = f'<a href="../files/{name}#sha256={digest}">{name}</a>'
        page = f'<!DOCTYPE html><html><base href="{base}">{anchor}'
        return "text/html", damaged(page.encode(), random) if random.random() < 0.5 else page.encode()
    file = {
        "filename": name,
        "url": f"/files/{name}",
        "hashes": {"sha256": digest},
        "requires-python": ">=3",
        "yanked": False,
    }
    document: object = {"meta": {"api-version": "1.0"}, "name": "x", "files": [file]}
    document = changed(document, random) if random.random() < 0.6 else document
    text = json.dumps(document).encode()
    return random.choice(_PAGES[:1] * 5 + _PAGES), damaged(text, random) if random.random() < 0.2 else text


def _file(random: Random, request: bytes) -> tuple[int, dict[str, str], bytes]:
    content = _wheel()
    start, end = 0, len(content)
    status = 200
    headers = {"ETag": random.choice(('"1"', '"1"', f'"{random.random()}"'))}
    if b"range: bytes=" in request.lower() and random.random() < 0.9:
        asked = request.lower().split(b"range: bytes=")[1].split(b"\r\n")[0].decode()
        first, _, last = asked.partition("-")
        start, end = (int(first), min(int(last) + 1, end)) if first else (max(0, end - int(last)), end)
        status = 206
        numbers = [start, end - 1, len(content)]
        if random.random() < 0.2:
            numbers[random.randrange(3)] = random.choice(EDGES)
        headers["Content-Range"] = f"bytes {numbers[0]}-{numbers[1]}/{numbers[2]}"
    part = content[start:end]
    return status, headers, damaged(part, random, 3) if random.random() < 0.2 else part


def _answer(random: Random, request: bytes) -> bytes:
    path = request.split(b" ")[1].decode("latin-1") if request.count(b" ") > 1 else "/"
    if path.startswith("/simple"):
        kind, body = _page(random)
        status, headers = 200, {"Content-Type": kind}
    else:
        status, headers, body = _file(random, request)
    fault = random.random()
    if fault < 0.1:
        status = random.choice((100, 101, 204, 206, 301, 302, 304, 400, 403, 404, 416, 418, 599, 999, 0))
        headers["Location"] = random.choice(("/", "//", path, "ftp://x", "http://[", "\xff", "http://127.0.0.1:1/"))
    length: object = len(body)
    if 0.1 < fault < 0.2:
        length = random.choice((*EDGES, -1, "x", f"{len(body)}, {len(body)}"))
    if 0.2 < fault < 0.25:
        headers["Content-Encoding"] = random.choice(("gzip", "deflate", "br", "zstd", "identity", "x"))
    if 0.25 < fault < 0.3:
        headers["Transfer-Encoding"] = "chunked"
    if 0.3 < fault < 0.35:
        body = body[: random.randrange(len(body) + 1)]
    lines = [
        f"HTTP/1.{random.choice('1110')} {status} x",
        f"Content-Length: {length}",
        *(f"{k}: {v}" for k, v in headers.items()),
    ]
    answer = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\nConnection: close\r\n\r\n" + body
    if 0.35 < fault < 0.4:
        answer = damaged(answer[:400], random) + answer[400:]
    return b"" if fault > 0.99 else answer


@contextlib.contextmanager
def _serving(random: Random) -> Iterator[str]:
    """A server on the loopback interface, which answers with what a random number says."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it was closed
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(2)
                request = b""
                while b"\r\n\r\n" not in request and (part := connection.recv(1 << 16)):
                    request += part
                if request:
                    connection.sendall(_answer(random, request))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/simple"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _fit(random: Random, folder: Path) -> None:
    with _serving(random) as url:
        index = Index(Settings(index_urls=(url,)), _SYSTEM, folder / "wheels")
        index.web._pause = 0
        choices = [LinuxPlatform(Machine.X86_64).build_of("2.13.0")]
        fit_packages([Requirement("x")], choices, index, Session(folder=folder), installed=False).to_json()


def case(random: Random, folder: Path) -> Case:
    """``fit_packages`` with an index that answers nonsense."""
    return Case(call=functools.partial(_fit, random, folder), may_write=True)
