"""The text of the parts of a source: those that do not have a name in it need not be gone through, nor parsed."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

from abiscan.python.language.nodes import child_nodes

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WORDS_ONLY: Final = bytes(one if one >= 128 or chr(one).isalnum() or one == ord("_") else 32 for one in range(256))
"""Makes blanks of all but words: so split, a source takes a third of the time of a search for its words."""


class SourceParts:
    """The text of the parts of a source."""

    def __init__(self, source: bytes) -> None:
        self._source = source

    def words(self, node: ast.AST) -> frozenset[bytes] | None:
        """Return the words in the lines of a statement or an expression; None if these are not known."""
        place = self._place(node)
        if place is None:
            return None
        words = frozenset(self._source[place[0] : place[1]].translate(_WORDS_ONLY).split())
        if self._is_ascii:
            return words
        return words | {_as_name(word) for word in words if not word.isascii()}

    def walk_having(self, tree: ast.AST, words: re.Pattern[bytes]) -> Iterator[ast.AST]:
        """Yield the nodes of a tree, but for functions with none of some words in their text."""
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            if not isinstance(node, _FUNCTIONS) or self.may_have(node, words):
                yield node
                waiting += child_nodes(node)

    def may_have(self, node: ast.AST, words: re.Pattern[bytes]) -> bool:
        """Whether one of some words is in the lines of a statement or an expression, or something that may be it."""
        place = self._place(node)
        if place is None or words.search(self._source, *place):
            return True
        return not (self._is_ascii or self._source[place[0] : place[1]].isascii())

    def _place(self, node: ast.AST) -> tuple[int, int] | None:
        """Return where the lines of a part begin and end, with those of its decorators."""
        starts = self._starts
        first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if first is None or last is None or not starts:
            return None
        first = min([first, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        return starts[first - 1], starts[last]

    @cached_property
    def _is_ascii(self) -> bool:
        return self._source.isascii()

    @cached_property
    def _starts(self) -> Sequence[int]:
        """Where each line of the source begins, and its end; nothing where line breaks are not what they seem to be."""
        if self._source.count(b"\r") != self._source.count(b"\r\n"):
            return ()
        starts = accumulate(map(len, self._source.splitlines(keepends=True)), initial=0)
        return (*starts, len(self._source))


def written_forms(names: Iterable[str]) -> frozenset[bytes]:
    """Return the words that some names may be in the text of a source, in ASCII."""
    # A private name stands there without its class (language reference, 6.2.1).
    private = (name[match.start() :] for name in names for match in re.finditer("(?<=.)(?=__)", name))
    return frozenset(word.encode() for word in (*names, *private))


def having(names: Iterable[str]) -> re.Pattern[bytes]:
    """Return what is in the text of each part that has one of some names."""
    words = written_forms(list(names))
    if not all(map(bytes.isascii, words)):  # Python has other forms of such names than their source
        return re.compile(b"")
    return re.compile(rb"\b(?:%b)\b" % b"|".join(map(re.escape, sorted(words))))


def _as_name(word: bytes) -> bytes:
    """Return the form of a word that it has as a name (language reference, 2.3)."""
    return unicodedata.normalize("NFKC", word.decode("utf-8", "replace")).encode()
