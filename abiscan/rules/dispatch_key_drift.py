"""A dispatch key has another number in this torch than in the one that the extension was built for.

**What it finds.** Kernels, libraries and fallbacks whose key, a number in the machine code, names another key on this
torch: `PrivateUse1` of 2.12 is `PrivateUse2` of 2.13, since 2.13 has one backend more.

**Why it matters.** It loads. But kernels are registered for a key that nobody meant: tensors of the intended backend
do not find them (`Could not run 'aten::…' with arguments from the '…' backend`), and those of another one may.

**Fix.** Install a build of the extension made for this torch.

**Limits.** The torch that it was built for is inferred from what it imports. If it can have been any of several, the
key must have moved against all of them. A key that was only renamed, or is gone altogether, is not reported.

**Example.** `_C.so registers for PrivateUse1 as torch 2.12.1 numbers it, which is PrivateUse2 on torch 2.13.0`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from abiscan.dispatch.keys import keys_of
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.advice import other_build


def check(linkage: Linkage) -> Iterator[Finding]:
    """Read each number with both tables."""
    registering = linkage.registering
    if registering is None or not registering.built_for:
        return
    own = registering.own
    keys = (
        *(library.dispatch_key for library in own.libraries),
        *(kernel.dispatch_key for kernel in own.kernels),
        *(fallback.dispatch_key for fallback in own.fallbacks),
    )
    used = Counter(key for key in keys if isinstance(key, int))
    tables = [keys_of(version) for version in registering.built_for]
    here = registering.keys
    known = set(here.names.values())
    moved = {}
    for number in sorted(used):
        meant = {table.name(number) for table in tables}
        if here.name(number) not in meant and meant <= known:
            moved[number] = " or ".join(sorted(meant))
    if not moved:
        return
    first = next(iter(moved))
    which = f"torch {registering.built_for[-1]}"
    yield Finding(
        rule=RULE.name,
        effect=Effect.CALL_FAILS,
        message=(
            f"{linkage.name} registers for {moved[first]} as {which} numbers it, which is {here.name(first)} on "
            f"{linkage.release}" + (f"; so for {len(moved) - 1} other keys" if len(moved) > 1 else "")
        ),
        evidence=tuple(
            Evidence(
                subject=meant,
                readable=f"{meant} (number {number}, {used[number]} registrations)",
                object=linkage.name,
                instead=here.name(number),
            )
            for number, meant in moved.items()
        ),
        fix=other_build(linkage),
    )


RULE = rule("dispatch-key-drift", __doc__, check)
