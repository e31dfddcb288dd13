"""Whether a release of torch changed the interface of the operators that an extension uses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from abiscan.dispatch.operators import Operators
from abiscan.results.api_history import ApiHistory, Change, ReleaseApi
from abiscan.torches.api_version import ApiVersion, api_versions, combine_versions


def compare_releases(target: str, used: Iterable[str], torches: Mapping[str, Operators]) -> ApiHistory:
    """Return the interface that ``target`` gets from several torches, in their order.

    :param used: names of operators that it uses, if torch has them
    """
    names = frozenset(used)
    versions = {torch: api_versions(operators, names) for torch, operators in torches.items()}
    releases = []
    before: dict[str, ApiVersion] | None = None
    for torch, now in versions.items():
        changes = () if before is None else tuple(_operator_changes(before, now))
        gaps = len(torches[torch].gaps)
        # The fingerprint is over the operators that this release has: one that it lacks changes it as well.
        releases.append(ReleaseApi(torch=torch, version=combine_versions(now), changes=changes, gaps=gaps))
        before = now
    operator_names = sorted({name for api in versions.values() for name in api})
    return ApiHistory(target=target, operators=tuple(operator_names), releases=tuple(releases))


def _operator_changes(before: Mapping[str, ApiVersion], now: Mapping[str, ApiVersion]) -> Iterator[Change]:
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old is None or new is None:
            yield Change(operator=name, what=("added",) if old is None else ("removed",))
        elif old != new:
            # A changed schema needs a rebuild; a changed dispatch may change what is called without any error.
            halves = (("schema", old.schema != new.schema), ("dispatch", old.dispatch != new.dispatch))
            yield Change(operator=name, what=tuple(half for half, differs in halves if differs))
