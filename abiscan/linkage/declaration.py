"""What a wheel declares about torch, compared with the releases on which it loads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOutcome:
    """One release: whether the metadata admit it, and whether the extension, and the whole wheel, load and work there.

    ``error`` is the first thing that goes wrong with the extension, None if nothing does.
    """

    release: str
    admitted: bool
    error: str | None
    wheel_works: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A requirement on torch and what becomes of it, release by release, oldest first.

    ``requirement`` is None where the metadata require no torch at all; ``suggestion`` is the requirement that admits
    just the releases on which the whole wheel works, None if it works on none.
    """

    requirement: str | None
    outcomes: tuple[ReleaseOutcome, ...]
    suggestion: str | None
