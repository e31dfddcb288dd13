"""Whether a torch has the messages that releases like it print: their fixed parts are strings in its libraries.

A part that is in none of them may have been reworded: then a similar string is there that belongs to no known message.
"""

from __future__ import annotations

import difflib
import string
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec.structs

from abiscan.binary.elf import ElfFile
from abiscan.dispatch.messages import TEMPLATES, Message
from abiscan.dispatch.operators import Rewording
from abiscan.inputs.version import MinorVersion
from abiscan.regex import regex

_OF_HEADERS: Final = ("E5",)
"""Messages of inline functions (c10/core/AllocatorConfig.h): their texts are in the extension."""

_TEXT: Final = regex(rb"\0([\n\t\x20-\x7e]{12,1000})(?=\0)")
_BEGINNING: Final = 8  # characters: a text has more
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
    """How the messages of a torch differ from those of releases, by id.

    ``reworded`` are the parts for which a similar text is there. The messages of ``absent`` cannot be put together: for
    a part there is none, one text stands for two parts, or it has places for values within.
    """

    absent: frozenset[str] = frozenset()
    reworded: Mapping[str, tuple[Rewording, ...]] = {}


def compare(libraries: Collection[ElfFile], release: MinorVersion) -> Wordings:
    """How the messages of a torch differ from those of a release.

    :param libraries: those of torch that have messages
    """
    literals = {
        template.id: [literal for literal, *_ in string.Formatter().parse(template.text)]
        for template in TEMPLATES
        if template.holds_for(release) and template.id not in _OF_HEADERS
    }
    every = "\0".join(literal for of_message in literals.values() for literal in of_message)
    found = (match[1] for library in libraries for match in library.search_data(_TEXT))
    texts = {text.decode() for text in found if b" " in text.strip()}
    beginnings = {every[at : at + _BEGINNING] for at in range(len(every))}  # they rule most texts of a library out
    mentioned = (text for text in texts if text[:_BEGINNING] in beginnings)
    known = sorted((text for text in mentioned if text in every), key=lambda text: -len(text))
    lost = {
        id_: parts
        for id_, of_message in literals.items()
        if (parts := [part for literal in of_message for part in _lost(literal, known, libraries)])
    }
    others = texts.difference(known) if lost else frozenset()
    reworded: dict[str, tuple[Rewording, ...]] = {}
    absent = set()
    for id_, parts in lost.items():
        similar = [(part, _most_similar(part, others)) for part in parts]
        reworded[id_] = tuple(Rewording(was, now) for was, now in similar if now is not None)
        different = {now for _, now in similar if now is not None and "{" not in now}
        if len(different) < len(parts):
            absent.add(id_)
    return Wordings(frozenset(absent), {id_: changes for id_, changes in reworded.items() if changes})


def _lost(literal: str, known: Sequence[str], libraries: Collection[ElfFile]) -> Iterator[str]:
    """The parts of a fixed text that no library has: the source puts it together from several strings."""
    for text in known:
        literal = literal.replace(text, "\0")
    for part in _LINE.findall(literal):
        bare = part.strip(_AROUND)
        if len(bare) >= _SHORTEST and not _has(libraries, bare.encode()):
            yield part


def _has(libraries: Collection[ElfFile], text: bytes) -> bool:
    return any(next(library.find_in_data(text), None) is not None for library in libraries)


def _most_similar(part: str, texts: Collection[str]) -> str | None:
    words = _words(part)
    shared = ((len(words & other) / (len(words | other) or 1), text) for text in texts for other in [_words(text)])
    candidates = sorted((found for found in shared if found[0] >= _WORDS_SHARED), reverse=True)[:_COMPARED]
    ratios = ((difflib.SequenceMatcher(None, part, text, autojunk=False).ratio(), text) for _, text in candidates)
    best, text = max(ratios, default=(0.0, ""))
    kind = "long" if len(part) > _SHORT else "short"
    enough = _LIKE["same beginning" if text[:_SHORTEST] == part[:_SHORTEST] else kind]
    return text if best >= enough else None


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def in_words_of(message: Message, reworded: Mapping[str, Sequence[Rewording]], absent: Collection[str]) -> Message:
    """A message as a torch words it, as far as that is known."""
    if message.id in absent or message.id not in reworded:
        return message
    text = message.text
    for was, now in reworded[message.id]:
        text = text.replace(was, now)
    return msgspec.structs.replace(message, text=text, exact=False)
