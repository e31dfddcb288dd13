"""The extension opens a `TORCH_LIBRARY` block for a namespace that already has one.

**What it finds.** A second `TORCH_LIBRARY(ns, m)` in one process: torch or another extension has already opened one
for `ns`, or the same library is loaded from two paths.

**Why it fails.** A namespace can have only one `TORCH_LIBRARY` block. The same *file* under two names is loaded once
and does no harm; a copy of it is a different library.

**Fix.** Load only one of the two. In the source: use `TORCH_LIBRARY_FRAGMENT` for a shared namespace, or a namespace
of your own.

**Limits.** The files of one wheel may be alternatives of which only one is ever loaded, so they are compared with
each other only if one needs the other. Namespaces opened in Python code are not seen.

**Example.** `Only a single TORCH_LIBRARY can be used to register the namespace torchvision; …`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.registration import list_refusals, name_both, other_side, place_of, refusal_finding


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding, for the second block."""
    for reaction in list_refusals(linkage.load, ("N1",)):
        namespace, second = reaction.outcome.subject, other_side(linkage.load, reaction)
        # Which of the two is refused depends on their order, and that is the order of the imports.
        same = f" ({reaction.conflicts_with} is loaded first)" if reaction.conflicts_with else ""
        cause = f"{reaction.object} opens TORCH_LIBRARY({namespace}), which {second} has already opened{same}"
        block = f"TORCH_LIBRARY({namespace}) at {place_of(reaction.outcome.event)}"
        evidence = Evidence(subject=namespace, readable=block, object=reaction.object, instead=reaction.outcome.old)
        fix = (
            f"load only one of {name_both(reaction.conflicts_with, reaction.object)}"
            if reaction.conflicts_with
            else None
        )
        yield refusal_finding(RULE.name, linkage, reaction, cause, [evidence], fix)


RULE = rule("duplicate-library", __doc__, find_problems, [TorchData.OPERATORS])
