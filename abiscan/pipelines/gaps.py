"""What a judgement could not look at, said instead of passed over."""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.ownership import is_python_symbol
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.model import Absence
from abiscan.linkage.registering import Registering
from abiscan.results.check import Gap
from abiscan.torches.model import TorchRelease


def gaps_of(linkage: Linkage) -> Iterator[Gap]:
    """What could not be looked at for one extension on one torch."""
    if linkage.resolution is None:
        return
    if linkage.registering:
        yield from _registration_gaps(linkage.registering, linkage.release)
    for drift in linkage.drifts:
        if drift.doubts:
            releases = f"torch {drift.candidates[0]} to {drift.candidates[-1]}"
            reason = (
                f"{drift.name} can be built for {releases}, of which some lay out {', '.join(drift.doubts)} otherwise"
            )
            yield Gap(stage="layouts", reason=f"{reason} than {linkage.release}")
    interpreter, unchecked = linkage.interpreter, linkage.resolution.unchecked
    if interpreter and interpreter.executable is None and any(is_python_symbol(each.name) for each in unchecked):
        which = f"Python {interpreter.tag}"
        yield Gap(stage="linkage", reason=f"{which} is not on this machine: symbols of its C API were not checked")
    assumed = [library for library in linkage.resolution.closure.missing if library.absence is Absence.SYSTEM]
    if assumed:
        names = ", ".join(dict.fromkeys(library.name for library in assumed))
        yield Gap(stage="linkage", reason=f"not the system of this machine: {names} were not checked")
    external = [library.name for library in linkage.resolution.closure.missing if library.absence is Absence.EXTERNAL]
    if external:
        names, count = ", ".join(dict.fromkeys(external)), len(unchecked)
        yield Gap(
            stage="linkage",
            reason=f"not at hand: {names}; symbols that may be theirs, and were not checked: {count}",
        )


def _registration_gaps(registering: Registering, release: TorchRelease) -> Iterator[Gap]:
    for registrations in (registering.own, *registering.brought.values()):
        for gap in registrations.gaps:
            where = f" (in {gap.symbol})" if gap.symbol else ""
            yield Gap(stage=gap.stage, reason=gap.reason + where)
    if registering.operators is None:
        reason = (
            f"what {release} has in its dispatcher is not at hand: only conflicts of the extension with itself are seen"
        )
        yield Gap(stage="dispatch", reason=reason)
    elif registering.operators.gaps:
        count = len(registering.operators.gaps)
        yield Gap(stage="dispatch", reason=f"not everything that {release} registers could be read: {count} gaps")
    if registering.operators is not None and registering.operators.entries is None and registering.filled:
        names = ", ".join(registering.filled)
        reason = f"what {release} itself has entered in {names} is not at hand: a key that it has taken is not seen"
        yield Gap(stage="dispatch", reason=reason)
