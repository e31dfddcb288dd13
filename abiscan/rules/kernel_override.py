"""The extension replaces kernels that are registered already.

**What it finds.** A kernel for an operator and a dispatch key that have one: torch's, that of a library loaded before,
or the extension's own.

**Why it matters.** The last kernel wins, for everybody in the process. torch warns: up to 2.0 each time, from 2.1 on
once in the life of the process, for `Meta` never. Backends do so on purpose; otherwise it is an accident.

**Fix.** None is needed where it is intended. Else keep the two out of one process, or take another dispatch key.

**Limits.** Kernels that Python code registers are not seen. Whether the process has used up its one warning before is
not known, unless torch itself does.

**Example.** `Overriding a previously registered kernel for the same operator and the same dispatch key`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.events import Enter, FallBack
from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.registering import Reaction
from abiscan.rules.registration import key_of, other_side


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding per object, and owner of what it replaces."""
    by_owner: dict[tuple[str, str], list[Reaction]] = {}
    for reaction in linkage.registering.reactions if linkage.registering else ():
        replaces = reaction.outcome.kind is OutcomeKind.OVERRIDES
        if replaces and not isinstance(reaction.outcome.event, FallBack | Enter):
            by_owner.setdefault((reaction.object, other_side(linkage, reaction)), []).append(reaction)
    for (mine, owner), reactions in by_owner.items():
        warnings = [each.outcome.message.text for each in reactions if each.outcome.message is not None]
        count = "a kernel" if len(reactions) == 1 else f"{len(reactions)} kernels"
        said = "and torch warns of it" if warnings else "without a word"
        yield Finding(
            rule=RULE.name,
            effect=Effect.OVERRIDES,
            message=f"{mine} replaces {count} of {owner}, {said}: {reactions[0].outcome.subject}"
            + (", …" if len(reactions) > 1 else ""),
            evidence=tuple(map(_evidence, reactions)),
            fix="none if this is intended; else do not load the two into one process",
            says="\n".join(warnings) or None,
        )


def _evidence(reaction: Reaction) -> Evidence:
    key = key_of(reaction.outcome.event)
    return Evidence(
        subject=reaction.outcome.subject,
        readable=reaction.outcome.subject + (f" for {key}" if key else ""),
        object=reaction.object,
        instead=reaction.outcome.old or None,
    )


RULE = rule("kernel-override", __doc__, check)
