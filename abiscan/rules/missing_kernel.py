"""The extension's backend lacks kernels that every backend needs, or that its own code uses.

**What it finds.** For an extension that provides a backend: operators without a kernel for its dispatch key on this
torch, among those that create, move, view or read tensors, those that the extension registers itself, and those that
its code looks up by name.

**Why it fails.** It loads. Calling the operator with a tensor of the backend raises `Could not run 'aten::…' with
arguments from the '…' backend`.

**Fix.** Register the kernels, or a fallback for the backend; or install a build of the extension made for this torch.

**Limits.** `abiscan coverage` lists all operators without a kernel, not just these. Kernels that Python code
registers later are not seen.

**Example.** `Could not run 'aten::empty.memory_format' with arguments from the 'PrivateUse1' backend.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.coverage import ESSENTIAL, measure_coverage
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.words import listed


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for all of them."""
    load, registering = linkage.load, linkage.load.registering
    if registering is None or registering.backend is None:
        return
    backend = registering.backend
    operators = backend.table.operators.operators
    # What every backend needs, what it provides itself, and what its own code calls: an extension is not asked for
    # more.
    used = {
        *ESSENTIAL,
        *(kernel.operator for kernel in registering.own.kernels),
        *(lookup.operator for lookup in registering.own.lookups),
    }
    # Only operators of this torch: another rule is about those that it lacks.
    missing = measure_coverage(backend.table, backend.key, backend.core, sorted(used & operators.keys())).missing
    if missing:
        yield Finding(
            rule=RULE.name,
            effect=Effect.CALL_FAILS,
            message=(
                f"{load.name} has no {backend.key} kernel for operators that it needs on {load.release}: "
                f"{listed(kernel.operator for kernel in missing)}"
            ),
            evidence=tuple(
                Evidence(
                    subject=kernel.operator,
                    readable=kernel.operator + (" (essential)" if kernel.essential else ""),
                    object=load.name,
                )
                for kernel in missing
            ),
            fix=f"register kernels or a fallback for {backend.key}; abiscan coverage lists all that lack one",
            says=missing[0].message,
        )


RULE = rule("missing-kernel", __doc__, find_problems, [TorchData.OPERATORS])
