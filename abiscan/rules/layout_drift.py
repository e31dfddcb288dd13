"""A class of torch lies otherwise in memory than the extension was compiled for.

**What it finds.** The headers of torch put the layout of its classes into every extension: sizes, and where each member
is. This compares the layouts of the release that the extension was built for with those of this torch, for the classes
that the two share: constructed by one and used by the other, passed by value or one after the other, derived from, or
handled by inline functions of the headers that the extension has compiled in.

**Why it fails.** No symbol shows it, so everything resolves. Then one side writes beyond what the other has allocated,
or looks for a member where another one is. Where objects cross with every registration (`torch::CppFunction`,
`c10::FunctionSchema`, `torch::Library`), loading the extension is undefined behaviour: a crash, an exception about
an absurd size, at times nothing at all. Where a function takes or constructs a changed class, using it corrupts
memory. Where a member merely moved of a class that is passed by reference, harm depends on whether inlined code reads
it, which no name tells: that is a note. A class that only grew, and is only handed around by pointer, is no finding.

**Fix.** Install a build of the extension made for this torch. For one build that lasts, use torch's stable ABI
(`torch/csrc/stable`), which shares no class: of an extension that uses nothing else, a note says so, and which torch is
the first that has all that it calls.

**Limits.** The layouts are those of the released wheels. What a function returns does not stand in its name, and is not
seen. An extension that can have been built for several releases is judged by what holds for all of them; where they
differ, that is a gap.

**Example.** Extensions built for torch 2.8 die in torch 2.9: `sizeof(torch::CppFunction)` is 96 there and 104 here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from abiscan.binary.elf import SharedObject
from abiscan.binary.mangling import demangle, demangle_type
from abiscan.binary.ownership import is_torch_symbol
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.layout_drift import Certainty, LayoutDrift, TypeDrift
from abiscan.linkage.linkage import Linkage
from abiscan.rules.advice import other_build
from abiscan.torches.embedded import releases_exporting

_SHIM: Final = re.compile(r"aoti_torch_|torch_")


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for what crosses in the load, one for each class that does harm in use, one note for the rest.

    For an extension that no layout concerns, a note of that.
    """
    if _is_stable(linkage.facts):
        yield _exempt(linkage)
    for drift in linkage.drifts:
        if drift.at_load:
            names = " and ".join(_sizes(each) for each in drift.at_load)
            cause = f"registers with objects of another layout: {names}"
            yield _finding(linkage, drift, drift.at_load, Effect.ABORTS, f"{cause}; loading it is undefined behaviour")
        for each in drift.types:
            if each.certainty is Certainty.ON_USE:
                cause = f"shares {_sizes(each)} with torch: using it corrupts memory"
                yield _finding(linkage, drift, (each,), Effect.CORRUPTS, cause)
        rest = tuple(each for each in drift.types if each.certainty is Certainty.POSSIBLE)
        if rest:
            names = ", ".join(each.change.name for each in rest)
            cause = f"may read members of {names} where they are no longer"
            yield _finding(linkage, drift, rest, Effect.NOTE, cause)


def _is_stable(facts: SharedObject) -> bool:
    """Whether C functions are all that an extension uses of torch, and the stable ABI among them."""
    if any(name.startswith("_Z") and is_torch_symbol(name) for name in facts.imports):
        return False
    return any(map(_SHIM.match, facts.imports))


def _exempt(linkage: Linkage) -> Finding:
    shim = sorted(name for name in linkage.facts.imports if _SHIM.match(name))
    having = [found for name in shim if (found := releases_exporting(name, linkage.facts.machine))]
    first = max(map(min, having), default=None)
    registrations = linkage.registering.own if linkage.registering else None
    declared = max((kernel.abi_version or 0 for kernel in registrations.kernels), default=0) if registrations else 0
    text = f"{linkage.name} uses only the stable ABI of torch, so that no class layout concerns it"
    if declared:
        text += f"; it was built with TORCH_TARGET_VERSION {declared >> 56}.{declared >> 48 & 0xFF}"
    if first:
        text += f"; torch {first} is the first to have all that it calls"
    return Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=text,
        evidence=tuple(Evidence(subject=name, object=linkage.name) for name in shim),
        fix="nothing is to be done",
    )


def _sizes(drift: TypeDrift) -> str:
    change = drift.change
    if not change.resized:
        return f"{change.name} ({change.new.size} bytes, members moved)"
    return f"{change.name} ({change.old.size} bytes, now {change.new.size})"


def _finding(linkage: Linkage, drift: LayoutDrift, types: tuple[TypeDrift, ...], effect: Effect, cause: str) -> Finding:
    return Finding(
        rule=RULE.name,
        effect=effect,
        message=f"{drift.name}, built for torch {drift.built_for}, {cause} on {linkage.release}",
        evidence=tuple(evidence for each in types for evidence in _evidence(drift, each)),
        fix=other_build(linkage),
    )


def _evidence(drift: LayoutDrift, each: TypeDrift) -> Iterator[Evidence]:
    for difference in each.change.differences:
        yield Evidence(subject=f"{each.change.name}: {difference}")
    for touch in each.touches:
        name = demangle(touch.symbol) if touch.symbol.startswith("_Z") else demangle_type(touch.symbol)
        yield Evidence(subject=touch.symbol, readable=f"{touch.how.value}: {name}", object=drift.name)


RULE = rule("layout-drift", __doc__, check)
