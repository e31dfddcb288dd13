"""Whether a torch has the messages that releases like it print: their fixed parts are strings in its libraries.

A part that is in none of them may have been reworded: then a similar string is there that belongs to no known message.
"""

from __future__ import annotations

import difflib
import re
import string
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec.structs

from abiscan import native
from abiscan.binary.elf import ElfFile
from abiscan.dispatch.messages import TEMPLATES, Message
from abiscan.dispatch.operators import Rewording
from abiscan.inputs.version import MinorVersion
from abiscan.regex import regex

_HEADER_MESSAGES: Final = ("E5",)
"""Messages of inline functions (c10/core/AllocatorConfig.h): their texts are in the extension."""

_LEAST, _LONGEST = 12, 1000  # characters of a text
_BEGINNING: Final = 8  # characters
_LINE: Final = regex(r"\n*[^\0\n]+\n*")
_WORD: Final = regex(r"\w{3,}")
_SHORTEST: Final = 16  # characters: shorter ones may be parts of anything
_AROUND: Final = " \n.,;:()\"'"
_SHORT: Final = 40  # characters
_LIKE: Final = {"same beginning": 0.4, "long": 0.6, "short": 0.75}
"""How similar two texts are, of 1, of which one is taken for the other reworded."""

_WORDS_SHARED: Final = 0.35
_COMPARED: Final = 8


class Wordings(NamedTuple):
    """How the messages of a torch differ from those of releases.

    :ivar absent: the ids of messages that cannot be put together: for a part there is no similar text, one text stands
        for two parts, or it has places for values within
    :ivar reworded: the parts for which a similar text is there, by id
    """

    absent: frozenset[str] = frozenset()
    reworded: Mapping[str, tuple[Rewording, ...]] = {}


def compare_messages(libraries: Collection[ElfFile], release: MinorVersion) -> Wordings:
    """Compare the messages of a torch with those of a release.

    :param libraries: those of torch that have messages
    """
    literals = {
        template.id: [literal for literal, *_ in string.Formatter().parse(template.text)]
        for template in TEMPLATES
        if template.holds_for(release) and template.id not in _HEADER_MESSAGES
    }
    # A string that is part of no known message may be a reworded one, and only then is it compared: that takes long,
    # and libraries have very many strings.
    all_literals = "\0".join(literal for of_message in literals.values() for literal in of_message)
    # Most texts of a library are ruled out by their beginning.
    encoded = all_literals.encode()
    beginnings = {encoded[at : at + _BEGINNING] for at in range(len(encoded))}
    mentioned = set(_texts_of(libraries, beginnings))
    unchanged = sorted((text for text in mentioned if text in all_literals), key=lambda text: -len(text))
    lost = {
        id_: parts
        for id_, of_message in literals.items()
        if (parts := [part for literal in of_message for part in _missing_parts(literal, unchanged, libraries)])
    }
    unexplained = set(_texts_of(libraries)).difference(unchanged) if lost else frozenset()
    reworded: dict[str, tuple[Rewording, ...]] = {}
    absent = set()
    for id_, parts in lost.items():
        similar = [(part, _most_similar(part, unexplained)) for part in parts]
        reworded[id_] = tuple(Rewording(was, now) for was, now in similar if now is not None)
        # A message can be put together only if there is a text for each part that is lost, and not the same for two.
        different = {now for _, now in similar if now is not None and "{" not in now}
        if len(different) < len(parts):
            absent.add(id_)
    return Wordings(frozenset(absent), {id_: changes for id_, changes in reworded.items() if changes})


def _texts_of(libraries: Collection[ElfFile], beginnings: Collection[bytes] = ()) -> Iterator[str]:
    """Yield the texts with spaces within, some of them twice: all, or those that begin in one of some ways."""
    find = _texts_by_c(beginnings) if native.is_available() else _texts_by_pattern(beginnings)
    for library in libraries:
        for content in library.data_windows(_LONGEST + 2):
            yield from (text.decode() for text in find(content) if b" " in text.strip())


def _texts_by_c(beginnings: Collection[bytes]) -> Callable[[bytes], Iterable[bytes]]:
    from abiscan.native._core import texts

    words = array("Q", sorted(int.from_bytes(text, "little") for text in beginnings)).tobytes()
    return lambda content: texts(content, _LEAST, _LONGEST, words)


def _texts_by_pattern(beginnings: Collection[bytes]) -> Callable[[bytes], Iterable[bytes]]:
    pattern = re.compile(rb"\0([\n\t\x20-\x7e]{%d,%d})(?=\0)" % (_LEAST, _LONGEST))

    def find(content: bytes) -> Iterable[bytes]:
        texts = (match[1] for match in pattern.finditer(content))
        return (text for text in texts if not beginnings or text[:_BEGINNING] in beginnings)

    return find


def _missing_parts(literal: str, unchanged: Sequence[str], libraries: Collection[ElfFile]) -> Iterator[str]:
    """Yield the parts of a fixed text that no library has: the source puts it together from several strings."""
    # Longest first: what is left is cut at texts that the library has, and is itself a part of the message.
    for text in unchanged:
        literal = literal.replace(text, "\0")
    for part in _LINE.findall(literal):
        bare = part.strip(_AROUND)
        if len(bare) >= _SHORTEST and not _has_text(libraries, bare.encode()):
            yield part


def _has_text(libraries: Collection[ElfFile], text: bytes) -> bool:
    """Tell whether a library has a text."""
    return any(next(library.find_in_data(text), None) is not None for library in libraries)


def _most_similar(part: str, texts: Collection[str]) -> str | None:
    """Find the text that is most likely the part, reworded; return None if none is similar enough."""
    words = _words_of(part)
    # SequenceMatcher is slow, so only the texts with the most words in common are compared (Jaccard index).
    shared = (
        (len(words & text_words) / (len(words | text_words) or 1), text)
        for text in texts
        for text_words in [_words_of(text)]
    )
    candidates = sorted((candidate for candidate in shared if candidate[0] >= _WORDS_SHARED), reverse=True)[:_COMPARED]
    ratios = ((difflib.SequenceMatcher(None, part, text, autojunk=False).ratio(), text) for _, text in candidates)
    best, text = max(ratios, default=(0.0, ""))
    kind = "long" if len(part) > _SHORT else "short"
    enough = _LIKE["same beginning" if text[:_SHORTEST] == part[:_SHORTEST] else kind]
    return text if best >= enough else None


def _words_of(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case."""
    return frozenset(_WORD.findall(text.lower()))


def reword(message: Message, reworded: Mapping[str, Sequence[Rewording]], absent: Collection[str]) -> Message:
    """Put a message into the words of a torch, as far as they are known."""
    if message.id in absent or message.id not in reworded:
        return message
    text = message.text
    for was, now in reworded[message.id]:
        text = text.replace(was, now)
    return msgspec.structs.replace(message, text=text, exact=False)
