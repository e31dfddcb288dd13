"""The result of ``abiscan stable``. Its JSON Schema is ``schema/stable-v1.json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from abiscan.extension.stability import Stability, Tie
from abiscan.inputs.version import TorchVersion
from abiscan.results.document import rendered
from abiscan.results.unchecked import Unchecked, document_of, exit_code_of
from abiscan.words import plural


class StableRow(Struct, frozen=True, kw_only=True):
    """One extension. ``compiled_with`` is the torch whose headers it was compiled with, if it records that."""

    target: str
    path: str
    stability: Stability
    compiled_with: str | None


class StableReport(Struct, frozen=True, kw_only=True):
    """All extensions of a run, and the targets without any."""

    rows: tuple[StableRow, ...]
    unchecked: tuple[Unchecked, ...] = ()

    @property
    def minimum(self) -> TorchVersion | None:
        """The first release that all stable extensions work on; None if an extension is tied, or none needs any."""
        if any(row.stability.state is not Tie.STABLE for row in self.rows):
            return None
        return max((row.stability.minimum for row in self.rows if row.stability.minimum), default=None)

    def exit_code(self, against: TorchVersion | None = None) -> int:
        """1 if an extension is tied, or needs a newer torch than ``against``; 0 without ``against``."""
        failed = against is not None and any(needs_more_than(row.stability, against) for row in self.rows)
        return exit_code_of(failed=failed, unknown=False, unchecked=self.unchecked)

    def to_json(self) -> str:
        """The JSON document, version 1."""
        return rendered({"results": list(map(_row, self.rows)), "unchecked": document_of(self.unchecked)})


def needs_more_than(stability: Stability, torch: TorchVersion) -> bool:
    """Whether an extension is not stable, or not with this torch."""
    if stability.state is not Tie.STABLE or stability.removed:
        return True
    return stability.minimum is not None and stability.minimum > torch


class StableSummary(Struct, frozen=True, kw_only=True):
    """Whether a target is stable as a whole: since which torch, or what a port would need. As text, it is one line.

    ``minimum`` is None if it is tied, or uses nothing of torch, ``after_port`` if it is not tied.
    """

    files: int
    tied_files: int
    minimum: TorchVersion | None
    after_port: TorchVersion | None

    @classmethod
    def of(cls, found: Sequence[Stability]) -> StableSummary:
        """The summary of the extensions of a target."""
        tied = [each for each in found if each.state is not Tie.STABLE]
        return cls(
            files=len(found),
            tied_files=len(tied),
            minimum=None if tied else max((each.minimum for each in found if each.minimum), default=None),
            after_port=max((each.after_port for each in tied if each.after_port), default=None),
        )

    def __str__(self) -> str:
        if not self.tied_files:
            return f"torch {short(self.minimum)} or newer" if self.minimum else "uses nothing of torch"
        which = (
            "tied to its releases"
            if self.tied_files == self.files
            else f"{self.tied_files} of {plural(self.files, 'file')} {'is' if self.tied_files == 1 else 'are'} tied"
        )
        return f"{which}; a port would run on torch {short(self.after_port)} or newer"

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "state": "tied" if self.tied_files else "stable",
            "files": self.files,
            "tied_files": self.tied_files,
            "minimum_torch": short(self.minimum),
            "after_port": short(self.after_port),
        }


def short(version: TorchVersion | None) -> str | None:
    """A release as authors name it: ``2.11`` for 2.11.0."""
    if version is None:
        return None
    return f"{version.major}.{version.minor}" if not version.micro else str(version)


def _row(row: StableRow) -> dict[str, Any]:
    found = row.stability
    return {
        "target": row.target,
        "path": row.path,
        "state": found.state.value,
        "minimum_torch": short(found.minimum) if found.state is Tie.STABLE and not found.removed else None,
        "deciding": list(found.deciding),
        "removed": list(found.removed),
        "deprecated": list(found.deprecated),
        "compiled_with": row.compiled_with,
        "looked_up": list(found.looked_up),
        "rebuilt_torch": short(found.rebuilt) if found.state is Tie.STABLE and not found.removed else None,
        "target_version": {
            "at_least": short(found.target_at_least),
            "at_most": row.compiled_with,
            "below": short(found.target_below),
        },
        "promised_until": (
            dict(zip(("oldest", "newest"), map(str, found.promised_until), strict=True))
            if found.promised_until
            else None
        ),
        "unused_libraries": list(found.unused),
        "cuda": {"major": found.cuda, "releases": list(map(str, found.cuda_releases))} if found.cuda else None,
        "symbols": [
            {
                "symbol": each.symbol,
                "group": each.group,
                "means": each.means.value if each.means else None,
                "counterpart": each.what,
                "since": short(each.since),
                "headers": short(each.headers),
            }
            for each in found.counterparts
        ],
        "after_port": short(found.after_port),
        "port_headers": short(found.port_headers),
    }
