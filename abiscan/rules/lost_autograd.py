"""A kernel of the extension disables torch's gradient for a composite operator.

**What it finds.** A backend kernel for an operator that torch composes from others (`CompositeImplicitAutograd`),
without a kernel for the autograd key of that backend.

**Why it matters.** Without a backend kernel, the autograd key of the backend runs torch's own composition, and each
part of it has a derivative. With one, torch no longer uses the composition for the autograd key, and passes the call
straight to the backend: a kernel that computes the result itself returns tensors without `grad_fn`, and training
raises or learns nothing. Inference is not affected.

**Fix.** Register a kernel for the autograd key of the backend too (`AutogradPrivateUse1`), or none at all.

**Limits.** From torch 1.7 on. A kernel that calls torch operators keeps their gradients; what a kernel does inside is
not seen, and neither is autograd that Python code registers later.

**Example.** `backend.so registers PrivateUse1 kernels that bypass the gradient of composite operators:
aten::softmax.int`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.adapters import table_of
from abiscan.dispatch.table import AUTOGRAD, DispatchTable, EntrySource
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.words import listed

_KEEPS = (EntrySource.KERNEL, EntrySource.AUTOGRAD, EntrySource.MATH)


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding per backend."""
    load, registering = linkage.load, linkage.load.registering
    if registering is None or registering.operators is None:
        return
    before = DispatchTable(registering.release, registering.operators)
    after = table_of(registering.release, registering.operators, (registering.own, *registering.bundled.values()))
    # The table after registration has torch's kernels first, then those of the extension, in order.
    own_kernels = after.operators.kernels[len(before.operators.kernels) :]
    # CompositeImplicitAutograd counts for the autograd key of a backend only as long as the backend key itself has no
    # kernel (OperatorEntry.cpp, computeDispatchTableEntryWithDebug).
    for backend in dict.fromkeys(kernel.key for kernel in own_kernels if kernel.key is not None):
        autograd = AUTOGRAD + backend
        if backend not in after.backends_of(autograd):
            continue
        names = dict.fromkeys(kernel.operator for kernel in own_kernels if kernel.key == backend)
        lost = [
            name
            for name in names
            if name in registering.operators.operators
            # Both tables are asked, so an operator that had no gradient before is not counted as lost.
            and before.source(name, autograd) is EntrySource.MATH
            and after.source(name, autograd) not in _KEEPS
        ]
        if lost:
            yield Finding(
                rule=RULE.name,
                effect=Effect.OVERRIDES,
                message=(
                    f"{load.name} registers {backend} kernels that bypass the gradient of composite operators: "
                    f"{listed(lost)}"
                ),
                evidence=tuple(
                    Evidence(subject=name, readable=f"{name}: no kernel for {autograd}", object=load.name)
                    for name in lost
                ),
                fix=f"register kernels for {autograd} too, or leave these operators to torch",
            )


RULE = rule("lost-autograd", __doc__, find_problems, [TorchData.OPERATORS])
