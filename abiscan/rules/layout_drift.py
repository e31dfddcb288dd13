"""The memory layout of a torch class differs from the one the extension was compiled against.

**What it finds.** The layout of torch's classes, their sizes and member offsets, is compiled into every extension
from torch's headers. This rule compares the layouts of the release that the extension was built for with those of
this torch, for the classes that both use: constructed by one side and used by the other, passed by value or in an
array, derived from, or accessed by inline functions that were compiled into the extension.

**Why it fails.** Symbols do not show it, so everything resolves. Then one side writes past the end of what the other
allocated, or reads a member at the wrong offset. If objects of the class are passed with every registration
(`torch::CppFunction`, `c10::FunctionSchema`, `torch::Library`), loading the extension is undefined behaviour: a
crash, an exception about an absurd size, sometimes nothing at all. The same holds for the numbers of `c10::TypeKind`,
for the map of custom classes, and where one side passes a `c10::optional` in registers and the other in memory.
If a function takes or constructs a changed class,
using it corrupts memory. If a class is passed by reference and a member merely moved, the harm depends on whether
inlined code reads that member, which no symbol name tells: that is a note. A class that only grew, and is only passed
by pointer, is not reported.

**Fix.** Install a build of the extension made for this torch. For one build that works with later releases, use
torch's stable ABI (`torch/csrc/stable`), which shares no classes.

**Limits.** Layouts are those of the released wheels. A torch that is not among them has the layout of a release for
each class that its headers declare as that release does. The others are laid out from its headers by clang, the one of
`pip install 'abiscan[layouts]'` or of this machine (18 or newer), with this machine's C++ headers. A note says so;
without clang, these classes are a gap. Return types
are not part of a function's mangled name, so they are not seen. If the extension may have been built for several
releases, only what holds for all of them counts; where they differ, that is a gap.

**Example.** Extensions built for torch 2.8 crash on torch 2.9: `sizeof(torch::CppFunction)` is 96 in 2.8 and 104 in
2.9.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from abiscan.binary.mangling import demangle, demangle_type
from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.layout_drift import Certainty, LayoutDrift, TypeDrift
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.advice import other_build
from abiscan.words import listed, plural


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for classes passed while loading, one for each that is harmful in use, a note for the rest."""
    load = linkage.load
    for drift in load.drifts:
        # Together: registration passes several of these classes at once, and nobody can load it without the others.
        if drift.at_load:
            classes = " and ".join(map(_format_sizes, drift.at_load))
            cause = f"registers through {classes}, laid out differently in"
            harm = "; loading it is undefined behaviour"
            yield _make_finding(linkage, drift, drift.at_load, Effect.ABORTS, cause, harm)
        for type_drift in drift.types:
            # One for each class, since which of them is harmful depends on what is called.
            if type_drift.certainty is Certainty.ON_USE:
                cause = f"shares {_format_sizes(type_drift)}, laid out differently in"
                yield _make_finding(linkage, drift, (type_drift,), Effect.CORRUPTS, cause, "; using it corrupts memory")
        # The notes say on what the answer rests: it is about a torch whose layouts were not measured but inferred.
        if drift.compared:
            yield _compared_note(load, drift)
        if drift.compiled:
            yield _laid_out(load, drift)
        possible = tuple(type_drift for type_drift in drift.types if type_drift.certainty is Certainty.POSSIBLE)
        if possible:
            names = ", ".join(type_drift.change.name for type_drift in possible)
            cause = f"may read members of {names} that have moved in"
            finding = _make_finding(linkage, drift, possible, Effect.NOTE, cause)
            yield replace(finding, confidence=Confidence.POSSIBLE)


def _compared_note(load: ExtensionLoad, drift: LayoutDrift) -> Finding:
    releases = listed(dict.fromkeys(release for _, release in drift.compared))
    return Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"{load.release} is not embedded, but has the class layouts of torch {releases}: {drift.basis}",
        evidence=tuple(
            Evidence(subject=name, readable=f"{name}, as in torch {release}", object=drift.name)
            for name, release in drift.compared
        ),
        fix="no action needed",
    )


def _laid_out(load: ExtensionLoad, drift: LayoutDrift) -> Finding:
    classes = plural(len(drift.compiled), "class", "classes")
    return Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"{load.release} is not embedded: clang laid out {classes} from its headers",
        evidence=tuple(Evidence(subject=name, readable=name, object=drift.name) for name in drift.compiled),
        fix="no action needed",
    )


def _format_sizes(drift: TypeDrift) -> str:
    change = drift.change
    # Equal sizes with moved members would read as "no change".
    if not change.resized:
        members = all(field.name.isidentifier() for field in change.new.fields)
        return (
            f"{change.name} ({change.new.size} bytes, members moved)"
            if members
            else f"{change.name} ({change.differences[0]})"
        )
    return f"{change.name} ({change.old.size} → {change.new.size} bytes)"


def _make_finding(
    linkage: Linkage, drift: LayoutDrift, types: tuple[TypeDrift, ...], effect: Effect, cause: str, harm: str = ""
) -> Finding:
    return Finding(
        rule=RULE.name,
        effect=effect,
        message=f"{drift.name}, built for torch {drift.built_for}, {cause} {linkage.load.release}{harm}",
        evidence=tuple(evidence for type_drift in types for evidence in _drift_evidence(drift, type_drift)),
        fix=other_build(linkage),
    )


def _drift_evidence(drift: LayoutDrift, type_drift: TypeDrift) -> Iterator[Evidence]:
    for difference in type_drift.change.differences:
        yield Evidence(subject=f"{type_drift.change.name}: {difference}")
    for touch in type_drift.touches:
        name = demangle(touch.symbol) if touch.symbol.startswith("_Z") else demangle_type(touch.symbol)
        yield Evidence(subject=touch.symbol, readable=f"{touch.use.value}: {name}", object=drift.name)


RULE = rule("layout-drift", __doc__, find_problems, [TorchData.LAYOUTS])
