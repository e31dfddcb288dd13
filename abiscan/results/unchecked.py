"""The targets of a command that have no results, while others may have some."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from abiscan.results.document import give_shape


@give_shape("target problem fix readable stopped?")
class Unchecked(Struct, frozen=True, kw_only=True):
    """A target without a result, on some torch or at all, and why.

    ``readable`` means that nothing is wrong with it: it contains nothing that uses torch, or that torch does not exist
    for its machine. ``stopped`` means that the process that read it was stopped: nothing is known about the target.
    """

    target: str
    problem: str
    fix: str
    readable: bool
    stopped: bool = False

    def __str__(self) -> str:
        if self.readable:
            return f"{self.target}: nothing to check: {self.problem}"
        return f"{self.target}: {self.problem}" + (f" ({self.fix})" if self.fix else "")


def exit_code_of(*, failed: bool, unknown: bool, unchecked: Iterable[Unchecked]) -> int:
    """Return the exit code of a run: what is certainly wrong, before what cannot be read, before what is unknown."""
    if failed:
        return 1
    # A target that killed the process may be a fault of abiscan, so it is unknown (3), and not the user's error (2).
    unread = [target for target in unchecked if not target.readable]
    if any(not target.stopped for target in unread):
        return 2
    return 3 if unknown or unread else 0
