"""What an update of a lock does to its environments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec.structs

from abiscan.environments.lock_store import LockStore
from abiscan.environments.locked import LockedEnvironment, examine_locked, make_environment
from abiscan.gpu.devices import Hardware
from abiscan.index.system import System
from abiscan.inputs.session import Session
from abiscan.locks.model import Lock, ProjectPart
from abiscan.results.doctor import DistributionState
from abiscan.results.lock import LockComparison, LockedState, OutcomeChange, VersionChange
from abiscan.results.package import PackageVerdict

_RANKS: Final = {
    PackageVerdict.WORKS: 0,
    PackageVerdict.WORKS_WITHOUT: 1,
    PackageVerdict.IMPORT_FAILS: 2,
    PackageVerdict.CORRUPTS: 2,
}
"""How bad a verdict is; what is unknown is neither better nor worse."""


def compare_locks(
    old: Lock,
    new: Lock,
    systems: Sequence[System],
    selection: ProjectPart,
    session: Session,
    hardware: Hardware | None = None,
) -> LockComparison:
    """Compare what becomes of the environments that two locks describe.

    :param systems: those of the new one; the old one need not have them
    :raises AbiscanError: a lock contradicts itself, or what it names cannot be had, or is something else
    """
    store = LockStore(session)
    by_kind: dict[str, dict[OutcomeChange, list[str]]] = {"worse": {}, "better": {}, "still": {}, "unknown": {}}
    versions: dict[VersionChange, None] = {}
    names: list[str] = []
    for system in systems:
        after = make_environment(new, system, selection, store, session)
        before = make_environment(old, system, selection, store, session) if old.admits(system) else None
        state = examine_locked(after, session, hardware)
        state_before = examine_locked(before, session, hardware) if before is not None else None
        names.append(str(state))
        versions |= dict.fromkeys(_version_changes(before, after))
        for kind, change in _outcome_changes(state_before, state, changed=_changed(before, after)):
            by_kind[kind].setdefault(change, []).append(str(state))
    changes = tuple(sorted(versions, key=lambda change: (change.name != "torch", change.name)))
    return LockComparison(
        old=str(old.path),
        new=str(new.path),
        torch=next((change for change in changes if change.name == "torch"), None),
        changes=changes,
        environments=tuple(names),
        **{kind: tuple(_with_environments(outcomes)) for kind, outcomes in by_kind.items()},
    )


def _with_environments(outcomes: Mapping[OutcomeChange, Sequence[str]]) -> Iterator[OutcomeChange]:
    # Packages that fail by themselves come first: they are the reason for the others.
    for change in sorted(outcomes, key=lambda item: (item.cause is not None, item.name)):
        yield msgspec.structs.replace(change, environments=tuple(outcomes[change]))


def _version_changes(before: LockedEnvironment | None, after: LockedEnvironment) -> Iterator[VersionChange]:
    old = {name: item.version for name, item in before.packages.items()} if before else {}
    new = {name: item.version for name, item in after.packages.items()}
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield VersionChange(name=name, before=old.get(name), after=new.get(name))


def _changed(before: LockedEnvironment | None, after: LockedEnvironment) -> bool:
    """Whether anything that uses torch has other bytes, or another torch, or other neighbours that are known."""
    return before is None or (before.keys, before.build) != (after.keys, after.build)


def _outcome_changes(
    before: LockedState | None, after: LockedState, *, changed: bool
) -> Iterator[tuple[str, OutcomeChange]]:
    old = {item.name: item for item in before.distributions} if before else {}
    new = {item.name: item for item in after.distributions}
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        kind = kind_of_change(was, now)
        if kind == "unknown" and (was == now or not changed):
            continue
        if kind is not None:
            yield kind, _outcome(was, now)


def kind_of_change(was: DistributionState | None, now: DistributionState | None) -> str | None:
    """Return which list a change belongs to; None if nothing becomes better or worse."""
    then = _rank(now)
    if now is not None and now.verdict is PackageVerdict.UNKNOWN:
        return "unknown"
    if was is not None and was.verdict is PackageVerdict.UNKNOWN:
        return "worse" if then > 1 else None
    if then > _rank(was):
        return "worse"
    if now is not None and then < _rank(was):
        return "better"
    return "still" if now is not None and then > 1 else None


def _rank(state: DistributionState | None) -> int:
    return _RANKS.get(state.verdict, 0) if state is not None else 0


def _outcome(was: DistributionState | None, now: DistributionState | None) -> OutcomeChange:
    shown = now or was
    assert shown is not None
    broken = now if now is not None and _rank(now) >= _rank(was) else was
    return OutcomeChange(
        name=shown.name,
        version=shown.version,
        before=was.verdict if was else None,
        after=now.verdict if now else None,
        error=broken.error or next(iter(broken.without), None) if broken else None,
        cause=broken.cause if broken else None,
    )
