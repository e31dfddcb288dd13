"""The result of ``abiscan matrix NAME --versions``. Its JSON Schema is ``schema/matrix-versions-v1.json``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan.results.document import Document, JsonObject
from abiscan.results.matrix import MARKS
from abiscan.results.package import PackageVerdict

NO_BUILD: Final = "·"


class VersionRow(Struct, frozen=True, kw_only=True):
    """One version of a package on all releases.

    ``verdicts`` has the best of the builds of each release, None if there is none for the machine; it is empty if the
    version was not checked, and ``reason`` says why.
    """

    version: str
    verdicts: tuple[PackageVerdict | None, ...] = ()
    reason: str | None = None


class Span(Struct, frozen=True, kw_only=True):
    """Neighbours with the same answers, as one: the first and the last of them."""

    first: str
    last: str

    def __str__(self) -> str:
        return self.first if self.first == self.last else f"{self.first} - {self.last}"


class VersionTableJson(JsonObject, frozen=True, kw_only=True):
    """The document of ``abiscan matrix --versions``.

    :ivar system: the Python and the platform that wheels were looked for
    :ivar releases: the releases of torch, oldest first
    :ivar versions: by version of the package, newest first: the verdict on each release, that of the best of its
        builds; None if torch has none for the machine
    :ivar not_judged: by version: why it was not checked
    :ivar bytes_read: what was received from servers
    """

    package: str
    system: str
    releases: Sequence[str]
    versions: Mapping[str, Mapping[str, PackageVerdict | None]]
    not_judged: Mapping[str, str]
    bytes_read: int


class VersionTable(Document, frozen=True, kw_only=True):
    """The versions of a package, newest first, by ``releases`` of torch, oldest first."""

    package: str
    system: str
    releases: tuple[str, ...]
    rows: tuple[VersionRow, ...]
    bytes_read: int = 0

    def _contents(self) -> VersionTableJson:
        return VersionTableJson.of(
            self,
            versions={row.version: dict(zip(self.releases, row.verdicts, strict=True)) for row in self._checked_rows},
            not_judged={row.version: row.reason for row in self.rows if not row.verdicts},
        )

    @property
    def exit_code(self) -> int:
        """0; 3 if a verdict is unknown."""
        return 3 if any(PackageVerdict.UNKNOWN in row.verdicts for row in self.rows) else 0

    @property
    def columns(self) -> Sequence[tuple[Span, int]]:
        """The releases, neighbours with the same answers merged, each with the place of its first release."""
        # A column is the verdicts of all versions on one release; without any version, all columns are equal.
        columns = list(zip(*(row.verdicts for row in self._checked_rows), strict=True)) or [()] * len(self.releases)
        places = itertools.groupby(range(len(self.releases)), lambda place: columns[place])
        return [
            (Span(first=self.releases[run[0]], last=self.releases[run[-1]]), run[0])
            for run in (list(group) for _, group in places)
        ]

    def merged(self) -> Iterator[tuple[Span, tuple[str, ...]]]:
        """Yield the versions that were checked, with a mark for each column; like neighbours are one."""
        places = [place for _, place in self.columns]
        for verdicts, group in itertools.groupby(self._checked_rows, lambda row: row.verdicts):
            rows = list(group)
            yield (
                Span(first=rows[0].version, last=rows[-1].version),
                tuple(_format_mark(verdicts[place]) for place in places),
            )

    def unjudged(self) -> Iterator[tuple[Span, str]]:
        """Yield the versions that were not checked, neighbours with the same reason merged, with the reason."""
        unjudged = (row for row in self.rows if not row.verdicts)
        for reason, group in itertools.groupby(unjudged, lambda row: row.reason or ""):
            rows = list(group)
            yield Span(first=rows[0].version, last=rows[-1].version), reason

    @property
    def _checked_rows(self) -> Sequence[VersionRow]:
        return [row for row in self.rows if row.verdicts]


def _format_mark(verdict: PackageVerdict | None) -> str:
    return NO_BUILD if verdict is None else MARKS[verdict]
