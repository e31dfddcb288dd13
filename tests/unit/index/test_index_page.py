"""The files that a page names, read as a browser reads HTML: attributes, quotes, references, the base."""

from __future__ import annotations

import json
from typing import Any

import pytest

from abiscan.errors import InputError
from abiscan.index import index_page
from abiscan.index.index_page import bound_page

URL = "https://index.example/simple/demo/"
FILE = "https://index.example/simple/demo/f-1.0-py3-none-any.whl"


def files(html: str, kind: str = "text/html") -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads(bound_page(URL, kind, html.encode("latin-1")))["files"]
    return result


@pytest.mark.parametrize(
    ("attributes", "changes"),
    [
        ('href="f-1.0-py3-none-any.whl"', {}),
        ("href='f-1.0-py3-none-any.whl'", {}),
        ("href=f-1.0-py3-none-any.whl", {}),
        ('HREF = "f-1.0-py3-none-any.whl" href="g.whl"', {}),  # of two with one name, the first counts
        ('class="a>b" href="/simple/demo/f-1.0-py3-none-any.whl"', {}),
        ('href="f-1.0-py3-none-any.whl#sha256=0" data-yanked', {"url": f"{FILE}#sha256=0", "yanked": True}),
        ('href="f-1.0-py3-none-any.whl" data-yanked="why"', {"yanked": "why"}),
        ('href="f-1.0-py3-none-any.whl" data-requires-python="&gt;=3.9"', {"requires-python": ">=3.9"}),
        ('href="f-1.0-py3-none-any.whl" data-core-metadata="true"', {"core-metadata": True}),
        ('href="f-1.0-py3-none-any.whl" data-dist-info-metadata=sha256=0a', {"core-metadata": {"sha256": "0a"}}),
    ],
)
def test_the_attributes_of_a_file(attributes: str, changes: dict[str, object]) -> None:
    expected = {"url": FILE, "requires-python": None, "yanked": False, "core-metadata": False}
    assert files(f"<html><abbr title='x'>no file</abbr><a {attributes}>f</a>") == [{**expected, **changes}]


def test_which_address_is_the_base() -> None:
    page = '<head><BASE HREF="https://other.example/x/"></head><a name="top"></a><a href="f.whl">f</a><a href="/g.whl">'
    assert [file["url"] for file in files(page)] == ["https://other.example/x/f.whl", "https://other.example/g.whl"]


def test_the_encoding_is_that_which_the_server_states() -> None:
    assert [file["url"] for file in files('<a href="\xe9.whl">', "text/html; charset=ISO-8859-1")] == [f"{URL}\xe9.whl"]
    with pytest.raises(ValueError, match="utf-8"):
        files('<a href="\xe9.whl">')


def test_what_has_no_address_stays() -> None:
    document = {"files": [3, {"url": 5}, {"url": f"{URL}f.whl", "upload-time": "never"}, {"url": "x" * 300 + ".whl"}]}
    page = json.dumps(document).encode()
    assert json.loads(bound_page(URL, "application/vnd.pypi.simple.v1+json", page))["files"] == [
        *(3, {"url": 5}, {"url": f"{URL}f.whl"}),
    ]


@pytest.mark.parametrize(
    ("page", "fits"),
    [
        ([{}] * 3, True),
        ([{}] * 4, False),
        ([{"core-metadata": {"sha256": "0"}, "hashes": {"sha256": "0"}, "more": {}}] * 2 + [{}], True),
        ([{"more": [{}] * 8}, {}, {}], True),  # with that of the page, 12 in all
        ([{"more": [{}] * 9}, {}, {}], False),
        ([{"more": [0] * 118}, {}, {}], True),  # 120 commas
        ([{"more": [0] * 120}, {}, {}], False),
    ],
)
def test_how_much_a_page_may_list(page: list[dict[str, object]], fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each file four objects and forty values at most, so that a page takes little memory."""
    monkeypatch.setattr(index_page, "MOST_FILES", 3)
    content = json.dumps({"files": page}).encode()
    if fits:
        assert json.loads(bound_page(URL, index_page.JSON, content)) == {"files": page}
    else:
        with pytest.raises(InputError, match="lists more than 3 files"):
            bound_page(URL, index_page.JSON, content)


MANY = ".".join(f"p{number}" for number in range(11))
TEN = ".".join(f"t{number}" for number in range(10))


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        # A wheel is for each combination of the parts of its last three words (PEP 425, compressed tag sets).
        ("f-1.0-py2.py3-none-any.whl", True),
        (f"f-1.0-{TEN}-none-{TEN}.whl", True),
        (f"f-1.0-{MANY}-none-{TEN}.whl", False),
        (f"f-1.0-{TEN}-abi3.none-{TEN}.whl", False),
        (f"f-1.0-{MANY}-none-{TEN}-label.whl", False),  # PEP 825: a variant's label comes behind them
        (f"f-{'1.' * 40}0-{'1.' * 40}0-py3-none-any.whl", True),  # a version and a build have no tags
        (f"f-{'1.' * 100}0.tar.gz", True),
        (f"{MANY}-{MANY}-{MANY}-{MANY}.zip", True),
        (f"{'f' * 248}-1.zip"[-255:], True),
        (f"{'f' * 250}-1.0.zip", False),  # no file system takes a name of 257 characters
    ],
)
def test_a_file_has_a_name_and_systems_that_it_can_have(name: str, *, stays: bool) -> None:
    assert [file["url"] for file in files(f'<a href="{name}">{name}</a>')] == ([URL + name] if stays else [])
