"""Addresses as reports show them."""

import functools
import shlex
from collections.abc import Callable

import pytest

from abiscan.inputs.addresses import format_command, without_credentials
from tests.clock import grows_linearly


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:secret@index.example/simple/", "https://index.example/simple/"),
        ("https://index.example/a@b/", "https://index.example/a@b/"),
        ("https://user@index.example", "https://index.example"),
        ("https://user:a@b@index.example:8080/x", "https://index.example:8080/x"),
        ("git+ssh://user:p@index.example/a.git@1.0", "git+ssh://index.example/a.git@1.0"),
        ("a @ https://user:secret@index.example/a.whl#sha256=0", "a @ https://index.example/a.whl#sha256=0"),
        ("file:///home/a@b/c.whl", "file:///home/a@b/c.whl"),
        ("https://user:a?b#c d@index.example/x", "https://index.example/x"),
        ("https://user:a/b@index.example/x", "https://index.example/x"),
        ("https://index.example:8080/a@b", "https://index.example:8080/a@b"),
        ("http://[::1]:8080/a@b", "http://[::1]:8080/a@b"),
        ("a @ git+ssh://git@index.example/a.git@1.0", "a @ git+ssh://git@index.example/a.git@1.0"),
        ("git+ssh://git@a:secret@index.example/a", "git+ssh://index.example/a"),
        ("https://a:b/ https://c:d/https://user:e/f@index.example", "https://a:b/ https://index.example"),
        ("no address", "no address"),
    ],
)
def test_reports_have_no_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


def test_a_long_text_without_them_takes_linear_time() -> None:
    def hide(size: int) -> Callable[[], object]:
        return functools.partial(without_credentials, "https://a:b/" * size)

    assert grows_linearly(hide, 4_000)


@pytest.mark.parametrize(
    "url", ["https://user:secret@index.example/simple", "https://secret@index.example/simple", "https://index.example"]
)
def test_a_command_has_none_either(url: str) -> None:
    """As pip's own messages write it: ``****`` where somebody has to put in something."""
    from pip._internal.utils.misc import redact_netloc

    host = url.split("/")[2]
    shown = url.replace(host, redact_netloc(host).replace("user:", ""))
    assert shlex.split(format_command(["pip", "install", "--index-url", url, "a b"])) == [
        *("pip", "install", "--index-url", shown, "a b"),
    ]


@pytest.mark.parametrize("start", [["--proxy"], []])
@pytest.mark.parametrize(
    ("proxy", "shown"),
    [
        ("user:se/cr@et@proxy:8080", "****@proxy:8080"),
        ("http://user:secret@proxy:8080", "http://****@proxy:8080"),
        ("proxy:8080", "proxy:8080"),
    ],
)
def test_a_proxy_is_an_address_without_a_scheme(start: list[str], proxy: str, shown: str) -> None:
    option = "" if start else "--proxy="
    words = shlex.split(format_command(["pip", *start, f"{option}{proxy}", "user:p@a"]))
    assert words == ["pip", *start, f"{option}{shown}", "user:p@a"]
