"""Operators that every backend had are now to be implemented by each.

**What it finds.** For an extension that brings a backend: operators that ran for it on the torch for which it was
built, by a kernel that torch has for all backends (catch-all, composite), and that have no kernel for it on this torch.

**Why it fails.** It loads. But torch has moved the operator from one kernel for all to one for each backend, and the
extension brings none: calling it with a tensor of the backend raises `Could not run 'aten::…' with arguments from the
'…' backend`. `aten::tanh` from 1.4 to 1.5 is such a case (pytorch #38973).

**Fix.** Install a build of the extension made for this torch, or the torch it was built with.

**Limits.** Of the releases that it may have been built for, the newest is compared with.

**Example.** `Could not run 'aten::tanh' with arguments from the 'XLATensorId' backend.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.calls import delegates
from abiscan.dispatch.coverage import cover
from abiscan.dispatch.table import EntrySource
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.advice import other_build
from abiscan.rules.registration import listed

_FOR_ALL = (EntrySource.CATCH_ALL, EntrySource.MATH, EntrySource.DEFAULT_BACKEND)


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for all of them, the most used first."""
    registering = linkage.registering
    backend = registering.backend if registering else None
    if backend is None or backend.before is None:
        return
    old = backend.before
    ran = [
        name
        for name in backend.table.operators.operators
        if name in old.operators.operators and old.entry(name, backend.before_key).source in _FOR_ALL
    ]
    needed_more = delegates(old, backend.before_key, ran)  # these had no kernel either
    missing = cover(backend.table, backend.key, backend.core, ran).missing
    changed = [each for each in missing if each.operator in ran and each.operator not in needed_more]
    if changed:
        yield Finding(
            rule=RULE.name,
            effect=Effect.CALL_FAILS,
            message=(
                f"{linkage.name} was built for torch {backend.before_version}, which ran {len(changed)} operators on "
                f"{backend.before_key} that {linkage.release} leaves to each backend: "
                f"{listed([each.operator for each in changed])}"
            ),
            evidence=tuple(Evidence(subject=each.operator, object=linkage.name) for each in changed),
            fix=other_build(linkage),
            says=changed[0].message,
        )


RULE = rule("dispatch-strategy-changed", __doc__, check)
