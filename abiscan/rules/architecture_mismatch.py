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


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Compare the machines that the extension and the torch are built for."""
    load = linkage.load
    extension_machine, torch_machine = load.facts.machine.value, load.release.machine.value
    # ``ld.so`` passes over such a file as it searches (elf/dl-load.c, open_verify).
    if extension_machine != torch_machine:
        yield Finding(
            rule=RULE.name,
            effect=Effect.LOAD_FAILS,
            message=f"{load.name} is built for {extension_machine}, but this torch is for {torch_machine}",
            evidence=(Evidence(subject=load.name, readable=extension_machine, instead=torch_machine),),
            fix=f"install the {torch_machine} build: a wheel whose name ends in {torch_machine}.whl",
        )


RULE = rule("architecture-mismatch", __doc__, find_problems)
