"""The extension is built for another processor than torch.

**What it finds.** An extension for aarch64 beside a torch for x86_64, or the other way round.

**Why it fails.** `ld.so` passes over files for another machine as if they were not there. So what it says is
misleading: `_C.so: cannot open shared object file: No such file or directory`, though the file exists.

**Fix.** Install the wheel whose platform tag names the machine (`…_x86_64.whl`, `…_aarch64.whl`).

**Limits.** Instruction set levels inside one machine (AVX2, SVE) are not looked at.

**Example.** `architecture.so: made for aarch64, this torch for x86_64`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage


def check(linkage: Linkage) -> Iterator[Finding]:
    """Compare the machines of both sides."""
    mine, theirs = linkage.facts.machine.value, linkage.release.machine.value
    if mine != theirs:
        yield Finding(
            rule=RULE.name,
            effect=Effect.LOAD_FAILS,
            message=f"{linkage.name} is made for {mine}, this torch for {theirs}",
            evidence=(Evidence(subject=linkage.name, readable=mine, instead=theirs),),
            fix=f"install the build for {theirs}: a wheel whose name ends in {theirs}.whl",
        )


RULE = rule("architecture-mismatch", __doc__, check)
