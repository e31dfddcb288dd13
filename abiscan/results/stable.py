"""The result of ``abiscan stable``. Its JSON Schema is ``schema/stable-v1.json``."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from abiscan.extension.counterparts import Counterpart
from abiscan.extension.stability import Stability, Tie
from abiscan.inputs.version import TorchVersion
from abiscan.results.document import Document, give_shape
from abiscan.results.unchecked import Unchecked, exit_code_of
from abiscan.words import plural

give_shape(
    "symbol group means counterpart=what since headers",
    since=lambda symbol: short_name(symbol.since),
    headers=lambda symbol: short_name(symbol.headers),
)(Counterpart)


@give_shape(
    "target path state=stability.state minimum_torch deciding=stability.deciding removed=stability.removed"
    " deprecated=stability.deprecated compiled_with looked_up=stability.looked_up rebuilt_torch target_version"
    " promised_until unused_libraries=stability.unused cuda symbols=stability.counterparts after_port port_headers",
    minimum_torch=lambda row: short_name(row.stability.minimum) if _is_kept(row.stability) else None,
    rebuilt_torch=lambda row: short_name(row.stability.rebuilt) if _is_kept(row.stability) else None,
    target_version=lambda row: {
        "at_least": short_name(row.stability.target_at_least),
        "at_most": row.compiled_with,
        "below": short_name(row.stability.target_below),
    },
    promised_until=lambda row: (until := row.stability.promised_until) and {"oldest": until[0], "newest": until[1]},
    cuda=lambda row: row.stability.cuda and {"major": row.stability.cuda, "releases": row.stability.cuda_releases},
    after_port=lambda row: short_name(row.stability.after_port),
    port_headers=lambda row: short_name(row.stability.port_headers),
)
class StableRow(Struct, frozen=True, kw_only=True):
    """One extension. ``compiled_with`` is the torch whose headers it was compiled with, if it records that."""

    target: str
    path: str
    stability: Stability
    compiled_with: str | None


@give_shape("results unchecked", results=lambda report: report.rows)
class StableReport(Document, frozen=True, kw_only=True):
    """All extensions of a run, and the targets without any."""

    rows: tuple[StableRow, ...]
    unchecked: tuple[Unchecked, ...] = ()

    @property
    def minimum(self) -> TorchVersion | None:
        """The first release that all stable extensions work on; None if an extension is tied, or none needs any."""
        # One extension that is tied ties the whole target: it is installed as one.
        if any(row.stability.state is not Tie.STABLE for row in self.rows):
            return None
        return max((row.stability.minimum for row in self.rows if row.stability.minimum), default=None)

    def exit_code(self, against: TorchVersion | None = None) -> int:
        """Return 1 if an extension is tied, or needs a newer torch than ``against``; 0 without ``against``."""
        failed = against is not None and any(needs_more_than(row.stability, against) for row in self.rows)
        return exit_code_of(failed=failed, unknown=False, unchecked=self.unchecked)


def needs_more_than(stability: Stability, torch: TorchVersion) -> bool:
    """Whether an extension is not stable, or not with this torch."""
    return not _is_kept(stability) or (stability.minimum is not None and stability.minimum > torch)


def _is_kept(stability: Stability) -> bool:
    """Whether torch still has everything of the stable ABI that an extension uses, which is all that it uses."""
    return stability.state is Tie.STABLE and not stability.removed


@give_shape(
    "state files tied_files minimum_torch after_port",
    state=lambda summary: "tied" if summary.tied_files else "stable",
    minimum_torch=lambda summary: short_name(summary.minimum),
    after_port=lambda summary: short_name(summary.after_port),
)
class StableSummary(Struct, frozen=True, kw_only=True):
    """Whether a target is stable as a whole: since which torch, or what a port would need. As text, it is one line.

    ``minimum`` is None if it is tied, or uses nothing of torch, ``after_port`` if it is not tied.
    """

    files: int
    tied_files: int
    minimum: TorchVersion | None
    after_port: TorchVersion | None

    @classmethod
    def of(cls, result: Sequence[Stability]) -> StableSummary:
        """Return the summary of the extensions of a target."""
        tied = [item for item in result if item.state is not Tie.STABLE]
        return cls(
            files=len(result),
            tied_files=len(tied),
            minimum=None if tied else max((item.minimum for item in result if item.minimum), default=None),
            after_port=max((item.after_port for item in tied if item.after_port), default=None),
        )

    def __str__(self) -> str:
        if not self.tied_files:
            return f"torch {short_name(self.minimum)} or newer" if self.minimum else "uses nothing of torch"
        which = (
            "tied to its releases"
            if self.tied_files == self.files
            else f"{self.tied_files} of {plural(self.files, 'file')} {'is' if self.tied_files == 1 else 'are'} tied"
        )
        return f"{which}; a port would run on torch {short_name(self.after_port)} or newer"


def short_name(version: TorchVersion | None) -> str | None:
    """Return a release as authors name it: ``2.11`` for 2.11.0."""
    if version is None:
        return None
    return f"{version.major}.{version.minor}" if not version.micro else str(version)
