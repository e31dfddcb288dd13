"""The names of operators' tags: what an ``at::Tag`` number means in an extension. Numbers change as names are added.

``data/tags.txt`` is made by ``tools/release.py`` from the headers of the releases.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from msgspec import Struct
from packaging.version import Version

from abiscan import release_data
from abiscan.inputs.version import MinorVersion, TorchVersion
from abiscan.regex import regex

HEADERS: Final = ("torch/headeronly/core/enum_tag.h", "ATen/core/enum_tag.h")
"""Where the header is below ``torch/include``, since 2.11 and before."""

_ENUMERATION: Final = regex(r"enum class Tag \{(.*?)\}", re.DOTALL)
_COMMENT: Final = regex(r"//.*")


class Tags(Struct, frozen=True, kw_only=True):
    """The tags of a release, in the order of their numbers."""

    names: tuple[str, ...]

    def name(self, number: int) -> str:
        """Return the name of a tag; ``Unknown(<number>)`` for a number that this torch does not have."""
        return self.names[number] if 0 <= number < len(self.names) else f"Unknown({number})"


def tags_of(version: Version) -> Tags:
    """Return the tags of a release; none before 1.13."""
    candidates = [tags for since, tags in _read_table() if since <= (version.major, version.minor)]
    return candidates[-1] if candidates else Tags(names=())


def tags_in(header: str) -> Tags | None:
    """Read the tags from the header of a torch that enumerates them; return None if this is another header."""
    enumeration = _ENUMERATION.search(header)
    if enumeration is None:
        return None
    words = (word.strip() for word in _COMMENT.sub("", enumeration[1]).split(","))
    return Tags(names=tuple(filter(None, words)))


@functools.cache
def _read_table() -> tuple[tuple[MinorVersion, Tags], ...]:
    """Read the tags of each release that changed them, oldest first."""
    text = release_data.folder("dispatch").joinpath("tags.txt").read_text("utf-8")
    lines = (line.split() for line in text.splitlines())
    return tuple((TorchVersion(since).minor_version, Tags(names=tuple(names))) for since, *names in lines)
