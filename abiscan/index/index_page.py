"""Reduce the page of a package on an index to its limits: what is beyond them does not reach the parsers of others.

A page of HTML (PEP 503) becomes one of JSON (PEP 691), for the same reason: each anchor is read by itself, and takes
time in proportion to its length.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

from abiscan.errors import InputError, UnreachableError
from abiscan.inputs.kinds import is_wheel_name
from abiscan.inputs.variants import without_label
from abiscan.regex import regex

JSON: Final = "application/vnd.pypi.simple.v1+json"
KINDS: Final = (JSON, "application/vnd.pypi.simple.v1+html", "text/html")

MOST_FILES: Final = 50_000
"""The most that a page may list: twice as many as the largest known."""

_VALUES_PER_FILE: Final = 40
LONGEST_NAME: Final = 255
"""A file with a longer name cannot be downloaded: no file system takes it."""

_MOST_TAGS: Final = 100
_TAGS_OF_WHEEL: Final = 3  # the last parts of its name: of Python, of the ABI, of the platform
_LONGEST_ANCHOR: Final = 8_192
_ANCHOR: Final = regex(r"<a(?=\s)", re.IGNORECASE)
_BASE: Final = regex(r"<base(?=\s)([^<>]{0,2048})>", re.IGNORECASE)
_ATTRIBUTE: Final = regex(r"""(?<![\w-])([\w-]+)(?:\s{0,9}=\s{0,9}(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+)))?""")
_END_OF_TAG: Final = regex(r"""(?:[^"'>]|"[^"]*"|'[^']*')*""")
_CHARSET: Final = regex(r"charset=\"?(iso-8859-1|latin-?1|windows-1252)", re.IGNORECASE)
_FIX: Final = "check the index settings"


def bound_page(url: str, kind: str, content: bytes) -> bytes:
    """Return the page as JSON, without the files whose names nothing can have.

    :param url: of the page, without credentials in messages
    :param kind: its type, as the server states it
    :raises UnreachableError: it lists too many files
    :raises ValueError: it is no such page
    """
    if kind.lower().startswith(JSON):
        # Counted before it is parsed: parsing takes far more memory than the text.
        if content.count(b"{") > 4 * MOST_FILES or content.count(b",") > _VALUES_PER_FILE * MOST_FILES:
            raise _too_many_error(url)
        document = json.loads(content)
        if not isinstance(document, dict) or not isinstance(document.get("files", []), list):
            raise ValueError("it is not a page of files")
    else:
        # Latin-1 has a character for each byte; a page that states no encoding is read as UTF-8.
        text = content.decode("latin-1" if _CHARSET.search(kind) else "utf-8")
        document = {"files": list(_read_anchors(url, text))}
    files = document.get("files", [])
    if len(files) > MOST_FILES:
        raise _too_many_error(url)
    return json.dumps({"files": [file for file in files if _can_be(file)]}).encode()


def _too_many_error(url: str) -> InputError:
    """Make the error for a page that lists too many files."""
    host = urlsplit(url).hostname or url
    return UnreachableError(host, f"the page of the package lists more than {MOST_FILES:,} files", _FIX)


def _can_be(file: Any) -> bool:
    """Tell whether a file can have its name, and can be for as many systems as that says."""
    if isinstance(file, dict):
        file.pop("upload-time", None)  # says nothing here, and may be no time
        if isinstance(url := file.get("url"), str):
            name = unquote(urlsplit(url).path.rpartition("/")[2])
            tags = without_label(name).removesuffix(".whl").split("-")[-_TAGS_OF_WHEEL:] if is_wheel_name(name) else []
            return len(name) <= LONGEST_NAME and math.prod(tag.count(".") + 1 for tag in tags) <= _MOST_TAGS
    return True


def _read_anchors(url: str, text: str) -> Iterator[dict[str, Any]]:
    """Yield the files that a page of HTML names."""
    base = _BASE.search(text)
    root = urljoin(url, _read_attributes(base[1]).get("href", "")) if base else url
    for number, anchor in enumerate(_ANCHOR.split(text)[1:], 1):
        if number > MOST_FILES:
            raise _too_many_error(url)
        # Each anchor is cut before it is searched, so that a page takes time in proportion to its length.
        start = anchor[:_LONGEST_ANCHOR]
        end = _END_OF_TAG.match(start)
        attributes = _read_attributes(start[: end.end()] if end else "")
        if href := attributes.get("href"):
            name, stated, digest = attributes.get(
                "data-core-metadata", attributes.get("data-dist-info-metadata", "")
            ).partition("=")
            yield {
                "url": urljoin(root, href),
                "requires-python": attributes.get("data-requires-python"),
                "yanked": attributes.get("data-yanked", False) or "data-yanked" in attributes,
                "core-metadata": {name: digest} if stated else bool(name),
            }


def _read_attributes(tag: str) -> dict[str, str]:
    """Read the attributes of a tag; of two with the same name, the first counts, as in HTML."""
    attributes: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(tag):
        attributes.setdefault(match[1].lower(), html.unescape(match[2] or match[3] or match[4] or ""))
    return attributes
