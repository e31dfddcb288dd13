"""A program copies data of a library into itself, and there is more of it in this torch.

**What it finds.** Copy relocations (`R_X86_64_COPY`) of a program whose data, a variable or a virtual table, are larger
in the library than they were when the program was linked.

**Why it fails.** The linker gave the copy the size that the data had then. `ld.so` copies as much as fits, and
only warns. The library uses the copy as well, beyond its end, where other variables of the program are.

**Fix.** Link the program again with this torch, or compile it with `-fPIE -mno-direct-extern-access`, which copies
nothing.

**Limits.** The sizes are known for a torch on disk, and not for a release number.

**Example.** ``Symbol `x' has different size in shared object, consider re-linking``.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.mangling import demangle
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.words import plural


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for all copies that are too small."""
    load = linkage.load
    # sysdeps/x86_64/dl-machine.h, R_X86_64_COPY: the message is a warning, and as much is copied as both have.
    copies = load.resolution.resized if load.resolution and load.error is None else ()
    if not copies:
        return
    yield Finding(
        rule=RULE.name,
        effect=Effect.CORRUPTS,
        message=(
            f"{load.name} copies {plural(len(copies), 'variable')} that grew since it was linked: "
            f"Symbol `{copies[0].name}' has different size in shared object, consider re-linking"
        ),
        evidence=tuple(
            Evidence(
                subject=copy.name,
                readable=demangle(copy.name),
                object=copy.provider.name,
                instead=f"{copy.provided} bytes, not {copy.size}",
            )
            for copy in copies
        ),
        fix="link the program again with this torch",
    )


RULE = rule("copied-data-grown", __doc__, find_problems)
