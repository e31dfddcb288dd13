"""Operators that had a generic kernel now need a backend-specific one.

**What it finds.** For an extension that provides a backend: operators that ran on the backend with a generic kernel
of torch (catch-all or composite) in the release the extension was built for, and that have no kernel for the backend
in this torch.

**Why it fails.** It loads. But torch replaced the generic kernel of the operator with one kernel per backend, and the
extension provides none: calling the operator with a tensor of the backend raises `Could not run 'aten::…' with
arguments from the '…' backend`. `aten::tanh` changed in this way between 1.4 and 1.5 (pytorch #38973).

**Fix.** Install a build of the extension made for this torch, or the torch it was built for.

**Limits.** If the extension may have been built for several releases, the newest of them is compared.

**Example.** `Could not run 'aten::tanh' with arguments from the 'XLATensorId' backend.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.calls import Failure, failure_message
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.advice import other_build
from abiscan.words import listed, plural


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for all of them, the most used first."""
    load, registering = linkage.load, linkage.load.registering
    backend = registering.backend if registering else None
    if backend is not None and (changed := backend.lost):
        yield Finding(
            rule=RULE.name,
            effect=Effect.CALL_FAILS,
            message=(
                f"{load.name} was built for torch {backend.before_version}, which has a generic kernel for "
                f"{plural(len(changed), 'operator')}; {load.release} needs kernels for {backend.key} instead: "
                f"{listed(kernel.operator for kernel in changed)}"
            ),
            evidence=tuple(Evidence(subject=kernel.operator, object=load.name) for kernel in changed),
            fix=other_build(linkage),
            says=failure_message(backend.table, Failure(operator=changed[0].operator, key=changed[0].key)).text,
        )


RULE = rule("dispatch-strategy-changed", __doc__, find_problems, [TorchData.OPERATORS])
