"""What is kept between runs, as somebody else may have left it; and what an index says, as it may say it."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
from pathlib import Path
from random import Random
from typing import Final

from abiscan.errors import AbiscanError
from abiscan.index.index_page import JSON, bound_page
from abiscan.index.remote import RemoteFile
from abiscan.index.web import Web
from abiscan.inputs.requirement import metadata_of, read_metadata, required_by
from tools.fuzz.model import SAMPLES, TORCH, Case, damaged
from tools.fuzz.texts import changed

_SAMPLE: Final = str(SAMPLES / "loads" / "loads.so")
_URL: Final = "http://127.0.0.1:9/x.whl"
_PAGE: Final = {
    "meta": {"api-version": "1.0"},
    "files": [
        {
            "filename": "x-1.0-py3-none-any.whl",
            "url": "../x-1.0-py3-none-any.whl",
            "hashes": {"sha256": "ab" * 32},
            "requires-python": ">=3",
            "core-metadata": {"sha256": "ab" * 32},
            "yanked": False,
            "upload-time": "2026-01-01T00:00:00Z",
        }
    ],
}
_HTML: Final = (
    b'<!DOCTYPE html><html><head><base href="/files/"></head><body><a href="x-1.0-py3-none-any.whl#sha256=ab" '
    b'data-requires-python="&gt;=3" data-yanked data-core-metadata="sha256=ab">x</a></body></html>'
)
_METADATA: Final = (
    b"Metadata-Version: 2.4\nName: x\nVersion: 1.0+pt28cu128\nRequires-Dist: torch>=2.1,<3; python_version >= '3.9'\n"
    b"Requires-Dist: nvidia-cublas-cu12==12.8.4.1; platform_system == \"Linux\"\n and platform_machine == 'x86_64'\n"
    b"Requires-Dist: torch @ https://x/torch-2.8.0%2Bcu128-cp311-cp311-linux_x86_64.whl\n\nA description\n"
)


@functools.cache
def _kept_before(folder: Path) -> Path:
    """Return the cache of a run in a folder."""
    import abiscan
    from abiscan.inputs.session import Session

    abiscan.check(_SAMPLE, "2.13.0", session=Session(folder=folder / "kept" / "abiscan"))
    abiscan.operators(_SAMPLE, session=Session(folder=folder / "kept" / "abiscan"))
    return folder / "kept"


def case(random: Random, folder: Path) -> Case:
    """A run with a cache that is damaged."""
    cache = folder.parent / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    shutil.copytree(_kept_before(folder.parent), cache)
    for path in sorted(path for path in cache.rglob("*") if path.is_file()):
        content = path.read_bytes()
        path.write_bytes(random.choice((content, damaged(content, random), content[: random.randrange(len(content))])))
    return Case(words=["check", _SAMPLE, *TORCH, "--format", "json"])


def parts(random: Random, folder: Path) -> Case:
    """The list of what was read of a file on a server."""
    return Case(call=functools.partial(_read_parts, random, folder), may_write=True)


def _read_parts(random: Random, folder: Path) -> None:
    with contextlib.closing(Web(folder, offline=True)) as web:
        with RemoteFile(web, _URL, "ab" * 32, folder) as file:
            file._note_size(1_000, '"1"')
            file._write_part(0, bytes(500), 0)
            file._note_part(0, 500)
        for path in (*folder.glob("*.parts"), *folder.glob("*.data")):
            if random.random() < 0.7:
                path.write_bytes(damaged(path.read_bytes(), random))
        with RemoteFile(web, _URL, "ab" * 32, folder) as file:
            assert file.read(100) == bytes(100)


def page(random: Random, folder: Path) -> Case:
    """The page of a package."""
    del folder
    if random.random() < 0.5:
        text = json.dumps(changed(_PAGE, random)).encode()
        return Case(call=functools.partial(_page, JSON, damaged(text, random) if random.random() < 0.3 else text))
    kind = random.choice(("text/html", "text/html; charset=latin-1", "text/html; charset=\0", "TEXT/HTML;x"))
    return Case(call=functools.partial(_page, kind, damaged(_HTML * random.choice((1, 1, 50)), random, 30)))


def _page(kind: str, content: bytes) -> None:
    try:
        json.loads(bound_page(_URL, kind, content))
    except ValueError:  # it is no page, which ``Index`` reports
        return


def metadata(random: Random, folder: Path) -> Case:
    """The metadata of a wheel, from an index or from the wheel."""
    del folder
    return Case(call=functools.partial(_metadata, damaged(_METADATA * random.choice((1, 1, 20)), random, 12)))


def _metadata(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    for wheel in ("x-1.0-cp311-cp311-linux_x86_64.whl", "x.whl"):
        read_metadata(text, wheel)
        lines = required_by(text, wheel)
        try:
            str(metadata_of(lines, "1.0", wheel))
        except AbiscanError:
            continue
