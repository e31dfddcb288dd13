"""A kernel of the extension takes torch's gradient of a composite operator away.

**What it finds.** A kernel for a backend on an operator that torch puts together from others
(`CompositeImplicitAutograd`), and no kernel for the autograd key of that backend.

**Why it matters.** As long as there is no kernel for the backend, its autograd key runs torch's own composition, and
each part of it knows its derivative. With one, torch's kernel is no longer taken for the autograd key, and what is left
there hands the call straight to the backend: a kernel that computes by itself gives results without `grad_fn`, and
training raises or learns nothing. Inference is as before.

**Fix.** Register a kernel for the autograd key of the backend too (`AutogradPrivateUse1`), or none at all.

**Limits.** From torch 1.7 on. A kernel that calls operators of torch in its turn keeps the gradient of those; what a
kernel does inside is not seen, nor is autograd that Python code registers later.

**Example.** `backend.so has kernels for PrivateUse1 in place of composite operators, without torch's gradient:
aten::softmax.int`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.adapters import table_of
from abiscan.dispatch.table import AUTOGRAD, DispatchTable, EntrySource
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.registration import listed

_KEEPS = (EntrySource.KERNEL, EntrySource.AUTOGRAD, EntrySource.MATH)


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for each backend."""
    registering = linkage.registering
    if registering is None or registering.operators is None:
        return
    before = DispatchTable(registering.release, registering.operators)
    after = table_of(registering.release, registering.operators, (registering.own, *registering.brought.values()))
    own = after.operators.kernels[len(before.operators.kernels) :]
    for backend in dict.fromkeys(kernel.key for kernel in own if kernel.key is not None):
        autograd = AUTOGRAD + backend
        if backend not in after.backends_of(autograd):
            continue
        names = dict.fromkeys(kernel.operator for kernel in own if kernel.key == backend)
        lost = [
            name
            for name in names
            if name in registering.operators.operators
            and before.entry(name, autograd).source is EntrySource.MATH
            and after.entry(name, autograd).source not in _KEEPS
        ]
        if lost:
            yield Finding(
                rule=RULE.name,
                effect=Effect.OVERRIDES,
                message=(
                    f"{linkage.name} has kernels for {backend} in place of composite operators, without torch's "
                    f"gradient: {listed(lost)}"
                ),
                evidence=tuple(
                    Evidence(subject=name, readable=f"{name}: no kernel for {autograd}", object=linkage.name)
                    for name in lost
                ),
                fix=f"register kernels for {autograd} as well, or leave these operators to torch",
            )


RULE = rule("lost-autograd", __doc__, check)
