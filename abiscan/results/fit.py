"""The result of ``abiscan fit``: versions that work together. Its JSON Schema is ``schema/fit-v1.json``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from abiscan.results.document import Document, give_shape


class Rejected(Struct, frozen=True, kw_only=True):
    """A newer version, and why it does not fit."""

    version: str
    reason: str


class Fitting(Struct, frozen=True, kw_only=True):
    """The version of a package that was found.

    ``note`` says what it goes on without, or, if it is not ``proven`` to work, what could not be checked; ``rejected``
    are the newer ones, newest first. ``variant`` is the variant of its wheel, which only installers choose that know
    variants; None for a wheel that is of none.
    """

    name: str
    version: str
    note: str | None = None
    proven: bool = True
    rejected: Sequence[Rejected] = ()
    variant: str | None = None


@give_shape("torch packages obstacle torch_instead command bytes_read")
class FitReport(Document, frozen=True, kw_only=True):
    """What was found.

    ``torch`` is its full version, as far as known; None if no torch was found that all packages have a version for.
    ``installed`` says whether it is already there. ``packages`` is empty if nothing fits; ``obstacle`` then says why.
    ``torch_instead`` is then the newest other torch, of those tried, that the packages have versions for.
    ``options`` are those that pip needs to find the same versions.
    """

    torch: str | None
    installed: bool
    packages: Sequence[Fitting] = ()
    obstacle: str | None = None
    torch_instead: str | None = None
    options: Sequence[str] = ()
    bytes_read: int = 0

    @property
    def pins(self) -> tuple[str, ...]:
        """The packages as requirements; with torch, unless it is already there."""
        if not self.packages:
            return ()
        # The local tag names a build, and no index of packages by that name has it: pip would find nothing.
        torch = () if self.installed or self.torch is None else (f"torch=={self.torch.partition('+')[0]}",)
        return (*torch, *(f"{package.name}=={package.version}" for package in self.packages))

    @property
    def command(self) -> str | None:
        """The command to type."""
        return shlex.join(["pip", "install", *self.options, *self.pins]) if self.packages else None

    @property
    def exit_code(self) -> int:
        """0: found; 1: nothing fits."""
        return 0 if self.packages else 1

    def to_requirements(self) -> str:
        """Return the versions as a file of requirements."""
        torch = f"# with torch {self.torch}\n" if self.torch else ""
        return torch + "".join(f"{pin}\n" for pin in self.pins)
