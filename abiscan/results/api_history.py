"""The result of ``abiscan ops TARGET --api-version``: whether releases changed anything for an extension."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from abiscan.results.document import rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An operator that changed since the release before: ``what`` has added, removed, schema, or dispatch."""

    operator: str
    what: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseApi:
    """One release: the interface version of all operators used, and what changed since the release before.

    ``gaps`` counts what could not be read of this release.
    """

    torch: str
    version: str
    changes: tuple[Change, ...]
    gaps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiHistory:
    """An extension across several releases: ``operators`` are the torch operators that it uses, sorted."""

    target: str
    operators: tuple[str, ...]
    releases: tuple[ReleaseApi, ...]

    def to_json(self) -> str:
        """The JSON document, version 1."""
        return rendered(dataclasses.asdict(self))
