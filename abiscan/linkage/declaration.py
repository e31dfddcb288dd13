"""What a wheel declares about torch, compared with the releases on which it loads."""

from __future__ import annotations

from msgspec import Struct


class ReleaseOutcome(Struct, frozen=True, kw_only=True):
    """What happens with a wheel on one release of torch.

    :ivar release: the release
    :ivar admitted: whether the metadata of the wheel admit it
    :ivar error: the first problem with the extension, None if it loads
    :ivar wheel_works: whether all extensions of the wheel load and work there
    """

    release: str
    admitted: bool
    error: str | None
    wheel_works: bool


class Declaration(Struct, frozen=True, kw_only=True):
    """A torch requirement and its outcome for each release.

    :ivar requirement: None if the metadata do not require torch
    :ivar outcomes: oldest release first
    :ivar suggestion: the requirement that admits exactly the releases on which the whole wheel works; None if it works
        on none
    """

    requirement: str | None
    outcomes: tuple[ReleaseOutcome, ...]
    suggestion: str | None
