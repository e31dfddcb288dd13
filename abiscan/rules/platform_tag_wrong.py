"""The manylinux tag of the wheel promises systems that lack what the extension needs.

**What it finds.** Symbol versions (`GLIBC_2.32`, `GLIBCXX_3.4.29`) that an extension needs from libraries of the
system, compared with those that every system with the wheel's manylinux tag has (`manylinux_2_28`: glibc 2.28).

**Why it fails.** pip installs the wheel on every system that its tag admits. On the older ones of them `ld.so` says
``version `GLIBC_2.32' not found``.

**Fix.** Build the wheel in the container of its tag, or let auditwheel choose the tag.

**Limits.** Of several manylinux tags, the oldest counts. Libraries that the wheel brings along are not looked into, and
neither is the list of libraries that the tag admits: auditwheel checks both.

**Example.** `_C.so needs GLIBC_2.32, but its wheel is tagged for glibc 2.28`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.inputs.wheel_tag import has_rules_for, lowest_manylinux, manylinux_version
from abiscan.linkage.linkage import Linkage
from abiscan.words import listed


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for all symbol versions that systems with this tag may lack."""
    load = linkage.load
    tagged = manylinux_version(linkage.promises.wheel)
    if tagged is None:
        return
    machine = load.facts.machine.value
    beyond = {}
    for needed in load.facts.version_needs:
        # What the wheel brings along is there on every system; of other libraries, the tags say nothing.
        if needed.file in load.siblings or not has_rules_for(needed.name):
            continue
        lowest = lowest_manylinux(needed.name, machine)
        if lowest is None or lowest > tagged:
            beyond[needed] = lowest
    if not beyond:
        return
    # A version that no tag has leaves no tag to suggest.
    lowest = None if None in beyond.values() else max(filter(None, beyond.values()))
    tag = f"tag the wheel manylinux_{'_'.join(map(str, lowest))}_{machine}, or " if lowest else ""
    names = listed(dict.fromkeys(needed.name for needed in beyond))
    yield Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"{load.name} needs {names}, but its wheel is tagged for glibc {'.'.join(map(str, tagged))}",
        evidence=tuple(
            Evidence(subject=needed.name, readable=f"{needed.name} of {needed.file}", object=load.name)
            for needed in beyond
        ),
        fix=f"{tag}build it in the container of its tag",
    )


RULE = rule("platform-tag-wrong", __doc__, find_problems)
