"""Whether a torch has the messages that releases like it print: their fixed parts are strings in its libraries."""

from __future__ import annotations

import re
import string
from collections.abc import Collection
from typing import Final

from abiscan.binary.elf import ElfFile
from abiscan.dispatch.messages import TEMPLATES
from abiscan.inputs.version import MinorVersion

_OF_HEADERS: Final = ("E5",)
"""Messages of inline functions (c10/core/AllocatorConfig.h): their texts are in the extension."""

_TRIED: Final = 3
_LONGEST: Final = 32  # characters: torch may put a longer part together from several strings
_SHORTEST: Final = 16  # characters: shorter ones may be parts of anything
# Where the source may begin a new string: at a value, at the end of a line or a sentence, at a name in quotes.
_ENDS: Final = re.compile(r"[.\n()\"':]")


def unworded(libraries: Collection[ElfFile], release: MinorVersion) -> frozenset[str]:
    """The ids of the messages of a release of which no part is a string in any library.

    :param libraries: a torch's own
    """
    return frozenset(
        template.id
        for template in TEMPLATES
        if template.holds_for(release) and template.id not in _OF_HEADERS
        if (fragments := _fragments(template.text)) and not _is_there(fragments, libraries)
    )


def _is_there(fragments: Collection[str], libraries: Collection[ElfFile]) -> bool:
    texts = [fragment.encode() for fragment in fragments]
    return any(next(library.find_in_data(text), None) is not None for text in texts for library in libraries)


def _fragments(template: str) -> list[str]:
    """The longest fixed parts of a message."""
    literals = (literal for literal, *_ in string.Formatter().parse(template))
    fragments = {fragment.strip()[:_LONGEST] for literal in literals for fragment in _ENDS.split(literal)}
    return sorted(
        (fragment for fragment in fragments if len(fragment) >= _SHORTEST), key=lambda text: (-len(text), text)
    )[:_TRIED]
