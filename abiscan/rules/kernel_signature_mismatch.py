"""The C++ type of a kernel differs from that of the operator's other kernels.

**What it finds.** From torch 1.6 on, a kernel whose C++ function type differs from that of the operator's first
kernel (usually torch's own). Types are compared by their mangled names: `const at::Tensor&` and `at::Tensor` differ,
and so do `int64_t` and `c10::SymInt`, `c10::optional` and `std::optional`. Kernels with `SymInt` parameters are
compared only with each other.

**Why it fails.** Torch calls kernels through that type without checking again, so it rejects a different one at
registration.

**Fix.** Install a build of the extension made for this torch. In the source: give the kernel the type that torch
uses, as declared in `torch/include/ATen/ops`.

**Limits.** Boxed kernels have no such type. Neither torch nor this rule compares them.

**Example.** `Mismatch in kernel C++ signatures … kernel 1: at::Tensor (at::Tensor const&, long) … kernel 2:
at::Tensor (at::Tensor const&)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.registration import compare_types, key_of, list_places, list_refusals, other_side, refusal_finding


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Compare the two types."""
    load = linkage.load
    # CppSignature (aten/src/ATen/core/dispatch/CppSignature.h) compares std::type_index, so by mangled name.
    for reaction in list_refusals(load, ("K1",)):
        subject, second = reaction.outcome.subject, other_side(load, reaction)
        key = key_of(load, reaction.outcome.event)
        kernel = f"{key} kernel" if key else "kernel"
        cause = f"the {kernel} for {subject} in {reaction.object} has a different C++ type than that of {second}"
        yield refusal_finding(RULE.name, linkage, reaction, cause, [compare_types(reaction), *list_places(reaction)])


RULE = rule("kernel-signature-mismatch", __doc__, find_problems, [TorchData.OPERATORS])
