"""A kernel has another C++ type than those that the operator has already.

**What it finds.** From torch 1.6 on, a kernel of an operator whose first kernel (most often torch's own) has another
C++ function type. Types are compared by their mangled names: `const at::Tensor&` and `at::Tensor` differ, and so do
`int64_t` and `c10::SymInt`, `c10::optional` and `std::optional`. Kernels with a `SymInt` are compared among themselves.

**Why it fails.** torch calls kernels through that type without looking again, so it refuses another one as it is
registered.

**Fix.** Install a build of the extension made for this torch. In the source: give the kernel the type that torch has,
as `torch/include/ATen/ops` declares it.

**Limits.** Boxed kernels have no such type and are never compared, neither here nor in torch.

**Example.** `Mismatch in kernel C++ signatures … kernel 1: at::Tensor (at::Tensor const&, long) … kernel 2: at::Tensor
(at::Tensor const&)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.registration import key_of, other_side, places, refusal, refusals, types


def check(linkage: Linkage) -> Iterator[Finding]:
    """Compare the two types."""
    for reaction in refusals(linkage, ("K1",)):
        subject, other = reaction.outcome.subject, other_side(linkage, reaction)
        key = key_of(reaction.outcome.event)
        kernel = f"kernel of {subject}" + (f" for {key}" if key else "")
        cause = f"the {kernel} in {reaction.object} has another C++ type than that of {other}"
        yield refusal(RULE.name, linkage, reaction, cause, [types(reaction), *places(reaction)])


RULE = rule("kernel-signature-mismatch", __doc__, check)
