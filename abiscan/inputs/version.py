"""The version of a torch: which release it is, which build of it, and whose rules of registration it follows."""

from __future__ import annotations

import functools
from typing import TypeAlias

from packaging.version import InvalidVersion, Version

MinorVersion: TypeAlias = tuple[int, int]
"""What the rules of the dispatcher depend on: ``(2, 13)`` for 2.13.0, 2.13.1 and every build of them."""


class TorchVersion(Version):
    """A version of torch, as PEP 440 has it: ``2.13.0`` for a release, ``2.13.0+cu130`` for one of its builds.

    ``local`` is what tells builds apart (``cu130``), None in the version of a release. Versions are ordered, and equal
    to a ``Version`` of the same text.
    """

    @classmethod
    def parse(cls, text: str) -> TorchVersion | None:
        """The version that a text is, None if it is no version."""
        return _parsed(text)

    @property
    def number(self) -> str:
        """The number of the release, which all of its builds share: ``2.13.0``."""
        return self.public

    @property
    def of_release(self) -> TorchVersion:
        """The version of the release that this is a build of."""
        return self if self.local is None else TorchVersion(self.public)

    @property
    def minor_version(self) -> MinorVersion:
        """``(2, 13)``."""
        return self.major, self.minor


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> TorchVersion | None:
    try:
        return TorchVersion(text)
    except InvalidVersion:
        return None


def number_of(build: str) -> str:
    """The number of the release that a build is of: ``2.13.0`` for ``2.13.0+cu130``, whatever form the text has."""
    return build.partition("+")[0]
