"""The targets of a command that have no results, while others may have some."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from abiscan.errors import InputError, NoExtensionError, StoppedError
from abiscan.results.document import give_shape


@give_shape("target problem fix readable stopped?")
class Unchecked(Struct, frozen=True, kw_only=True):
    """A target without a result, on some torch or at all, and why.

    ``readable`` means that nothing is wrong with it: it contains nothing that uses torch, or that torch does not exist
    for its machine. ``stopped`` means that reading it was stopped, by a limit or a bug: nothing is known about it.
    """

    target: str
    problem: str
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
        if self.readable:
            return f"{self.target}: nothing to check: {self.problem}"
        return f"{self.target}: {self.problem}" + (f" ({self.fix})" if self.fix else "")


def exit_code_of(*, failed: bool, unknown: bool, unchecked: Iterable[Unchecked]) -> int:
    """Return the exit code of a run: what is certainly wrong, before what cannot be read, before what is unknown."""
    if failed:
        return 1
    # A target that killed the process, or met a bug, may be sound: it is unknown (3), and not the user's error (2).
    unread = [target for target in unchecked if not target.readable]
    if any(not target.stopped for target in unread):
        return 2
    return 3 if unknown or unread else 0
