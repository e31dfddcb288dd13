"""The manylinux tag of the wheel promises systems that lack what the extension needs.

**What it finds.** Symbol versions (`GLIBC_2.32`, `GLIBCXX_3.4.29`) that an extension needs from libraries of the
system, compared with those that every system with the wheel's manylinux tag has (`manylinux_2_28`: glibc 2.28).

**Why it fails.** pip installs the wheel on every system that its tag allows. On the older ones of them `ld.so` says
``version `GLIBC_2.32' not found``.

**Fix.** Build the wheel in the container of its tag, or let auditwheel choose the tag.

**Limits.** Of several manylinux tags, the oldest counts. Libraries that do not use torch are looked into where the
Python code of the wheel may load them. The list of libraries that the tag allows is not: auditwheel checks it.

**Example.** `_C.so needs GLIBC_2.32, but its wheel is tagged for glibc 2.28`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from abiscan.binary.elf import SharedObject
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.inputs.wheel_tag import has_rules_for, lowest_manylinux, manylinux_version
from abiscan.linkage.linkage import Linkage
from abiscan.words import listed


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for all symbol versions that systems with this tag may lack."""
    load = linkage.load
    yield from compare_with_tag({load.name: load.facts}, linkage.promises.wheel, load.siblings)


def compare_with_tag(libraries: Mapping[str, SharedObject], wheel: str, siblings: Collection[str]) -> Iterator[Finding]:
    """Yield one finding for all symbol versions that some libraries need, and that systems with the tag may lack.

    :param wheel: its file name
    :param siblings: the libraries that it brings along
    """
    tagged = manylinux_version(wheel)
    if tagged is None:
        return
    beyond = {}
    for name, facts in libraries.items():
        for needed in facts.version_needs:
            # Libraries that the wheel brings along exist on every system; the tags say nothing about others.
            if needed.file in siblings or not has_rules_for(needed.name):
                continue
            lowest = lowest_manylinux(needed.name, facts.machine.value)
            if lowest is None or lowest > tagged:
                beyond[name, needed] = lowest
    if not beyond:
        return
    # A version that no tag has leaves no tag to suggest.
    lowest = None if None in beyond.values() else max(filter(None, beyond.values()))
    machine = next(iter(libraries.values())).machine.value
    tag = f"tag the wheel manylinux_{'_'.join(map(str, lowest))}_{machine}, or " if lowest else ""
    names = dict.fromkeys(name for name, _ in beyond)
    versions = listed(dict.fromkeys(needed.name for _, needed in beyond))
    subject = f"{listed(names, 2)} {'needs' if len(names) == 1 else 'need'} {versions}"
    yield Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"{subject}, but {'its' if len(names) == 1 else 'their'} wheel is tagged for glibc "
        f"{'.'.join(map(str, tagged))}",
        evidence=tuple(
            Evidence(subject=needed.name, readable=f"{needed.name} of {needed.file}", object=name)
            for name, needed in beyond
        ),
        fix=f"{tag}build it in the container of its tag",
    )


RULE = rule("platform-tag-wrong", __doc__, find_problems)
