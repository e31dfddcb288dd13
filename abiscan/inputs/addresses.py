"""Addresses as reports show them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from abiscan.regex import regex

# A password that is not quoted may have a "?", a "#" or a space, though they would end the host (RFC 3986, 3.2).
# What is hidden without need, as in "https://host?a@b", does less harm.
_USER: Final = regex(r"(?<=:)//[^/]*@")


def without_credentials(text: str) -> str:
    """Return an address, or a text with one in it, without user and password, which have no place in a report."""
    return _USER.sub("//", text)


def format_command(words: Sequence[str]) -> str:
    """Return a command as a report shows it: ready to type but for users and passwords, as pip writes them."""
    return shlex.join(_USER.sub("//****@", word) for word in words)
