"""Which names of torch a source mentions: a look at its text, which may find more than there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from abiscan.regex import regex

# A pattern that begins with known characters is searched for several times faster than one that does not.
_FROM: Final = regex(rb"\n[ \t]*from[ \t]+(torch(?:\.\w+)*)[ \t]+import[ \t]*(\([^)]*\)|[^\n\\]*(?:\\\n[^\n\\]*)*)")
_IMPORT: Final = regex(rb"\n[ \t]*import[ \t]+([^\n#;]*\btorch\b[^\n#;]*)")
_CHAIN: Final = rb"%b((?:\.[A-Za-z_]\w*)+)"
_COMMENT: Final = regex(rb"#[^\n]*|[()\\]")


def torch_uses(source: bytes) -> frozenset[str]:
    """Return the dotted names below ``torch`` that a source has: ``torch.nn.Module``."""
    if b"torch" not in source:
        return frozenset()
    data = b"\n" + source
    aliases = {b"torch": b"torch"}
    found: set[bytes] = set()
    for full, alias in _imports(data):
        aliases[alias] = full
        if full != b"torch":
            found.add(full)
    for alias, full in aliases.items():
        for match in re.finditer(_CHAIN % re.escape(alias), data):
            before = data[match.start() - 1]
            if not (chr(before).isalnum() or before in b"_."):
                found.add(full + match[1])
    return frozenset(name.decode("utf-8", "replace") for name in found)


def _imports(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The full name of what is imported of torch, and the name that it gets."""
    for match in _FROM.finditer(data):
        for listed in _COMMENT.sub(b" ", match[2]).split(b","):
            words = listed.split()
            if words and words[0] != b"*":
                yield match[1] + b"." + words[0], words[2] if len(words) == 3 else words[0]
    for match in _IMPORT.finditer(data):
        for listed in match[1].split(b","):
            words = listed.split()
            if len(words) == 3 and words[0].partition(b".")[0] == b"torch":
                yield words[0], words[2]
