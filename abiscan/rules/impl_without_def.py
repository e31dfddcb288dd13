"""The extension registers kernels for operators that nobody defines.

**What it finds.** `m.impl("name", …)` for an operator that neither this torch nor anything that is loaded with the
extension defines.

**Why it matters.** It loads, and torch says nothing. But the operator does not exist: the kernel is dead, and whoever
asks for the operator is told that there is none. That is how an operator that torch renamed or dropped shows itself.
For a namespace that is not torch's, the definition may stand in Python code or in another library of the package,
which is then a `note`.

**Fix.** Install a build of the extension made for this torch, or the torch that has the operator.

**Limits.** Operators that Python code defines are not seen.

**Example.** `_C.so has kernels for operators that torch 2.13.0 does not have: aten::refine_names`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.registering import Reaction
from abiscan.rules.advice import other_build
from abiscan.rules.registration import place_of

_SHOWN = 3


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for torch's namespaces, one for those of others."""
    registering = linkage.registering
    if registering is None or registering.operators is None:
        return
    dead = [each for each in registering.reactions if each.outcome.kind is OutcomeKind.DEAD]
    dead = [each for each in dead if each.outcome.subject not in registering.operators.operators]
    own = {name.partition("::")[0] for name in registering.operators.operators}
    of_torch = [each for each in dead if each.outcome.subject.partition("::")[0] in own]
    others = [each for each in dead if each not in of_torch]
    if of_torch:
        yield Finding(
            rule=RULE.name,
            effect=Effect.CALL_FAILS,
            message=(
                f"{linkage.name} has kernels for operators that {linkage.release} does not have: {_names(of_torch)}"
            ),
            evidence=tuple(map(_evidence, of_torch)),
            fix=other_build(linkage),
        )
    if others:
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=f"{linkage.name} has kernels for operators that nothing loaded with it defines: {_names(others)}",
            evidence=tuple(map(_evidence, others)),
            fix="nothing, if Python code or another library of the package defines them before they are called",
        )


def _names(reactions: list[Reaction]) -> str:
    names = list(dict.fromkeys(reaction.outcome.subject for reaction in reactions))
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _evidence(reaction: Reaction) -> Evidence:
    where = place_of(reaction.outcome.event)
    return Evidence(
        subject=reaction.outcome.subject,
        readable=reaction.outcome.subject + (f", registered at {where}" if where else ""),
        object=reaction.object,
    )


RULE = rule("impl-without-def", __doc__, check)
