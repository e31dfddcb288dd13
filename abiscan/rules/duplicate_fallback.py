"""The extension registers a backend fallback for a dispatch key that already has one.

**What it finds.** `m.fallback(…)` in a `TORCH_LIBRARY_IMPL(_, Key, m)` block for a key that already has a fallback,
registered by torch or by a library loaded earlier. `Autograd` is an alias for several keys, all of which have a
fallback in torch.

**Why it fails.** A key can have only one fallback. In torch 1.6, and for `AutogradPrivateUse1` from torch 2.10 on, the
second one silently replaces the first; then the finding is a warning.

**Fix.** Install a build of the extension made for this torch. In the source: register kernels for the operators that
need one, or use a key without a fallback in torch, such as `PrivateUse1`.

**Limits.** Fallbacks registered in Python code are not seen.

**Example.** `Tried to register multiple backend fallbacks for the same dispatch key AutogradCPU; …`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.registering import Reaction
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.registrations import RegisteredFallback
from abiscan.rules.advice import other_build
from abiscan.rules.registration import list_refusals, other_side, place_of, refusal_finding


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding per key."""
    load = linkage.load
    # Dispatcher::registerFallback throws for most keys and releases; where it replaces, the second loop has a warning.
    for reaction in list_refusals(load, ("F1", "F2")):
        yield refusal_finding(RULE.name, linkage, reaction, _format_cause(load, reaction), [_make_evidence(reaction)])
    for reaction in load.registering.reactions if load.registering else ():
        if reaction.outcome.kind is OutcomeKind.OVERRIDES and isinstance(reaction.outcome.event, RegisteredFallback):
            yield Finding(
                rule=RULE.name,
                effect=Effect.OVERRIDES,
                message=f"{_format_cause(load, reaction)}; {load.release} silently replaces it",
                evidence=(_make_evidence(reaction),),
                fix=other_build(linkage),
            )


def _format_cause(load: ExtensionLoad, reaction: Reaction) -> str:
    second = other_side(load, reaction)
    return f"{reaction.object} registers a fallback for {reaction.outcome.subject}, for which {second} already has one"


def _make_evidence(reaction: Reaction) -> Evidence:
    place = place_of(reaction.outcome.event)
    return Evidence(
        subject=reaction.outcome.subject,
        readable=f"fallback for {reaction.outcome.subject}" + (f" at {place}" if place else ""),
        object=reaction.object,
        instead=reaction.outcome.old or None,
    )


RULE = rule("duplicate-fallback", __doc__, find_problems, [TorchData.OPERATORS])
