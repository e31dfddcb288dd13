"""Addresses as reports show them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from abiscan.regex import regex

# A password that is not quoted may have a "?", a "#" or a space, or a "/", though they would end the host (RFC 3986,
# 3.2); digits before a "/" are a port. What is hidden without need, as in "https://host?a@b", does less harm. A user of
# ssh without a password is no secret, and needed: git@ (PEP 610).
_USER: Final = regex(r"(?<=:)(?!(?<=ssh:)//[^/:@]+@(?![^/]*@))//(?:([^/]*@)|[^]\[/:@\s]+:(?![0-9]+/))")
_END: Final = regex(r"[@\s]|\Z")
"""Where a password ends that has a "/", if an "@" is there: looked for apart, since many addresses may have one end."""
_PROXY: Final = "--proxy="


def without_credentials(text: str) -> str:
    """Return an address, or a text with one in it, without user and password, which have no place in a report."""
    return _replace_users(text, "//")


def format_command(words: Sequence[str]) -> str:
    """Return a command as a report shows it: ready to type but for users and passwords, as pip writes them."""
    return shlex.join(_hide_credentials(word, before) for before, word in zip(("", *words), words, strict=False))


def _hide_credentials(word: str, before: str) -> str:
    # pip's documentation: the proxy is "scheme://[user:passwd@]proxy.server:port"; it takes one without a scheme, too.
    option = _PROXY if word.startswith(_PROXY) else ""
    value = word.removeprefix(option)
    if (option or before == _PROXY.rstrip("=")) and "://" not in value and "@" in value:
        return f"{option}****@{value.rpartition('@')[2]}"
    return _replace_users(word, "//****@")


def _replace_users(text: str, replacement: str) -> str:
    kept = list[str]()
    done, position, end = 0, 0, -1
    while user := _USER.search(text, position):
        if user[1] is not None:
            position = user.end()
        else:
            if end < user.end() and (found := _END.search(text, user.end())):
                end = found.start()
            if not text.startswith("@", end):
                position = user.start() + 1
                continue
            position = end + 1
        kept += text[done : user.start()], replacement
        done = position
    return "".join((*kept, text[done:]))
