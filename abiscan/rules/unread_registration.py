"""Some of what the extension registers could not be read.

**What it finds.** Calls of torch's registration functions in the machine code that the emulation of the extension
never reached, and initialisers that it could not run to their end.

**Why it matters.** Whatever is registered there was held against nothing. The verdict is about the rest.

**Fix.** `abiscan ops` shows what was read. If the extension is open, report it with the file.

**Limits.** Code that registers only under some condition (a device that is there, an environment variable) is not
reached, either, and does no harm where the condition does not hold.

**Example.** `2 calls that register something were not reached`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.emulation.model import LOOKUPS
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for all of them."""
    registering = linkage.registering
    if registering is None:
        return
    objects = {linkage.name: registering.own, **registering.brought}
    gaps = [
        (name, gap)
        for name, registrations in objects.items()
        for gap in registrations.gaps
        if gap.stage != LOOKUPS  # what is only looked up is not registered
    ]
    if not gaps:
        return
    places = "a place" if len(gaps) == 1 else f"{len(gaps)} places"
    yield Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"registrations may be missed: {places} in {', '.join(dict.fromkeys(name for name, _ in gaps))}",
        evidence=tuple(
            Evidence(
                subject=gap.symbol or (f"{gap.address:#x}" if gap.address is not None else name),
                readable=gap.reason,
                object=name,
            )
            for name, gap in gaps
        ),
        fix="see with abiscan ops what was read; the verdict is about that alone",
    )


RULE = rule("unread-registration", __doc__, check)
