"""The extension is built for a different processor architecture than torch.

**What it finds.** An aarch64 extension with an x86_64 torch, or the reverse.

**Why it fails.** `ld.so` skips files for another architecture as if they did not exist. Its error is misleading:
`_C.so: cannot open shared object file: No such file or directory`, although the file exists.

**Fix.** Install the wheel whose platform tag matches the machine (`…_x86_64.whl`, `…_aarch64.whl`).

**Limits.** Instruction set extensions within one architecture (AVX2, SVE) are not checked.

**Example.** `architecture.so is built for aarch64, but this torch is for x86_64`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage


def check(linkage: Linkage) -> Iterator[Finding]:
    """Compare the architectures of the two."""
    mine, theirs = linkage.facts.machine.value, linkage.release.machine.value
    if mine != theirs:
        yield Finding(
            rule=RULE.name,
            effect=Effect.LOAD_FAILS,
            message=f"{linkage.name} is built for {mine}, but this torch is for {theirs}",
            evidence=(Evidence(subject=linkage.name, readable=mine, instead=theirs),),
            fix=f"install the {theirs} build: a wheel whose name ends in {theirs}.whl",
        )


RULE = rule("architecture-mismatch", __doc__, check)
