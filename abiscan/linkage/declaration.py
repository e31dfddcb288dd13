"""What a wheel declares about torch, compared with the releases on which it loads."""

from __future__ import annotations

from msgspec import Struct


class ReleaseOutcome(Struct, frozen=True, kw_only=True):
    """One release: whether the metadata admit it, and whether the extension, and the whole wheel, load and work there.

    ``error`` is the first problem with the extension, None if there is none.
    """

    release: str
    admitted: bool
    error: str | None
    wheel_works: bool


class Declaration(Struct, frozen=True, kw_only=True):
    """A torch requirement and its outcome for each release, oldest first.

    ``requirement`` is None if the metadata do not require torch; ``suggestion`` is the requirement that admits exactly
    the releases on which the whole wheel works, None if it works on none.
    """

    requirement: str | None
    outcomes: tuple[ReleaseOutcome, ...]
    suggestion: str | None
