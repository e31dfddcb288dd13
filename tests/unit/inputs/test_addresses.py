"""Addresses as reports show them."""

import shlex

import pytest

from abiscan.inputs.addresses import format_command, without_credentials


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
        ("no address", "no address"),
    ],
)
def test_reports_have_no_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


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
