"""A dispatch key has a different number in this torch than in the one the extension was built for.

**What it finds.** Kernels, libraries and fallbacks whose dispatch key, a number in the machine code, means a
different key in this torch. For example, 62 is `PrivateUse1` in torch 2.12 and `PrivateUse2` in torch 2.13: 2.13
dropped `Named`, and the keys after it moved down by one.

**Why it matters.** It loads. But the kernels are registered for the wrong key: tensors of the intended backend do not
find them (`Could not run 'aten::…' with arguments from the '…' backend`), and tensors of another backend may.

**Fix.** Install a build of the extension made for this torch.

**Limits.** The torch that the extension was built for is inferred from traces of the build. If several releases are
possible, the number must differ from that in all of them. A key that was only renamed, or was removed, is not
reported.

**Example.** `_C.so registers for dispatch key 62, which is PrivateUse1 in torch 2.12.1 but PrivateUse2 in torch
2.13.0`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from abiscan.dispatch.keys import keys_of
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.advice import other_build
from abiscan.words import plural


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Look each number up in the tables of both releases."""
    load, registering = linkage.load, linkage.load.registering
    if registering is None or not registering.built_for:
        return
    registrations = registering.own
    keys = (
        *(library.dispatch_key for library in registrations.libraries),
        *(kernel.dispatch_key for kernel in registrations.kernels),
        *(fallback.dispatch_key for fallback in registrations.fallbacks),
    )
    # Libraries of the stable ABI have their keys as texts, which torch itself translates.
    used = Counter(key for key in keys if isinstance(key, int))
    tables = [keys_of(version) for version in registering.built_for]
    target_keys = registering.keys
    known_names = set(target_keys.names.values())
    moved = {}
    # All possible origins have to disagree with this torch, and the key they mean must still exist: else the number may
    # be right, or the key was merely renamed.
    for number in sorted(used):
        names = {table.name(number) for table in tables}
        if target_keys.name(number) not in names and names <= known_names:
            moved[number] = " or ".join(sorted(names))
    if not moved:
        return
    first = next(iter(moved))
    built_for = f"torch {registering.built_for[-1]}"
    yield Finding(
        rule=RULE.name,
        effect=Effect.CALL_FAILS,
        message=(
            f"{load.name} registers for dispatch key {first}, which is {moved[first]} in {built_for} but "
            f"{target_keys.names.get(first, 'no key')} in {load.release}"
            + (f"; {plural(len(moved) - 1, 'more key')} changed meaning" if len(moved) > 1 else "")
        ),
        evidence=tuple(
            Evidence(
                subject=old_name,
                readable=f"{old_name} (number {number}, {plural(used[number], 'registration')})",
                object=load.name,
                instead=target_keys.name(number),
            )
            for number, old_name in moved.items()
        ),
        fix=other_build(linkage),
    )


RULE = rule("dispatch-key-drift", __doc__, find_problems, [TorchData.OPERATORS])
