"""The result of ``abiscan stable``. Its JSON Schema is ``schema/stable-v1.json``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from abiscan.extension.counterparts import Means
from abiscan.extension.stability import Stability, Tie
from abiscan.inputs.version import TorchVersion
from abiscan.results.document import Document, JsonObject
from abiscan.results.fields import Count, Names, Several, Text
from abiscan.results.unchecked import Unchecked, exit_code_of
from abiscan.words import plural

_Release: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+(\.[0-9]+)?$")]


class CounterpartJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A symbol of C++ that ties an extension, and what replaces it."""

    symbol: Text
    group: Text
    means: Means | None
    counterpart: str | None
    since: _Release | None
    headers: _Release | None


class TargetVersionJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``TORCH_TARGET_VERSION`` may have been.

    :ivar below: with that one, it would not look for functions at run time
    """

    at_least: _Release | None
    at_most: _Release | None
    below: _Release | None


class PromiseJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When torch's promise of two years ends: for its oldest functions, and for its newest."""

    oldest: dt.date
    newest: dt.date


class CudaTieJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The CUDA that it is linked with, and the releases that were built for it."""

    major: str
    releases: Sequence[_Release]


class StableRowJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One extension.

    :ivar path: relative to the target
    :ivar minimum_torch: None if it is tied, or takes nothing of torch
    :ivar deciding: the functions that are new in the minimum
    :ivar removed: functions that the newest release lacks
    :ivar compiled_with: the torch whose headers it records
    :ivar looked_up: functions that it looks for at run time and does without
    :ivar rebuilt_torch: the minimum if it was compiled for that TORCH_TARGET_VERSION, which may be lower
    :ivar symbols: the symbols of C++ that tie it
    :ivar after_port: the first release that a port would run on
    :ivar port_headers: the first release whose headers a port can use
    """

    target: Text
    path: Text
    state: Tie
    minimum_torch: _Release | None
    deciding: Names
    removed: Names
    deprecated: Names
    compiled_with: _Release | None
    looked_up: Names
    rebuilt_torch: _Release | None
    target_version: TargetVersionJson
    promised_until: PromiseJson | None
    unused_libraries: Names
    cuda: CudaTieJson | None
    symbols: Sequence[CounterpartJson]
    after_port: _Release | None
    port_headers: _Release | None


class StableReportJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document of ``abiscan stable``."""

    results: Sequence[StableRowJson]
    unchecked: Sequence[Unchecked]


class StableRow(Struct, frozen=True, kw_only=True):
    """One extension. ``compiled_with`` is the torch whose headers it was compiled with, if it records that."""

    target: str
    path: str
    stability: Stability
    compiled_with: str | None


class StableReport(Document, frozen=True, kw_only=True):
    """All extensions of a run, and the targets without any."""

    rows: tuple[StableRow, ...]
    unchecked: tuple[Unchecked, ...] = ()

    def _contents(self) -> StableReportJson:
        return StableReportJson(results=[_row_json(row) for row in self.rows], unchecked=self.unchecked)

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


def _row_json(row: StableRow) -> StableRowJson:
    result, is_kept = row.stability, _is_kept(row.stability)
    return StableRowJson.of(
        result,
        target=row.target,
        path=row.path,
        minimum_torch=short_name(result.minimum) if is_kept else None,
        compiled_with=row.compiled_with,
        rebuilt_torch=short_name(result.rebuilt) if is_kept else None,
        target_version=TargetVersionJson(
            at_least=short_name(result.target_at_least),
            at_most=row.compiled_with,
            below=short_name(result.target_below),
        ),
        promised_until=result.promised_until
        and PromiseJson(oldest=result.promised_until[0], newest=result.promised_until[1]),
        unused_libraries=result.unused,
        cuda=CudaTieJson(major=result.cuda, releases=list(map(str, result.cuda_releases))) if result.cuda else None,
        symbols=[
            CounterpartJson.of(
                symbol,
                counterpart=symbol.what,
                since=short_name(symbol.since),
                headers=short_name(symbol.headers),
            )
            for symbol in result.counterparts
        ],
        after_port=short_name(result.after_port),
        port_headers=short_name(result.port_headers),
    )


def needs_more_than(stability: Stability, torch: TorchVersion) -> bool:
    """Whether an extension is not stable, or not with this torch."""
    return not _is_kept(stability) or (stability.minimum is not None and stability.minimum > torch)


def _is_kept(stability: Stability) -> bool:
    """Whether torch still has everything of the stable ABI that an extension uses, which is all that it uses."""
    return stability.state is Tie.STABLE and not stability.removed


class StableSummaryJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a target is stable as a whole.

    :ivar target: what the user named
    :ivar state: tied if one of its files is
    :ivar minimum_torch: the first release with all functions that it uses; None if it is tied, or uses none
    :ivar after_port: the first release that a port to the stable ABI would run on; None if it is not tied
    """

    target: str
    state: Literal["stable", "tied"]
    files: Several
    tied_files: Count
    minimum_torch: str | None
    after_port: str | None


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


def summary_json(target: str, summary: StableSummary) -> StableSummaryJson:
    """Return what the document of a matrix has of a target."""
    return StableSummaryJson.of(
        summary,
        target=target,
        state="tied" if summary.tied_files else "stable",
        minimum_torch=short_name(summary.minimum),
        after_port=short_name(summary.after_port),
    )


def short_name(version: TorchVersion | None) -> str | None:
    """Return a release as authors name it: ``2.11`` for 2.11.0."""
    if version is None:
        return None
    return f"{version.major}.{version.minor}" if not version.micro else str(version)
