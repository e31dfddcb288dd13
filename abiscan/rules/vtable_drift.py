"""Torch calls other functions of a class of the extension than it means to.

**What it finds.** Classes of the extension that derive from a class of torch (a device guard, an allocator, a
generator, a tensor implementation, an autograd node, a backend's hooks) in whose table of virtual functions this torch
has other functions at some places than the release that the extension was built for.

**Why it fails.** A virtual function is called by its number. The table of the extension's class was laid out by the
headers that it was compiled with; if torch has put a function in between since, every later call reaches the wrong
function, with the wrong arguments. Functions added at the end are a note: torch finds no entry for them in the
extension's table, and whatever lies behind it is called, but only if torch calls them at all.

**Fix.** Install a build of the extension made for this torch.

**Limits.** Tables of second bases are not compared. Functions are told apart by name, so overloads that changed places
go unseen.

**Example.** `c10::impl::DeviceGuardImplInterface` gains a function in the middle: `exchangeStream` of an old device
guard is called as `getNewStream`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.mangling import demangle_type
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.layout_drift import LayoutDrift, TableDrift
from abiscan.linkage.linkage import Linkage
from abiscan.rules.advice import other_build
from abiscan.torches.layout_changes import method


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for each class of torch that is derived from."""
    for drift in linkage.drifts:
        for table in drift.tables:
            yield _finding(linkage, drift, table)


def _finding(linkage: Linkage, drift: LayoutDrift, table: TableDrift) -> Finding:
    derived = [demangle_type(own.name) for own in table.derived]
    names = ", ".join(derived[:3]) + (f" and {len(derived) - 3} more" if len(derived) > 3 else "")
    if table.misplaced:
        effect, what = (
            Effect.CORRUPTS,
            f"calls other functions than it means through {len(table.misplaced)} of its slots",
        )
    else:
        effect, what = Effect.NOTE, f"has {len(table.missing)} more virtual functions, which it lacks"
    here = linkage.release
    return Finding(
        rule=RULE.name,
        effect=effect,
        message=f"{drift.name}, built for torch {drift.built_for}, derives {names} from {table.base}; {here} {what}",
        evidence=tuple(
            Evidence(
                subject=f"{table.base} slot {change.number}",
                readable=f"slot {change.number}: {method(change.old) or '(none)'}",
                object=drift.name,
                instead=method(change.new) or "(none)",
            )
            for change in (*table.misplaced, *table.missing)
        ),
        fix=other_build(linkage),
    )


RULE = rule("vtable-drift", __doc__, check)
