"""The extension registers a class under a name that is taken.

**What it finds.** A `torch::class_<T>("ns", "Name")` where torch, or something loaded before, has a class of that name.

**Why it fails.** A custom class can be registered once.

**Fix.** Load only one of the two. In the source: give the class a namespace of its own.

**Limits.** Classes that are registered when a function is called are judged as of that call.

**Example.** `Custom class with name __torch__.torch.classes.quantized.LinearPackedParamsBase is already registered.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.registration import other_side, refusal, refusals


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for what is there already."""
    for reaction in refusals(linkage, ("C1",)):
        name, other = reaction.outcome.subject, other_side(linkage, reaction)
        cause = f"{reaction.object} registers the class {name}, which {other} has registered already"
        yield refusal(RULE.name, linkage, reaction, cause, [Evidence(subject=name, object=reaction.object)])


RULE = rule("custom-class-conflict", __doc__, check)
