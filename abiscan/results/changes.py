"""What an installation would change, package by package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from packaging.version import InvalidVersion, Version

from abiscan.words import listed, plural

_LARGE: Final = 3
"""From how many minor releases down on nobody expects it."""


class PackageChange(Struct, frozen=True, kw_only=True):
    """One package that an installation would add, replace or remove.

    :ivar before: the version that is there
    :ivar after: the version that would be there
    :ivar size: of the file that would be fetched, None if unknown
    :ivar requested: whether the command names it
    :ivar alone: whether what it requires in turn is not among the changes
    """

    name: str
    before: str | None
    after: str | None
    size: int | None = None
    requested: bool = False
    required_by: tuple[str, ...] = ()
    alone: bool = False

    @property
    def why(self) -> str:
        """Why it is needed; empty if that is not known."""
        if self.requested:
            return "asked for"
        return f"required by {listed(self.required_by, 2)}" if self.required_by else ""

    @property
    def is_large_downgrade(self) -> bool:
        """Whether it goes back by a major release, or by several minor ones."""
        try:
            before, after = Version(self.before or ""), Version(self.after or "")
        except InvalidVersion:  # one of them is not there
            return False
        return after < before and (after.major < before.major or before.minor - after.minor >= _LARGE)


def change_lines(changes: Sequence[PackageChange]) -> list[str]:
    """Return a line with numbers, then one for what would go (``-``) and one for what would come (``+``)."""
    if not changes:
        return []
    names = [f"{change.name} {change.after}" for change in changes if change.after is not None]
    width = max(map(len, names), default=0)
    sizes_stated = [change.size for change in changes if change.size is not None]
    # A sum over some of the files is a lower bound, and is called one.
    least = "at least " if len(sizes_stated) < len(names) or any(change.alone for change in changes) else ""
    sizes = f", {least}{_format_size(sum(sizes_stated))}" if sizes_stated else ""
    lines = [f"would change {plural(len(changes), 'package')}{sizes}:"]
    for change in changes:
        if change.before is not None:
            lines.append(f"  - {change.name} {change.before}")
        if change.after is not None:
            size = f"{_format_size(change.size):>10}" if change.size is not None else ""
            more = " (and what it requires)" if change.alone else ""
            more += f" (a large downgrade, from {change.before})" if change.is_large_downgrade else ""
            parts = [f"  + {f'{change.name} {change.after}':{width}}", f"{size:10}", change.why + more]
            lines.append("  ".join(parts).rstrip())
    return lines


def _format_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 50_000 else f"{size / 1e3:.1f} kB"
