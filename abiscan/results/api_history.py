"""The result of ``abiscan ops TARGET --api-version``: whether releases changed anything for an extension."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from abiscan.results.document import Document
from abiscan.results.fields import Count

_Aspect: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": ["added", "removed", "schema", "dispatch"]})]


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator that changed since the release before."""

    operator: str
    what: tuple[_Aspect, ...]


class ReleaseApi(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One release.

    :ivar version: a fingerprint of all operators used
    :ivar changes: what changed since the release before
    :ivar gaps: what could not be read of this release
    """

    torch: str
    version: str
    changes: tuple[Change, ...]
    gaps: Count


class ApiHistory(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An extension across several releases.

    :ivar operators: the operators of torch that the target uses, sorted
    """

    target: str
    operators: tuple[str, ...]
    releases: tuple[ReleaseApi, ...]
