"""The variant properties of the wheel do not match what its libraries need.

**What it finds.** Properties in the `variant.json` of a wheel that are not true of an extension in it: processors
(`x86_64 :: level`, `aarch64 :: version`, single features) that lack what the load or an operator executes without
checking the CPU; GPUs (`nvidia :: sm_arch`) that the extension has no code for; drivers
(`nvidia :: cuda_version_lower_bound`) that do not run it; releases of torch (`abi_dependency :: torch`) on
which it fails. Properties that exclude systems needlessly are a `note`, and so is a file that does not follow the
format.

**Why it fails.** Installers choose the wheel of a variant by its properties. If they admit too much, the wheel is
installed on systems on which it ends with `Illegal instruction`, on which its kernels have no image, or next to a torch
with which it raises.

**Fix.** State the properties that `abiscan stamp --variant` prints, or build the wheel for what it states.

**Limits.** What a processor needs to call functions that are not operators is not known. A level or version counts as
needlessly high only if no code of the wheel uses what the next lower one lacks, which is known for x86-64. Which torch
an extension was built for is a range where its bytes leave several; properties of other namespaces are not looked at.

**Example.** `_C.so needs x86-64-v3 to load, but its wheel says x86_64 :: level :: v2`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Final

from abiscan.binary.elf import Machine
from abiscan.cpu.needs import CpuNeeds, summary
from abiscan.cpu.variants import properties_of_needs
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.gpu.compatibility import CodeFit
from abiscan.gpu.drivers import cuda_of_driver
from abiscan.gpu.model import CodeKind
from abiscan.gpu.outcome import GpuOutcome
from abiscan.gpu.variants import GpuPromise, StatedGpu, is_translated, lacking, lower_bound_of, runs_all
from abiscan.inputs.variants import VariantProperty
from abiscan.linkage.first_error import first_error
from abiscan.linkage.illegal_instruction import MESSAGE
from abiscan.linkage.layout_drift import predict_crash
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.model import LoadError
from abiscan.linkage.promises import Promise
from abiscan.words import listed, plural

_SHOWN: Final = 4


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for each kind of system that the properties are wrong about."""
    load, promise = linkage.load, linkage.promises.variant
    if promise is None:
        return
    if promise.variant.problems:
        yield _make_finding(
            Effect.NOTE,
            f"the variant metadata of the wheel do not follow the format: {promise.variant.problems[0]}",
            [Evidence(subject=promise.variant.label, readable=problem) for problem in promise.variant.problems],
            "write one entry for the label in the file name, as PEP 825 has it",
        )
    yield from _of_processors(linkage, promise)
    if promise.gpu is not None:
        yield from _of_gpus(load, promise.gpu)
        yield from _of_drivers(load, promise.gpu)
    yield from _of_torch(load, promise)


def _of_processors(linkage: Linkage, promise: Promise) -> Iterator[Finding]:
    load = linkage.load
    machine, needs, cpu = load.facts.machine, linkage.hardware.cpu, promise.cpu
    # A namespace of another machine, such as ``aarch64`` in a wheel for x86_64: no system can satisfy it.
    foreign = [
        stated
        for stated in promise.variant.properties
        if stated.namespace in {item.value for item in Machine if item is not machine}
    ]
    if foreign:
        yield _make_finding(
            Effect.NOTE,
            f"{load.name} is for {machine.value}, but its wheel says {listed(map(str, foreign), _SHOWN)}",
            _property_evidence(foreign),
            "remove them: no processor has both",
        )
    if needs is None or cpu is None:
        return
    uses = [use for of_file in needs.lacking(cpu).values() for use in of_file]
    if uses:
        needed = summary(machine, tuple(use.feature for use in uses))
        yield _make_finding(
            Effect.LOAD_FAILS,
            f"{load.name} needs {needed} to load, but its wheel says {cpu.name}",
            [
                Evidence(subject=use.feature, readable=str(use), object=name)
                for name, of_file in needs.lacking(cpu).items()
                for use in of_file
            ],
            _suggest_properties(machine, needs),
            says=MESSAGE,
        )
    # From the worst to the mildest, and only one: a level that is too low for the load is too low for operators, too.
    elif failing := needs.failing_operators(cpu):
        features = sorted({use.feature for of_operator in failing.values() for use in of_operator})
        operators = f"{plural(len(failing), 'operator')}: {listed(failing, _SHOWN)}"
        yield _make_finding(
            Effect.CALL_FAILS,
            f"its wheel says {cpu.name}, but {load.name} needs {summary(machine, tuple(features))} for {operators}",
            [
                Evidence(
                    subject=name,
                    readable=f"{name}: uses {listed([use.feature for use in of_operator])}: {of_operator[0].place}",
                    object=of_operator[0].library or load.name,
                )
                for name, of_operator in failing.items()
            ],
            _suggest_properties(machine, needs),
            says=MESSAGE,
        )
    # Needlessly high only if no code at all needs it: code that asks the processor first may use more, and is meant to.
    elif promise.code is not None and (higher := _needless_properties(machine, promise.code, promise)):
        yield _make_finding(
            Effect.NOTE,
            f"no code of the wheel needs {listed(map(str, higher), _SHOWN)}",
            _property_evidence(higher),
            f"state {listed(map(str, properties_of_needs(machine, promise.code)), _SHOWN)}",
        )


def _needless_properties(machine: Machine, code: frozenset[str], promise: Promise) -> list[VariantProperty]:
    """Return the properties about processors that no code needs: levels above the lowest that is enough."""
    needed = properties_of_needs(machine, code)
    level = needed[0]
    return [
        stated
        for stated in promise.variant.properties
        if stated[:2] == level[:2] and stated.value > level.value and level not in promise.variant.properties
    ]


def _suggest_properties(machine: Machine, needs: CpuNeeds) -> str:
    operators = (use.feature for reach in (needs.operators or {}).values() for use in reach.uses)
    true = listed(map(str, properties_of_needs(machine, frozenset((*needs.features, *operators)))), _SHOWN)
    return f"state {true}, or build it for what is stated"


def _of_gpus(load: ExtensionLoad, promise: GpuPromise) -> Iterator[Finding]:
    failing = [(stated, outcome) for stated, outcome in promise.outcomes if not runs_all(outcome)]
    if failing:
        reasons = {_format_reason(outcome) for _, outcome in failing}
        yield _make_finding(
            Effect.CALL_FAILS,
            f"{load.name} has {listed(sorted(reasons))}: {listed([str(item.stated) for item, _ in failing], _SHOWN)}",
            [_of_outcome(load.name, stated, outcome) for stated, outcome in failing],
            "build the extension for these GPUs, or do not state them",
        )
    translated = [(stated, outcome) for stated, outcome in promise.outcomes if runs_all(outcome)]
    # ``sm_90_real`` promises machine code; PTX works there, but the first launch waits for the translation.
    translated = [(stated, outcome) for stated, outcome in translated if stated.is_real and is_translated(outcome)]
    if translated:
        names = listed([str(stated.stated) for stated, _ in translated], _SHOWN)
        yield _make_finding(
            Effect.NOTE,
            f"{load.name} has only PTX for {names}, which the driver translates",
            [_of_outcome(load.name, stated, outcome) for stated, outcome in translated],
            "state _virtual, or build it with machine code for these GPUs",
        )
    if promise.unstated:
        yield _make_finding(
            Effect.NOTE,
            f"{load.name} has code for {listed(promise.unstated, _SHOWN)}, whose GPUs no property allows",
            [Evidence(subject=target, object=load.name) for target in promise.unstated],
            "state nvidia :: sm_arch for them, too",
        )


def _format_reason(outcome: GpuOutcome) -> str:
    fits = {choice.fit for choice in lacking(outcome).values()} or {outcome.file.fit}
    if CodeFit.NONE in fits:
        return "no code for a GPU that its wheel names"
    return "code that the oldest driver named by its wheel cannot run"


def _of_outcome(name: str, stated: StatedGpu, outcome: GpuOutcome) -> Evidence:
    failing = lacking(outcome)
    operators = f"{plural(len(failing), 'operator')}: {listed(failing, _SHOWN)}"
    targets = sorted(
        {
            entry.target
            for container in outcome.every
            for entry in container.entries
            if entry.kind in (CodeKind.CUBIN, CodeKind.PTX)
        }
    )
    return Evidence(
        subject=str(stated.stated),
        readable=f"{stated.stated}: {operators}" if failing else None,
        object=name,
        instead=f"code for {', '.join(targets)}" if targets else "no code",
    )


def _of_drivers(load: ExtensionLoad, promise: GpuPromise) -> Iterator[Finding]:
    needed = cuda_of_driver(promise.driver) if promise.driver else None
    if needed is None:
        return
    # A lower bound is wrong if it admits an older driver than is needed, an upper one if it admits no newer.
    bounds = ((promise.lower, operator.lt), (promise.upper, operator.le))
    wrong = [bound.stated for bound, is_less in bounds if bound and is_less(bound.version, needed)]
    if wrong:
        version = f"{needed[0]}.{needed[1]}"
        yield _make_finding(
            Effect.CALL_FAILS,
            f"{load.name} needs a driver with CUDA {version}, but its wheel says {listed(map(str, wrong))}",
            [Evidence(subject=str(stated), object=load.name, instead=f"CUDA {version}") for stated in wrong],
            f"state {lower_bound_of(needed)}",
        )


def _of_torch(load: ExtensionLoad, promise: Promise) -> Iterator[Finding]:
    stated, release = promise.variant.torch, load.release
    if not stated:
        return
    version = release.torch_version
    error = _error_of_torch(load)
    if version is not None and promise.variant.admits_torch(version) and error is not None:
        yield _make_finding(
            Effect.LOAD_FAILS,
            f"{listed(map(str, stated), _SHOWN)} in the wheel allows {release}, on which {load.name} fails",
            [Evidence(subject=str(release), object=load.name, instead=error.message)],
            _suggest_releases(load),
        )
    elif load.built_for and not any(map(promise.variant.admits_torch, load.built_for)):
        built = f"torch {load.built_for[0]}"
        yield _make_finding(
            Effect.NOTE,
            f"{load.name} is built for {built}, but its wheel says {listed(map(str, stated), _SHOWN)}",
            [Evidence(subject=str(item), object=load.name, instead=f"built for {built}") for item in stated],
            _suggest_releases(load),
        )


def _error_of_torch(load: ExtensionLoad) -> LoadError | None:
    """Return the error that ends the load whatever the processor, the Python and the vendor's libraries are."""
    # A library that is missing here may be there elsewhere, and would hide the error that torch itself causes.
    if load.resolution is None or load.resolution.closure.missing:
        return None
    crash = predict_crash(load.drifts, load.release.version)
    return first_error(load.name, load.facts, load.resolution, None, load.registering, crash)


def _suggest_releases(load: ExtensionLoad) -> str:
    built = f", built for torch {load.built_for[0]}" if load.built_for else ""
    return f"state the releases that abiscan matrix shows to work{built}"


def _property_evidence(properties: Iterable[VariantProperty]) -> list[Evidence]:
    return [Evidence(subject=str(stated)) for stated in properties]


def _make_finding(
    effect: Effect, message: str, evidence: Iterable[Evidence], fix: str, says: str | None = None
) -> Finding:
    return Finding(rule=RULE.name, effect=effect, message=message, evidence=tuple(evidence), fix=fix, says=says)


RULE = rule("variant-property-wrong", __doc__, find_problems)
