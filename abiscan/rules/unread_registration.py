"""Some of the extension's registrations could not be read.

**What it finds.** Calls to torch's registration functions in the machine code that the emulation did not reach, and
initialisers that it could not run to the end.

**Why it matters.** Anything registered there was not checked. The verdict covers only the rest.

**Fix.** `abiscan ops` shows what was read. If the extension is public, report the problem and say which file it is.

**Limits.** Code that registers only under a condition (a device is present, an environment variable is set) is not
reached either, and does no harm where the condition does not hold.

**Example.** `registrations may be missing: 2 places in _C.so could not be read`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.registrations import LOOKUPS
from abiscan.words import plural


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for all of them."""
    registering = linkage.load.registering
    if registering is None:
        return
    # The libraries that come along register, too, and what is unread there is as unknown.
    objects = {linkage.load.name: registering.own, **registering.bundled}
    gaps = [
        (name, gap)
        for name, registrations in objects.items()
        for gap in registrations.gaps
        if gap.stage != LOOKUPS  # a lookup registers nothing
    ]
    if not gaps:
        return
    names = ", ".join(dict.fromkeys(name for name, _ in gaps))
    yield Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"registrations may be missing: {plural(len(gaps), 'place')} in {names} could not be read",
        evidence=tuple(
            Evidence(
                subject=gap.symbol or (f"{gap.address:#x}" if gap.address is not None else name),
                readable=gap.reason,
                object=name,
            )
            for name, gap in gaps
        ),
        fix="run abiscan ops to see what was read; the verdict covers only that",
        confidence=Confidence.POSSIBLE,
    )


RULE = rule("unread-registration", __doc__, find_problems)
