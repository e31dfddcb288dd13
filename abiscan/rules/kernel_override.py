"""The extension replaces kernels that are already registered.

**What it finds.** A kernel for an operator and a dispatch key that already have one, from torch, from a library
loaded earlier, or from the extension itself.

**Why it matters.** The last kernel wins, for everything in the process. Torch warns about it: every time up to 2.0,
once per process from 2.1 on, and never for `Meta`. Backends do this on purpose; otherwise it is an accident.

**Fix.** No action is needed if it is intended. Otherwise, do not load both into one process, or use another dispatch
key.

**Limits.** Kernels registered in Python code are not seen. Whether the process has already used up its one warning is
not known, unless torch itself has used it.

**Example.** `Overriding a previously registered kernel for the same operator and the same dispatch key`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.registering import Reaction
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.registrations import RegisteredFallback, Registry
from abiscan.rules.registration import key_of, other_side
from abiscan.words import plural


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding per object and owner of the kernels that it replaces."""
    load = linkage.load
    by_owner: dict[tuple[str, str], list[Reaction]] = {}
    for reaction in load.registering.reactions if load.registering else ():
        overrides = reaction.outcome.kind is OutcomeKind.OVERRIDES
        # Fallbacks and other registries have rules of their own: torch treats them differently.
        if overrides and not isinstance(reaction.outcome.event, RegisteredFallback | Registry):
            by_owner.setdefault((reaction.object, other_side(load, reaction)), []).append(reaction)
    # A backend replaces hundreds of kernels at once; as one finding they can be accepted as one.
    for (object_name, owner), reactions in by_owner.items():
        warnings = [reaction.outcome.message.text for reaction in reactions if reaction.outcome.message is not None]
        count = plural(len(reactions), "kernel")
        replaces = f"replaces {count} of {owner} (torch warns)" if warnings else f"silently replaces {count} of {owner}"
        yield Finding(
            rule=RULE.name,
            effect=Effect.OVERRIDES,
            message=f"{object_name} {replaces}: {reactions[0].outcome.subject}" + (", …" if len(reactions) > 1 else ""),
            evidence=tuple(_make_evidence(load, reaction) for reaction in reactions),
            fix="no action needed if this is intended; otherwise do not load both into one process",
            says="\n".join(warnings) or None,
        )


def _make_evidence(load: ExtensionLoad, reaction: Reaction) -> Evidence:
    key = key_of(load, reaction.outcome.event)
    return Evidence(
        subject=reaction.outcome.subject,
        readable=reaction.outcome.subject + (f" for {key}" if key else ""),
        object=reaction.object,
        instead=reaction.outcome.old or None,
    )


RULE = rule("kernel-override", __doc__, find_problems, [TorchData.OPERATORS])
