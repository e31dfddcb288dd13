"""What an installer would install."""

from __future__ import annotations

import urllib.parse
from typing import Final

from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.inputs.packages import path_of_url

_HASH: Final = "sha256="


class Planned(Struct, frozen=True, kw_only=True):
    """One package that would be installed.

    ``url`` is the address of its file, with the hash as the fragment; None if only the name is known. ``direct`` says
    that the user named the address, and no index. ``wheel`` says whether the file is a wheel; otherwise, it has to be
    built first. ``requires`` has the requirements in its metadata, None if they are not known. ``requested`` says
    whether the user asked for it, and not only another package.
    """

    name: str
    version: str
    url: str | None
    wheel: bool
    requires: tuple[str, ...] | None
    requested: bool = False
    direct: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def sha256(self) -> str | None:
        """The hash in its address, in hexadecimal; None if there is none."""
        fragment = urllib.parse.urlsplit(self.url).fragment if self.url else ""
        return fragment.removeprefix(_HASH) if fragment.startswith(_HASH) else None

    @property
    def local_path(self) -> str | None:
        """The path of its file, if that is on this machine."""
        return path_of_url(self.url) if self.url is not None and self.url.startswith("file:") else None


class WheelFacts(Struct, frozen=True, kw_only=True):
    """What is remembered of a wheel that was looked at.

    :ivar sha256: of its bytes, in hexadecimal
    :ivar size: in bytes
    :ivar requires: the requirements in its metadata; None if they cannot be read
    """

    sha256: str
    size: int
    requires: tuple[str, ...] | None


class Plan(Struct, frozen=True, kw_only=True):
    """What an installer would install, and for which interpreter.

    ``removed`` are the canonical names of the packages that it would remove, and not replace. ``output`` is what the
    installer printed, on standard output and on standard error, if that is all that was asked of it (``--dry-run``).
    """

    python: str | None
    packages: tuple[Planned, ...]
    removed: frozenset[str] = frozenset()
    output: tuple[str, str] | None = None

    def find_planned(self, name: str) -> Planned | None:
        """Return the package of that name that would be installed; None if there is none."""
        return next((planned for planned in self.packages if canonicalize_name(planned.name) == name), None)
