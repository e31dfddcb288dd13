"""Addresses as reports show them."""

from __future__ import annotations

from typing import Final

from abiscan.regex import regex

# The authority ends at the next "/", "?" or "#" (RFC 3986, 3.2); the last "@" in it ends the user and the password.
_USER: Final = regex(r"(?<=:)//[^/?#\s]*@")


def without_credentials(text: str) -> str:
    """Return an address, or a text with one in it, without user and password, which have no place in a report."""
    return _USER.sub("//", text)
