"""The result of ``abiscan ops TARGET --api-version``: whether releases changed anything for an extension."""

from __future__ import annotations

from msgspec import Struct

from abiscan.results.document import Document


class Change(Struct, frozen=True, kw_only=True):
    """An operator that changed since the release before: ``what`` has added, removed, schema, or dispatch."""

    operator: str
    what: tuple[str, ...]


class ReleaseApi(Struct, frozen=True, kw_only=True):
    """One release: the interface version of all operators used, and what changed since the release before.

    ``gaps`` counts what could not be read of this release.
    """

    torch: str
    version: str
    changes: tuple[Change, ...]
    gaps: int


class ApiHistory(Document, frozen=True, kw_only=True):
    """An extension across several releases: ``operators`` are the torch operators that it uses, sorted."""

    target: str
    operators: tuple[str, ...]
    releases: tuple[ReleaseApi, ...]
