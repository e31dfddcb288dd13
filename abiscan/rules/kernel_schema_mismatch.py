"""The C++ type of a kernel does not match the operator's schema.

**What it finds.** A kernel whose C++ function type implies a different schema than the operator has: a different
number of arguments or returns, or a different type for one of them. Only counts and types matter, not names or
defaults.

**Why it fails.** Torch infers a schema from the C++ type of each kernel and compares it with the operator's schema as
soon as it has both.

**Fix.** Install a build of the extension made for this torch. In the source: make the two agree; `int` in a schema is
`int64_t` in C++, `float` is `double`, `Tensor?` is `const std::optional<at::Tensor>&`.

**Limits.** Boxed kernels and kernels of the stable ABI have no C++ type that torch could compare: they fail when they
are called.

**Example.** `Inferred operator schema for a C++ kernel function doesn't match the expected function schema. … reason:
The number of arguments is different. 2 vs 1.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.registration import list_places, list_refusals, other_side, refusal_finding


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Show the schema, and the one that the C++ type implies."""
    load = linkage.load
    for reaction in list_refusals(load, ("K2", "R7", "R8")):
        outcome = reaction.outcome
        cause = f"a kernel for {outcome.subject} in {reaction.object} does not match the schema of the operator"
        # "Defined by itself" would be said of an extension with both; then only the mismatch is news.
        if other_side(load, reaction) != f"{reaction.object} itself":
            cause += f", defined by {other_side(load, reaction)}"
        both = Evidence(subject=outcome.subject, readable=outcome.new, object=reaction.object, instead=outcome.old)
        yield refusal_finding(RULE.name, linkage, reaction, cause, [both, *list_places(reaction)])


RULE = rule("kernel-schema-mismatch", __doc__, find_problems, [TorchData.OPERATORS])
