"""The dynamic loader refuses a file of the load, or ends the process at it, whatever else is there.

**What it finds.** What `ld.so` checks of each file that a load maps: its header and segments, its dynamic section, the
tables of symbols, versions and relocations; that it may be opened at run time (`-z nodlopen`), that the processor has
the level of x86-64 that it is marked for (`-z x86-64-v3`), that its thread-local variables fit into the static block,
and, from glibc 2.41 on, that it does not need an executable stack.

**Why it fails.** `ld.so` maps all files, compares versions and levels, and then relocates them, dependencies first. It
gives up at the first check that fails. Some checks are assertions, which end the process, and a table that is not where
the file says ends it with a signal.

**Fix.** That depends on the words; the finding has it. A file that is damaged, or was made for another system, has to
be installed or linked again.

**Limits.** The checks are those of glibc 2.36. How much of the static block other libraries have taken is known for a
torch on disk, and assumed to be nothing for a release number; the tunable `glibc.rtld.optional_static_tls` is assumed
to have its default value. The level of x86-64 is compared with `--cpu`, and for a torch on disk with this processor.

**Example.** `cannot allocate memory in static TLS block`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.binary.loadable import NOT_OPENABLE
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.resolve import EXECUTABLE_STACK, ISA_LEVEL, STATIC_TLS
from abiscan.rules.symptom import describe_symptom

_FIXES: Final = {
    STATIC_TLS: (
        "compile it without -ftls-model=initial-exec; otherwise load it before the program (LD_PRELOAD), or set "
        "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384 before Python starts"
    ),
    ISA_LEVEL: "run it on a processor of that level, or link it without -z x86-64-v2, -v3 or -v4",
    EXECUTABLE_STACK: "link it with -Wl,-z,noexecstack, or clear the flag: patchelf --clear-execstack",
    NOT_OPENABLE: "link it without -z nodlopen",
}


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for each check that fails."""
    load = linkage.load
    for error in load.resolution.refused if load.resolution else ():
        place = error.object or f"loading {load.name} ends the process"
        yield Finding(
            rule=RULE.name,
            effect=Effect.ABORTS if error.aborts else Effect.LOAD_FAILS,
            message=f"{place}: {error.message}",
            evidence=(Evidence(subject=error.object or load.name, object=error.object or load.name),),
            fix=_FIXES.get(error.message, "it is damaged, or built for another system: install or link it again"),
            symptom=describe_symptom(load),
        )


RULE = rule("refused-by-loader", __doc__, find_problems)
