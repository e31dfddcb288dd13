"""The targets of a command that have no results, while others may have some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from abiscan.errors import InputError, NoExtensionError, StoppedError


class Unchecked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target without a result, on some torch or at all, and why.

    :ivar target: what the user named
    :ivar readable: true: nothing in it uses torch, or that torch does not exist for its machine; false: it cannot be
        read, which is exit code 2
    :ivar stopped: true: reading it was stopped, by a limit or a bug of abiscan's, which is exit code 3
    """

    target: str
    problem: Annotated[str, Meta(min_length=1)]
    fix: str
    readable: bool
    stopped: bool = False

    @classmethod
    def of(cls, target: str, error: InputError) -> Unchecked:
        """Return the row of a target about which there is nothing but an error."""
        return cls(
            target=target,
            problem=error.problem if error.subject == target else f"{error.subject}: {error.problem}",
            fix=error.fix,
            readable=isinstance(error, NoExtensionError),
            stopped=isinstance(error, StoppedError),
        )

    def __str__(self) -> str:
        return f"{self.target}: {self.said}"

    @property
    def said(self) -> str:
        """What is said of it, in every view."""
        if self.readable:
            return f"nothing to check: {self.problem}"
        return self.problem + (f" ({self.fix})" if self.fix else "")


def exit_code_of(*, failed: bool, unknown: bool, unchecked: Iterable[Unchecked]) -> int:
    """Return the exit code of a run: what is certainly wrong, before what cannot be read, before what is unknown."""
    if failed:
        return 1
    # A target that killed the process, or met a bug, may be sound: it is unknown (3), and not the user's error (2).
    unread = [target for target in unchecked if not target.readable]
    if any(not target.stopped for target in unread):
        return 2
    return 3 if unknown or unread else 0
