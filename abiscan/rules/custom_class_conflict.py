"""The extension registers a custom class under a name that is already taken.

**What it finds.** A `torch::class_<T>("ns", "Name")` for which torch, or a library loaded earlier, already has a
class of that name.

**Why it fails.** A custom class can be registered only once.

**Fix.** Load only one of the two. In the source: give the class a namespace of its own.

**Limits.** A class that is registered inside a function is checked as of the call to that function.

**Example.** `Custom class with name __torch__.torch.classes.quantized.LinearPackedParamsBase is already registered.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.registration import list_refusals, other_side, refusal_finding


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding, for the class that is already there."""
    # Checked in registerCustomClass (aten/src/ATen/core/custom_class.cpp), by the qualified name.
    for reaction in list_refusals(linkage.load, ("C1",)):
        name, second = reaction.outcome.subject, other_side(linkage.load, reaction)
        cause = f"{reaction.object} registers the class {name}, which {second} has already registered"
        yield refusal_finding(RULE.name, linkage, reaction, cause, [Evidence(subject=name, object=reaction.object)])


RULE = rule("custom-class-conflict", __doc__, find_problems, [TorchData.OPERATORS])
