"""Torch calls the wrong virtual functions of a class in the extension.

**What it finds.** Classes of the extension that derive from a class of torch (a device guard, an allocator, a
generator, a tensor implementation, an autograd node, a backend's hooks), if some slots of its vtable hold other
functions in this torch than in the release that the extension was built for.

**Why it fails.** A virtual function is called by its slot number. The vtable of the extension's class was laid out by
the headers it was compiled with; if torch has inserted a function since then, every later call reaches the wrong
function, with the wrong arguments. Functions added at the end are a note: the extension's vtable has no slot for
them, and a call jumps to whatever follows it, but only if torch makes such a call.

**Fix.** Install a build of the extension made for this torch.

**Limits.** Functions are identified by name, so overloads that swapped places go unnoticed. Of a class of torch with
several bases, only the primary vtable is compared.

**Example.** `c10::impl::DeviceGuardImplInterface` gained a function in the middle: a call of `getNewStream` runs
`exchangeStream` of an older device guard.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.mangling import demangle_type
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.layout_drift import LayoutDrift, TableDrift
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.advice import other_build
from abiscan.torches.layout_changes import method_name
from abiscan.words import listed, plural


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for each base class in torch."""
    for drift in linkage.load.drifts:
        for table in drift.tables:
            yield _make_finding(linkage, drift, table)


def _make_finding(linkage: Linkage, drift: LayoutDrift, table: TableDrift) -> Finding:
    names = listed(demangle_type(derived.name) for derived in table.derived)
    release = linkage.load.release
    # Itanium C++ ABI, "Virtual Table Layout": slots are in the order of declaration, and a call has the number compiled
    # in.
    if table.misplaced:
        effect = Effect.CORRUPTS
        cause = f"{release} calls the wrong functions through {plural(len(table.misplaced), 'vtable slot')}"
    else:
        effect = Effect.NOTE
        cause = f"{release} has {plural(len(table.missing), 'more virtual function')}, missing from its vtable"
    return Finding(
        rule=RULE.name,
        effect=effect,
        message=f"{drift.name}, built for torch {drift.built_for}, derives {names} from {table.base}; {cause}",
        evidence=tuple(
            Evidence(
                subject=f"{table.base} slot {change.number}",
                readable=f"slot {change.number}: {method_name(change.old) or '(none)'}",
                object=drift.name,
                instead=method_name(change.new) or "(none)",
            )
            for change in (*table.misplaced, *table.missing)
        ),
        fix=other_build(linkage),
    )


RULE = rule("vtable-drift", __doc__, find_problems, [TorchData.LAYOUTS])
