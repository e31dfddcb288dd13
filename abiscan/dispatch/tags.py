"""Tags of operators: the meaning of an ``at::Tag`` number in an extension. Numbers change as names are added.

``data/tags.txt`` is made by ``tools/release.py`` from the headers of the releases.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources

from packaging.version import Version

from abiscan.inputs.version import MinorVersion, TorchVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """The tags of a release, in the order of their numbers."""

    names: tuple[str, ...]

    def name(self, number: int) -> str:
        """The name of a tag; ``Unknown(<number>)`` for a number that this torch does not have."""
        return self.names[number] if 0 <= number < len(self.names) else f"Unknown({number})"


def tags_of(version: Version) -> Tags:
    """The tags of a release; none before 1.13."""
    candidates = [tags for since, tags in _table() if since <= (version.major, version.minor)]
    return candidates[-1] if candidates else Tags(names=())


@functools.cache
def _table() -> tuple[tuple[MinorVersion, Tags], ...]:
    text = resources.files("abiscan.dispatch").joinpath("data/tags.txt").read_text("utf-8")
    lines = (line.split() for line in text.splitlines())
    return tuple((TorchVersion(since).minor_version, Tags(names=tuple(names))) for since, *names in lines)
