"""Which names of torch, or of another package, a source mentions: a look at its text, which may find more than there
are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from abiscan.python.language.scan import FROM, SPACE, Has
from abiscan.regex import regex

_IMPORT: Final = rb"import[ \t]+([^\n#;]*\b%b\b[^\n#;]*)"
_WORD_FROM: Final = rb"from" + SPACE + rb"%b"
_WORD_IMPORT: Final = regex(rb"import")
_COMMENT: Final = regex(rb"#[^\n]*|[()\\]")
_PAGE: Final = b".html"
_TAKEN: Final = rb"%(name)b(?<![\w.`#]%(name)b)(?<!`~%(name)b)((?:\.[A-Za-z_]\w*)+)"
"""A name with attributes. What stands before one that is part of a text or a comment, a reference or the part of an
address, is looked at last: the name itself is searched for ten times as fast.
"""


def torch_uses(source: bytes, package: bytes = b"torch", has: Has | None = None) -> frozenset[str]:
    """Return the dotted names below ``torch``, or another package, that a source has: ``torch.nn.Module``.

    :param has: tells whether a text is in the source
    """
    has = source.__contains__ if has is None else has
    if not has(package):
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
        names.update(full + attributes for attributes in (_attributes_of(source, alias) if has(alias + b".") else ()))
    return frozenset(name.decode("utf-8", "replace") for name in names)


def _attributes_of(source: bytes, name: bytes) -> set[bytes]:
    """Return what follows a name, with its dots, wherever attributes of it are taken."""
    return {taken for taken in _taken_of(name).findall(source) if not taken.endswith(_PAGE)}


@functools.lru_cache(maxsize=1000)
def _taken_of(name: bytes) -> re.Pattern[bytes]:
    return re.compile(_TAKEN % {b"name": re.escape(name)})


@functools.cache
def _patterns(package: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    return (
        re.compile(FROM % (re.escape(package) + rb"(?:\.\w+)*")),
        re.compile(_IMPORT % package),
        re.compile(_WORD_FROM % package),
    )


def _imports_of(package: bytes, source: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the full name of what is imported of a package, and the name that it gets."""
    from_package, imports, word = _patterns(package)
    for match in _at_line_starts(from_package, word, source):
        for listed in _COMMENT.sub(b" ", match[2]).split(b","):
            words = listed.split()
            if words and words[0] != b"*":
                yield match[1] + b"." + words[0], words[2] if len(words) == 3 else words[0]
    for match in _at_line_starts(imports, _WORD_IMPORT, source):
        for listed in match[1].split(b","):
            words = listed.split()
            if len(words) == 3 and words[0].partition(b".")[0] == package:
                yield words[0], words[2]


def _at_line_starts(pattern: re.Pattern[bytes], words: re.Pattern[bytes], source: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the matches of a pattern that stand first in their lines. To search for its first words is quicker."""
    found = words.search(source)
    while found is not None:
        start, end = found.span()
        before = start
        while before and source[before - 1] in b" \t":
            before -= 1
        if before == 0 or source[before - 1] == ord("\n"):
            match = pattern.match(source, start)
            if match is not None:
                yield match
                end = match.end()
        found = words.search(source, end)


class CallText(Struct, frozen=True):
    """A call, going by its text: how many arguments it may have by position, and its keywords."""

    by_position: int
    keywords: frozenset[str]


_IN_CALL: Final = regex(rb"[()\[\]{},]|([A-Za-z_]\w*)\s*=(?!=)")
_LONGEST_CALL: Final = 4000


def list_calls(source: bytes, name: bytes) -> Iterator[CallText]:
    """Yield the calls of what is called by a name of torch, by another one that it is imported under, or by that of a
    class which derives from it; there, those of ``super().__init__``, too.
    """
    called = {name, *(match[1] for match in re.finditer(_IMPORTED_AS % {b"name": re.escape(name)}, source))}
    bases = [base for base in called if base + b"):" in source]
    derived = [match[1] for base in bases for match in re.finditer(_DERIVED % base, source)]
    yield from (
        read_call(source, initialised.end()) for initialised in (_INITIALISED.finditer(source) if derived else ())
    )
    called.update(derived)
    for word in called:
        start = source.find(word)
        while start >= 0:
            end = start + len(word)
            if source[end : end + 1] in (b"(", b" ") and (match := _CALLED.match(source, end)):
                first = max(start - _LONGEST_NAME, 0)
                owner = None if _EXAMPLE.search(source, first, start) else _OWNER.search(source, first, start)
                if owner is not None and (not owner[1] or _is_of_torch(source, owner[1])):
                    yield read_call(source, match.end())
            start = source.find(word, end)


_IMPORTED_AS: Final = rb"%(name)b(?<!\w%(name)b)[ \t]+as[ \t]+(\w+)"
"""A name, and what it is imported under: ten times as fast as with ``\\b`` before the name."""
_CALLED: Final = regex(rb"\s*\(")
_DERIVED: Final = rb"\bclass[ \t]+(\w+)\((?:\w+\.)*%b\):"
_INITIALISED: Final = regex(rb"\)\.__init__\(")
_OWNER: Final = regex(rb"(?<![\w.])(?:(\w+)\.(?:\w+\.)*)?\Z")
_EXAMPLE: Final = regex(rb"\n[ \t]*>>>[^\n]*\Z")
"""The beginning of a line of an example in a docstring, which is no code."""
_LONGEST_NAME: Final = 100


def _is_of_torch(source: bytes, name: bytes) -> bool:
    """Whether a line that mentions torch mentions a name, too, as one that imports it does."""
    return name == b"torch" or re.search(rb"torch[^\n]*\b%b\b" % re.escape(name), source) is not None


def read_call(source: bytes, start: int) -> CallText:
    """Return the call whose arguments begin at an offset."""
    depth, commas, keywords, end = 0, 0, set[str](), start
    for match in _IN_CALL.finditer(source, start, start + _LONGEST_CALL):
        sign = match[0]
        if sign in b"([{":
            depth += 1
        elif sign in b")]}":
            depth -= 1
            end = match.start()
            if depth < 0:
                break
        elif depth == 0 and sign == b",":
            # A comma may be the last thing in a call.
            commas += source[match.end() : match.end() + 200].lstrip()[:1] != b")"
        elif depth == 0 and match[1]:
            keywords.add(match[1].decode())
    is_empty = not source[start:end].strip()
    return CallText(0 if is_empty else commas + 1 - len(keywords), frozenset(keywords))
