"""Which names of torch, or of another package, a source mentions: a look at its text, which may find more than there
are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

from abiscan.regex import regex

_FROM: Final = rb"from[ \t]+(%b(?:\.\w+)*)[ \t]+import[ \t]*(\([^)]*\)|[^\n\\]*(?:\\\n[^\n\\]*)*)"
_IMPORT: Final = rb"import[ \t]+([^\n#;]*\b%b\b[^\n#;]*)"
_ATTRIBUTES: Final = regex(rb"(?:\.[A-Za-z_]\w*)+")
_COMMENT: Final = regex(rb"#[^\n]*|[()\\]")
_IN_NAMES: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")


def torch_uses(source: bytes, package: bytes = b"torch") -> frozenset[str]:
    """Return the dotted names below ``torch``, or another package, that a source has: ``torch.nn.Module``."""
    if package not in source:
        return frozenset()
    # ``import torch.nn as nn`` makes ``nn.X`` a use of ``torch.nn.X``. A name may stand for something else further
    # down; then a use is found that is none.
    aliases = {package: package}
    names: set[bytes] = set()
    for full, alias in _imports_of(package, source):
        aliases[alias] = full
        if full != package:
            names.add(full)
    for alias, full in aliases.items():
        names.update(full + attributes for attributes in _attributes_of(source, alias))
    return frozenset(name.decode("utf-8", "replace") for name in names)


def _attributes_of(source: bytes, name: bytes) -> Iterator[bytes]:
    """Yield what follows a name, with its dots, wherever attributes of it are taken."""
    start = source.find(name + b".")
    while start >= 0:
        end = start + len(name)
        if start == 0 or source[start - 1] not in _IN_NAMES:
            match = _ATTRIBUTES.match(source, end)
            if match is not None:
                yield match[0]
                end = match.end()
        start = source.find(name + b".", end)


@functools.cache
def _patterns(package: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    return re.compile(_FROM % package), re.compile(_IMPORT % package)


def _imports_of(package: bytes, source: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the full name of what is imported of a package, and the name that it gets."""
    from_package, imports = _patterns(package)
    for match in _at_line_starts(from_package, b"from", source):
        for listed in _COMMENT.sub(b" ", match[2]).split(b","):
            words = listed.split()
            if words and words[0] != b"*":
                yield match[1] + b"." + words[0], words[2] if len(words) == 3 else words[0]
    for match in _at_line_starts(imports, b"import", source):
        for listed in match[1].split(b","):
            words = listed.split()
            if len(words) == 3 and words[0].partition(b".")[0] == package:
                yield words[0], words[2]


def _at_line_starts(pattern: re.Pattern[bytes], word: bytes, source: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the matches of a pattern that stand first in their lines. To search for its first word is quicker."""
    start = source.find(word)
    while start >= 0:
        end = start + len(word)
        before = start
        while before and source[before - 1] in b" \t":
            before -= 1
        if before == 0 or source[before - 1] == ord("\n"):
            match = pattern.match(source, start)
            if match is not None:
                yield match
                end = match.end()
        start = source.find(word, end)
