"""Loading the extension, or calling its operators, uses instructions that the processor lacks.

**What it finds.** With `--cpu`, and on a torch that is installed: code that runs while the extension is loaded, or a
library that it brings along, and that uses a feature of the processor (AVX2, AVX-512, LSE, …) which the processor does
not have, without checking the CPU. With `--cpu`, also the operators whose kernels can reach such code unchecked.

A processor that is too old for torch itself is a `note`: the extension is not to blame for that.

**Why it fails.** A processor stops at an instruction that it does not know: Linux sends SIGILL, and the process ends,
with no text and no line. Whoever loads it sees nothing but the words of the shell.

**Fix.** Build without `-march=native`, or with the options for newer processors on those files only whose functions are
called after a question (`__builtin_cpu_supports`); or install a build for older processors.

**Limits.** What an operator can reach is told from its machine code; whether a call gets there depends on its
arguments. Where a function asks for anything, all that comes behind counts as guarded. At load, too, code that asks for
one feature and uses another is right on each real processor that has both. `lzcnt` and `tzcnt` do not count: older
processors execute them as other instructions.

**Example.** `Illegal instruction (core dumped)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from abiscan.cpu.needs import CpuUse, summary
from abiscan.cpu.processors import Cpu
from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.illegal_instruction import MESSAGE
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.words import listed, plural

_SHOWN: Final = 4


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for each processor and file, and one for the operators on each processor that loads it."""
    load, hardware = linkage.load, linkage.hardware
    for end in hardware.illegal:
        features = [use.feature for use in end.uses]
        when = "when its Python module is imported" if end.in_module else "while loading"
        file = end.object if end.object == load.name else f"{end.object}, which {load.name} needs,"
        needed, names = summary(end.cpu.machine, tuple(features)), listed(features)
        yield Finding(
            rule=RULE.name,
            effect=Effect.ABORTS,
            message=f"{file} executes {names} {when} without checking the CPU; {end.cpu.name} has no {names}",
            evidence=tuple(Evidence(subject=use.feature, readable=str(use), object=end.object) for use in end.uses),
            fix=f"run it on a processor with {needed}, or install a build for older processors",
            says=MESSAGE,
        )
    # A note says which processors torch itself does not run on: otherwise the findings below would suggest that another
    # build of the extension helps.
    for cpu in hardware.cpus if hardware.cpu is not None else ():
        if cpu.machine is load.facts.machine and (lacking := cpu.lacks(hardware.torch_cpu)):
            yield _torch_too(load, cpu, lacking)
    # Operators of an extension that ends the process as it is loaded are never called.
    ended = {end.cpu for end in hardware.illegal}
    for cpu in hardware.cpus:
        if hardware.cpu is not None and cpu not in ended and (failing := hardware.cpu.failing_operators(cpu)):
            yield _operators_finding(load.name, cpu, failing)


def _torch_too(load: ExtensionLoad, cpu: Cpu, lacking: tuple[str, ...]) -> Finding:
    names = listed(lacking)
    return Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"{load.release} itself executes {names} when it is imported; {cpu.name} has no {names}",
        evidence=tuple(Evidence(subject=feature, object=str(load.release)) for feature in lacking),
        fix="use a release of torch that runs on that processor, or another processor",
        says=MESSAGE,
    )


def _operators_finding(name: str, cpu: Cpu, failing: Mapping[str, Sequence[CpuUse]]) -> Finding:
    features = sorted({use.feature for uses in failing.values() for use in uses})
    needed = summary(cpu.machine, tuple(features))
    return Finding(
        rule=RULE.name,
        effect=Effect.CALL_FAILS,
        message=(
            f"{name} on {cpu.name}, which lacks {listed(features)}: "
            f"{plural(len(failing), 'operator')}: {listed(failing, _SHOWN)}"
        ),
        evidence=tuple(
            Evidence(
                subject=operator,
                readable=(
                    f"{operator}: executes {listed([use.feature for use in uses])} without checking the CPU: "
                    f"{uses[0].place}"
                ),
                object=uses[0].library or name,
            )
            for operator, uses in failing.items()
        ),
        fix=f"run it on a processor with {needed}, or install a build for older processors",
        says=MESSAGE,
        confidence=Confidence.POSSIBLE,  # a call may take another way
    )


RULE = rule("cpu-too-old", __doc__, find_problems)
