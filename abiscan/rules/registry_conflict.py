"""The extension enters something in one of torch's other registries, where an entry is there already.

**What it finds.** The same key once more in a `c10::Registry` (`C10_REGISTER_CLASS`, `C10_REGISTER_CREATOR`, flags);
second hooks, a second generator or a second function that makes storages for `PrivateUse1`; a second name for that
backend; a key of allocator settings that is taken; and device guards, allocators and profilers that replace another's.

**Why it fails.** torch refuses the second one. A `c10::Registry` prints a line and ends the process with `exit(1)`,
which no `except` sees; the others throw. Guards, allocators and profilers replace what is there without a word, and so
does an entry of a higher priority in a `c10::Registry`: what the other one gave to torch is out of use.

**Fix.** Load only one of the two. In the source: enter it under a key of your own.

**Limits.** What torch itself has entered is not known for all embedded releases; where it is not, that is reported as
a gap, and only what extensions enter is compared. What Python code enters, such as a name for the backend, is not seen.

**Example.** `Key already registered with the same priority: C10`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.dispatch.events import Enter, NameBackend
from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.registering import Reaction
from abiscan.rules.registration import other_side, refusal, refusals

_CHECKS: Final = ("C4", "C5", "E1", "E2", "E3", "E4", "E5")
_WHAT: Final = {
    "privateuse1-hooks": "hooks for {}",
    "privateuse1-generator": "a generator for {}",
    "privateuse1-profiler": "a profiler for {}",
    "storage": "how to make storages for {}",
    "device-guard": "a device guard for {}",
    "allocator": "an allocator for {}",
    "AcceleratorAllocatorConfig": "the allocator setting {}",
}


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for what is refused, and for each entry that comes to replace another or to nothing."""
    for reaction in refusals(linkage, _CHECKS):
        fix = f"do not load {reaction.object} and {reaction.met} into one process" if reaction.met else None
        yield refusal(RULE.name, linkage, reaction, _cause(linkage, reaction), [_evidence(reaction)], fix)
    for reaction in linkage.registering.reactions if linkage.registering else ():
        kind, said = reaction.outcome.kind, reaction.outcome.message
        if isinstance(reaction.outcome.event, Enter) and kind in (OutcomeKind.OVERRIDES, OutcomeKind.SKIPS):
            what, other = _what(reaction.outcome.event), other_side(linkage, reaction)
            does = f"in place of that of {other}" if kind is OutcomeKind.OVERRIDES else f"but that of {other} stays"
            yield Finding(
                rule=RULE.name,
                effect=Effect.OVERRIDES if kind is OutcomeKind.OVERRIDES else Effect.NOTE,
                message=f"{reaction.object} registers {what}, {does}",
                evidence=(_evidence(reaction),),
                fix="none if this is intended; else do not load the two into one process",
                says=said.text if said else None,
            )


def _cause(linkage: Linkage, reaction: Reaction) -> str:
    event, other, subject = reaction.outcome.event, other_side(linkage, reaction), reaction.outcome.subject
    if isinstance(event, NameBackend):
        return (
            f"{reaction.object} names the backend PrivateUse1 {subject}, which {other} has named {reaction.outcome.old}"
        )
    assert isinstance(event, Enter)
    assert reaction.outcome.message is not None
    if reaction.outcome.message.id == "E4":
        return f"{reaction.object} registers {_what(event)}, which only PrivateUse1 may have"
    return f"{reaction.object} registers {_what(event)}, which {other} has registered already"


def _what(event: Enter) -> str:
    return _WHAT.get(event.registry, f"{{}} in {event.registry}").format(event.key or "PrivateUse1")


def _evidence(reaction: Reaction) -> Evidence:
    event = reaction.outcome.event
    readable = None if isinstance(event, NameBackend) or not isinstance(event, Enter) else _what(event)
    return Evidence(
        subject=reaction.outcome.subject, readable=readable, object=reaction.object, instead=reaction.outcome.old
    )


RULE = rule("registry-conflict", __doc__, check)
