"""The backend of the extension lacks kernels without which it can do nothing, or that its own code asks for.

**What it finds.** For an extension that brings a backend: operators that make, move, view or read tensors, that it
registers itself, or that its code fetches by name, and that end without a kernel for its dispatch key on this torch.

**Why it fails.** It loads. Calling the operator with a tensor of the backend raises `Could not run 'aten::…' with
arguments from the '…' backend`.

**Fix.** Register the kernels, or a fallback for the backend; or install a build of the extension made for this torch.

**Limits.** All operators, not just these, are listed by `abiscan coverage`. What Python code registers later is not
seen.

**Example.** `Could not run 'aten::empty.memory_format' with arguments from the 'PrivateUse1' backend.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.coverage import ESSENTIAL, cover
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.registration import listed


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for all of them."""
    registering = linkage.registering
    if registering is None or registering.backend is None:
        return
    backend = registering.backend
    known = backend.table.operators.operators
    used = {
        *ESSENTIAL,
        *(kernel.operator for kernel in registering.own.kernels),
        *(lookup.operator for lookup in registering.own.lookups),
    }
    missing = cover(backend.table, backend.key, backend.core, sorted(used & known.keys())).missing
    if missing:
        yield Finding(
            rule=RULE.name,
            effect=Effect.CALL_FAILS,
            message=(
                f"{linkage.name} has no kernel for {backend.key} of operators that it needs on {linkage.release}: "
                f"{listed([each.operator for each in missing])}"
            ),
            evidence=tuple(
                Evidence(
                    subject=each.operator,
                    readable=each.operator + (" (essential)" if each.essential else ""),
                    object=linkage.name,
                )
                for each in missing
            ),
            fix=f"register kernels or a fallback for {backend.key}; abiscan coverage lists every operator without one",
            says=missing[0].message,
        )


RULE = rule("missing-kernel", __doc__, check)
