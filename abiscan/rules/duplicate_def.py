"""The extension defines an operator that is defined already.

**What it finds.** From torch 1.8 on, a `def` of an operator (name and overload) that this torch, a library that the
extension brings along, or the extension itself has defined before.

**Why it fails.** An operator can be defined once, and an equal schema is no excuse. It happens when torch takes over
an operator that an extension used to define, and when two extensions carry the same sources.

**Fix.** Install a build of the extension made for this torch. In the source: define only what torch does not have, and
register kernels for the rest with `TORCH_LIBRARY_IMPL`.

**Limits.** Operators that Python code defines are not seen.

**Example.** `Tried to register an operator (aten::tanh(Tensor self) -> Tensor) with the same name and overload name
multiple times.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.registration import other_side, places, refusal, refusals, schemas


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for the second definition."""
    for reaction in refusals(linkage, ("D1",)):
        difference, both = schemas(linkage, reaction)
        subject, other = reaction.outcome.subject, other_side(linkage, reaction)
        cause = f"{reaction.object} defines {subject}, which {other} defines already ({difference})"
        yield refusal(RULE.name, linkage, reaction, cause, [both, *places(reaction)])


RULE = rule("duplicate-def", __doc__, check)
