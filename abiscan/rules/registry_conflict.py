"""The extension adds an entry to one of torch's other registries, which already has one.

**What it finds.** A key that is already in a `c10::Registry` (`C10_REGISTER_CLASS`, `C10_REGISTER_CREATOR`, flags);
second hooks, a second generator or a second storage factory for `PrivateUse1`; a second name for that backend; an
allocator setting that is taken; and device guards, allocators and profilers that replace existing ones.

**Why it fails.** Torch rejects the second entry. A `c10::Registry` prints a line and ends the process with `exit(1)`,
which no `except` catches; the others throw. Guards, allocators and profilers silently replace the existing entry, and
so does an entry of higher priority in a `c10::Registry`: the earlier entry is no longer used.

**Fix.** Load only one of the two. In the source: use a key of your own.

**Limits.** If torch's own entries are unknown, that is reported as a gap, and only entries of extensions are compared.
Entries made in Python code, such as a name for the backend, are not seen.

**Example.** `Key already registered with the same priority: C10`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.dispatch.registries import entry_key
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.registering import Reaction
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.registrations import Registry
from abiscan.rules.registration import list_refusals, name_both, other_side, refusal_finding

_CHECKS: Final = ("C4", "C5", "E1", "E2", "E3", "E4", "E5")
_WHAT: Final = {
    "privateuse1-hooks": "hooks for {}",
    "privateuse1-generator": "a generator for {}",
    "privateuse1-profiler": "a profiler for {}",
    "privateuse1-activity-profiler": "an activity profiler for {}",
    "storage": "a storage factory for {}",
    "device-guard": "a device guard for {}",
    "allocator": "an allocator for {}",
    "AcceleratorAllocatorConfig": "the allocator setting {}",
}


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for what is rejected, and for each entry that replaces another or is ignored."""
    load = linkage.load
    for reaction in list_refusals(load, _CHECKS):
        fix = (
            f"do not load {name_both(reaction.object, reaction.conflicts_with)} into one process"
            if reaction.conflicts_with
            else None
        )
        yield refusal_finding(
            RULE.name, linkage, reaction, _format_cause(load, reaction), [_make_evidence(reaction)], fix
        )
    for reaction in load.registering.reactions if load.registering else ():
        kind, message = reaction.outcome.kind, reaction.outcome.message
        # c10/util/Registry.h: a higher priority replaces silently, a lower one is dropped silently, an equal one exits.
        if isinstance(reaction.outcome.event, Registry) and kind in (OutcomeKind.OVERRIDES, OutcomeKind.SKIPS):
            entry, second = _name_entry(reaction.outcome.event), other_side(load, reaction)
            overrides = kind is OutcomeKind.OVERRIDES
            existing = "its own" if second == f"{reaction.object} itself" else f"that of {second}"
            effect = f"replacing {existing}" if overrides else f"but {existing} has priority"
            yield Finding(
                rule=RULE.name,
                effect=Effect.OVERRIDES if overrides else Effect.NOTE,
                message=f"{reaction.object} registers {entry}, {effect}",
                evidence=(_make_evidence(reaction),),
                fix="no action needed if this is intended; otherwise do not load both into one process",
                says=message.text if message else None,
            )


def _format_cause(load: ExtensionLoad, reaction: Reaction) -> str:
    event, second, subject = reaction.outcome.event, other_side(load, reaction), reaction.outcome.subject
    assert isinstance(event, Registry)
    # A name has no key, so the sentence has to be another one.
    if event.names_backend:
        return (
            f"{reaction.object} renames PrivateUse1 to {subject}, but {second} has renamed it to {reaction.outcome.old}"
        )
    assert reaction.outcome.message is not None
    if reaction.outcome.message.id == "E4":
        return f"{reaction.object} registers {_name_entry(event)}, which only PrivateUse1 allows"
    return f"{reaction.object} registers {_name_entry(event)}, which {second} has already registered"


def _name_entry(entry: Registry) -> str:
    key = entry_key(entry.what, entry.key)
    return _WHAT.get(entry.what, f"{{}} in {entry.what}").format(key or "PrivateUse1")


def _make_evidence(reaction: Reaction) -> Evidence:
    event = reaction.outcome.event
    readable = _name_entry(event) if isinstance(event, Registry) and not event.names_backend else None
    return Evidence(
        subject=reaction.outcome.subject, readable=readable, object=reaction.object, instead=reaction.outcome.old
    )


RULE = rule("registry-conflict", __doc__, find_problems, [TorchData.ENTRIES])
