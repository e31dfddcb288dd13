"""Which symbol versions of glibc and libstdc++ the libraries of a package need."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class VersionNeeds(Struct, frozen=True, kw_only=True):
    """The newest symbol versions that an extension and the libraries of its package need of the system.

    :ivar glibc: N of the newest GLIBC_N; null if there is none
    :ivar glibcxx: N of the newest GLIBCXX_N, of libstdc++
    :ivar cxxabi: N of the newest CXXABI_N, of libstdc++
    """

    glibc: str | None
    glibcxx: str | None
    cxxabi: str | None


NO_NEEDS: Final = VersionNeeds(glibc=None, glibcxx=None, cxxabi=None)
