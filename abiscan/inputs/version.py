"""The version of a torch: which release it is, which build of it, and whose rules of registration it follows."""

from __future__ import annotations

import functools
from typing import TypeAlias

from packaging.version import Version

MinorVersion: TypeAlias = tuple[int, int]
"""The version that the dispatcher's rules depend on: ``(2, 13)`` for 2.13.0, 2.13.1 and all of their builds."""


class TorchVersion(Version):
    """A version of torch in the sense of PEP 440: ``2.13.0`` for a release, ``2.13.0+cu130`` for one of its builds.

    ``local`` distinguishes builds (``cu130``), and is None for a release. Versions are ordered, and equal to a
    ``Version`` of the same text.
    """

    @classmethod
    def parse(cls, text: str) -> TorchVersion | None:
        """Return the version in a text, None if the text is not a version."""
        return _parse_cached(text)

    @property
    def number(self) -> str:
        """The release number, which all builds of the release share: ``2.13.0``."""
        return self.public

    @property
    def of_release(self) -> TorchVersion:
        """The version of the release that this build belongs to."""
        return self if self.local is None else TorchVersion(self.public)

    @property
    def cuda(self) -> str | None:
        """The CUDA version that a build is for, as ``torch.version.cuda`` has it: ``13.0`` for ``2.13.0+cu130``."""
        local = self.local or ""
        return f"{local[2:-1]}.{local[-1]}" if local.startswith("cu") and local[2:].isdigit() else None

    @property
    def minor_version(self) -> MinorVersion:
        """``(2, 13)``."""
        return self.major, self.minor


@functools.lru_cache(maxsize=1024)
def _parse_cached(text: str) -> TorchVersion | None:
    try:
        # Kept by text: a run compares the same few versions thousands of times, and parsing is the dear part.
        return TorchVersion(text)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return None


def number_of(build: str) -> str:
    """Return the release number of a build: ``2.13.0`` for ``2.13.0+cu130``; works for any text."""
    return build.partition("+")[0]
