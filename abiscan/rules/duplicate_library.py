"""The extension opens a `TORCH_LIBRARY` for a namespace that has one.

**What it finds.** A second `TORCH_LIBRARY(ns, m)` in one process: torch has one for `ns`, another extension has, or
the same library is loaded from two paths.

**Why it fails.** A namespace is owned by one `TORCH_LIBRARY` block. The same *file* reached by two names is loaded
once and does no harm; a copy of it is another library.

**Fix.** Load only one of the two. In the source: `TORCH_LIBRARY_FRAGMENT` for a namespace that is shared, or a
namespace of its own.

**Limits.** Files of one wheel may be alternatives of which only one is ever loaded; they are held against each other
only if one needs the other. Namespaces that Python code opens are not seen.

**Example.** `Only a single TORCH_LIBRARY can be used to register the namespace torchvision; …`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.registration import other_side, place_of, refusal, refusals


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for the second block."""
    for reaction in refusals(linkage, ("N1",)):
        namespace, other = reaction.outcome.subject, other_side(linkage, reaction)
        same = f" ({reaction.met} is loaded before it)" if reaction.met else ""
        cause = f"{reaction.object} opens TORCH_LIBRARY({namespace}), which {other} has opened already{same}"
        block = f"TORCH_LIBRARY({namespace}) at {place_of(reaction.outcome.event)}"
        evidence = Evidence(subject=namespace, readable=block, object=reaction.object, instead=reaction.outcome.old)
        fix = f"load only one of them: {reaction.met} and {reaction.object}" if reaction.met else None
        yield refusal(RULE.name, linkage, reaction, cause, [evidence], fix)


RULE = rule("duplicate-library", __doc__, check)
