"""Which symbol versions of glibc and libstdc++ the libraries of a package need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from abiscan.inputs.wheel_tag import version_of

# What systems have that manylinux2014 is for: there is no torch for older ones.
_EVERYWHERE: Final = {"glibc": "2.17", "glibcxx": "3.4.19", "cxxabi": "1.3.7"}


class VersionNeeds(Struct, frozen=True, kw_only=True):
    """The newest symbol versions that an extension and the libraries of its package need of the system.

    :ivar glibc: N of the newest GLIBC_N; null if there is none
    :ivar glibcxx: N of the newest GLIBCXX_N, of libstdc++
    :ivar cxxabi: N of the newest CXXABI_N, of libstdc++
    """

    glibc: str | None
    glibcxx: str | None
    cxxabi: str | None

    @property
    def summary(self) -> str:
        """What a system must have: ``glibc 2.34, GLIBCXX_3.4.30 (GCC 12)``; empty for what every system has."""
        if not any(_is_newer(getattr(self, name), version) for name, version in _EVERYWHERE.items()):
            return ""
        parts = [f"glibc {self.glibc}"] if self.glibc else []
        if self.glibcxx or self.cxxabi:
            from abiscan.binary.libstdcxx import gcc_with  # many extensions need no libstdc++

            versions = [f"GLIBCXX_{self.glibcxx}"] if self.glibcxx else []
            versions += [f"CXXABI_{self.cxxabi}"] if self.cxxabi else []
            # Both are of one library: the one that came last tells which.
            newest = max(versions, key=lambda version: gcc_with(version) or 0)
            compiler = gcc_with(newest)
            parts.append(f"{newest} (GCC {compiler})" if compiler else newest)
        return ", ".join(parts)


def newest_needs(needs: Sequence[VersionNeeds]) -> VersionNeeds:
    """Return what several files need together."""
    return VersionNeeds(
        glibc=_newest(need.glibc for need in needs),
        glibcxx=_newest(need.glibcxx for need in needs),
        cxxabi=_newest(need.cxxabi for need in needs),
    )


def _is_newer(version: str | None, other: str) -> bool:
    return version is not None and version_of(version) > version_of(other)


def _newest(versions: Iterable[str | None]) -> str | None:
    return max(filter(None, versions), key=version_of, default=None)


NO_NEEDS: Final = VersionNeeds(glibc=None, glibcxx=None, cxxabi=None)
