"""What the fields of JSON documents may have, besides their types: the published schemas ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from msgspec import Meta

Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Several: TypeAlias = Annotated[int, Meta(ge=1)]
Distinct: TypeAlias = Annotated[Sequence[str], Meta(extra_json_schema={"uniqueItems": True})]
Names: TypeAlias = Annotated[Sequence[Text], Meta(extra_json_schema={"uniqueItems": True})]
RuleName: TypeAlias = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
OperatorName: TypeAlias = Annotated[str, Meta(pattern="::")]
Sha256: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
