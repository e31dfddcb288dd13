"""Loading the extension uses instructions that the processor lacks.

**What it finds.** With `--cpu`, and on a torch that is installed: code that runs while the extension is loaded, or a
library that it brings along, and that uses a feature of the processor (AVX2, AVX-512, LSE, …) which the processor does
not have, without asking for it.

**Why it fails.** A processor stops at an instruction that it does not know: Linux sends SIGILL, and the process ends,
with no text and no line. Whoever loads it sees nothing but the words of the shell.

**Fix.** Build without `-march=native`, or with the options for newer processors on those files only whose functions are
called after a question (`__builtin_cpu_supports`); or install a build for older processors.

**Limits.** Only what runs at load counts: operators may need more when they are called. Code that asks for one feature
and uses another is right on each real processor that has both. `lzcnt` and `tzcnt` do not count: older processors
execute them as other instructions.

**Example.** `Illegal instruction (core dumped)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.cpu.needs import summary
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.illegal_instruction import MESSAGE
from abiscan.linkage.linkage import Linkage
from abiscan.words import listed


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for each processor and file."""
    for end in linkage.illegal:
        features = [use.feature for use in end.uses]
        when = "when its Python module is imported" if end.in_module else "while it is loaded"
        file = end.object if end.object == linkage.name else f"{end.object}, which {linkage.name} needs,"
        needed = summary(end.cpu.machine, tuple(features))
        yield Finding(
            rule=RULE.name,
            effect=Effect.ABORTS,
            message=f"{file} uses {listed(features)} {when}, without asking; {end.cpu.name} lacks that",
            evidence=tuple(Evidence(subject=use.feature, readable=str(use), object=end.object) for use in end.uses),
            fix=f"run it on a processor with {needed}, or install a build for older processors",
            says=MESSAGE,
        )


RULE = rule("cpu-too-old", __doc__, check)
